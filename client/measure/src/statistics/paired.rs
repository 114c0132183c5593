//! What changed between two programs that ran in pairs, in the order before, after, after, before. What
//! drifts from run to run, as clocks and temperatures do, meets both of a pair.

use super::deviations;
use crate::float::float;

/// The means over pairs, and what their difference is sure to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// The value before.
    pub before: f64,
    /// The value after.
    pub after: f64,
    /// Half of the 95 % interval of the difference; `None` of fewer than three pairs.
    pub bound: Option<f64>,
}

/// The pairs of one order.
#[derive(Clone, Copy)]
struct Order {
    pairs: f64,
    before: f64,
    after: f64,
}

impl Order {
    /// `None` of no pair.
    fn of(pairs: &[[f64; 2]]) -> Option<Self> {
        let n = float(pairs.len() as u64);
        let mean = |side: usize| pairs.iter().map(|pair| pair[side]).sum::<f64>() / n;
        (!pairs.is_empty()).then(|| Self { pairs: n, before: mean(0), after: mean(1) })
    }
}

/// Compares the values of pairs, each before and after, in the order of time: the program before ran
/// first in the first pair, in the third, and so on.
///
/// A drift makes whatever runs second differ, with one sign where that is the program after and with the
/// other where it is the program before. So the two orders are averaged apart, and both count the same
/// (the crossover design of two periods: J. E. Grizzle, The two-period change-over design and its use in
/// clinical trials, Biometrics 21, 1965). A steady drift is then in no bound. `None` if there is no pair.
pub fn compare(pairs: &[[f64; 2]]) -> Option<Paired> {
    let (first, second): (Vec<_>, Vec<_>) =
        pairs.iter().enumerate().partition(|(index, _)| index.is_multiple_of(2));
    let orders = [first, second]
        .map(|order| order.into_iter().map(|(_, &pair)| pair).collect::<Vec<[f64; 2]>>());
    let means: Vec<Order> = orders.iter().filter_map(|order| Order::of(order)).collect();
    let number = float(means.len() as u64);
    let mean = |of: fn(&Order) -> f64| means.iter().map(of).sum::<f64>() / number;
    let (before, after) = (mean(|order| order.before), mean(|order| order.after));
    // A pair whose values are larger differs by more.
    let ratio = if before > 0.0 { after / before } else { 1.0 };
    let left = |pair: &[f64; 2]| pair[1] - ratio * pair[0];
    let squares = orders.iter().zip(&means).flat_map(|(order, mean)| {
        let expected = mean.after - ratio * mean.before;
        order.iter().map(move |pair| (left(pair) - expected).powi(2))
    });
    let freedom = float(pairs.len() as u64) - number;
    let variance = squares.sum::<f64>() / freedom;
    let of_mean = means.iter().map(|order| 1.0 / order.pairs).sum::<f64>() / number.powi(2);
    let bound = (freedom >= 1.0 && means.len() == 2)
        .then(|| deviations(0.05, freedom) * (variance * of_mean).sqrt());
    (!means.is_empty()).then_some(Paired { before, after, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `shift` of what runs second, beside the program's own value.
    fn pairs(number: usize, after: f64, step: f64) -> Vec<[f64; 2]> {
        let run = |index: usize| 1000.0 + step * float(index as u64);
        let pair = |at: usize| {
            let (earlier, later) = (run(2 * at), run(2 * at + 1));
            if at.is_multiple_of(2) { [earlier, later + after] } else { [later, earlier + after] }
        };
        (0..number).map(pair).collect()
    }

    #[test]
    fn a_steady_drift_is_no_difference() {
        for (number, after, step) in [
            (4, 0.0, 0.0),
            (4, 0.0, 30.0),
            (5, 0.0, 30.0),
            (6, 50.0, 30.0),
            (7, 50.0, -30.0),
            (3, -20.0, 10.0),
        ] {
            let found = compare(&pairs(number, after, step)).expect("pairs");
            let what = format!("{number} {after} {step}: {found:?}");
            let wrong = (found.after - found.before - after).abs();
            assert!(wrong < 1e-9, "{what}");
            let bound = found.bound.expect("three pairs");
            // Where values grow a difference is a smaller part of them.
            let growth = (after * step).abs() * 0.05;
            assert!(bound < 1e-9 + growth, "{what}");
        }
    }

    /// Both orders have half of the pairs: this is Student's interval with two means taken away.
    #[test]
    fn the_bound_is_student_s() {
        let pairs = [[10.0, 13.0], [10.0, 11.0], [10.0, 15.0], [10.0, 9.0]];
        let found = compare(&pairs).expect("pairs");
        assert_eq!((found.before, found.after), (10.0, 12.0));
        // Squares 4 x 1, freedom 2, so the variance is 2; of the mean (1/2 + 1/2) / 4.
        let expected = 4.302_652_73 * (2.0_f64 * 0.25).sqrt();
        assert!((found.bound.expect("a bound") - expected).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn too_few_pairs_have_no_bound() {
        assert_eq!(compare(&[]), None);
        for number in [1, 2] {
            let found = compare(&pairs(number, 5.0, 0.0)).expect("pairs");
            assert!(found.bound.is_none() && found.after > found.before, "{found:?}");
        }
        let nothing = compare(&[[0.0, 0.0]; 4]).expect("pairs");
        assert_eq!((nothing.before, nothing.after, nothing.bound), (0.0, 0.0, Some(0.0)));
    }
}
