//! Turns the rows of `facts/errors.csv` that have a number into `ErrorCode`.

use halprof_facts::{Output, Row, refusals};

/// What `concerns` may say, and the variant of `Concern` for it.
const CONCERNS: [(&str, &str); 4] =
    [("", "Request"), ("source", "Source"), ("placement", "Placement"), ("counters", "Counters")];

fn main() {
    let rows = refusals();
    let variants: Vec<String> = rows.iter().map(declared).collect();
    let arms: Vec<String> = CONCERNS.iter().filter_map(|one| arm(&rows, one)).collect();
    if let Some(row) = rows.iter().find(|row| CONCERNS.iter().all(|one| one.0 != row["concerns"])) {
        row.reject("concerns");
    }
    Output::of_errors().write(
        "error_codes",
        &format!(
            "wire_enum! {{\n\
             /// Why a request was refused. `subject` and `detail` are the fields of the reply's header.\n\
             ErrorCode {{\n{}}}\n}}\n\
             impl ErrorCode {{\n\
             /// What its `subject` is.\n\
             pub const fn concerns(self) -> Concern {{\n\
             match self {{\n{}}}\n}}\n}}\n",
            variants.concat(),
            arms.concat(),
        ),
    );
}

fn declared(row: &Row) -> String {
    let variant = variant(row);
    let (doc, number, name) = (&row["wire"], &row["number"], &row["name"]);
    format!("#[doc = {doc:?}]\n{variant} = {number} {name:?}\n")
}

/// `does-not-fit` as `DoesNotFit`.
fn variant(row: &Row) -> String {
    let words = row["name"].split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// The arm for all rows with this word.
fn arm(rows: &[Row], (word, concern): &(&str, &str)) -> Option<String> {
    let rows = rows.iter().filter(|row| row["concerns"] == *word);
    let patterns: Vec<String> = rows.map(|row| format!("Self::{}", variant(row))).collect();
    (!patterns.is_empty()).then(|| format!("{} => Concern::{concern},\n", patterns.join(" | ")))
}
