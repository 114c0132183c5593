//! How often events usually come, where nothing was counted.

use serde::Deserialize;

const TABLE: &str = include_str!("typical_rates.csv");

#[derive(Deserialize)]
struct Row {
    quantity: String,
    in_a_million_cycles: u64,
}

fn rows() -> impl Iterator<Item = Row> {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.comment(Some(b'#')).from_reader(TABLE.as_bytes());
    reader.into_deserialize().flatten()
}

/// How many events of a quantity come in this many cycles; `None` if that is not known.
pub(crate) fn events_in(quantity: &str, cycles: u64) -> Option<u64> {
    let row = rows().find(|row| row.quantity == quantity)?;
    let events = u128::from(row.in_a_million_cycles) * u128::from(cycles) / 1_000_000;
    u64::try_from(events).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::cpu::event::Event;
    use sim::load::workload::Workload;

    #[test]
    fn the_table_is_the_default_workload() {
        let workload = Workload::default();
        let cycles = workload.amount(Event::Cycles);
        let mut known = 0;
        for row in rows() {
            let name = match row.quantity.as_str() {
                "reference-cycles" => "ref-cycles",
                other => other,
            };
            let event = Event::ALL.into_iter().find(|event| event.name() == name);
            let amount = workload.amount(event.expect(name));
            let expected = (amount * 1_000_000 + cycles / 2) / cycles;
            assert_eq!(row.in_a_million_cycles, expected, "{name}");
            known += 1;
        }
        assert_eq!(known, Event::ALL.len() - 1, "all but cycles");
        assert_eq!(events_in("branch-misses", 3_000_000), Some(8_001));
        assert_eq!(events_in("no-such", 3_000_000), None);
    }
}
