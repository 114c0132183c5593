//! Whole numbers in calculations with fractions.

/// The nearest float. Where one is used, a figure needs no more than its 53 bits.
#[expect(clippy::cast_precision_loss, reason = "that is its purpose")]
pub fn float(value: impl Into<u128>) -> f64 {
    value.into() as f64
}
