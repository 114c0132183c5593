//! Spelling suggestions.

/// The least Jaro-Winkler similarity, from 0 to 1, of a suggestion: a slip of the fingers passes,
/// another word does not.
const ALIKE: f64 = 0.87;
/// More suggestions than this are no help.
const MOST: usize = 3;

/// The names that an unknown one may stand for, as a sentence; `None` if none is similar.
pub fn did_you_mean(
    name: &str,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Option<String> {
    let name = name.to_lowercase();
    let mut scored: Vec<(f64, String)> = Vec::new();
    for candidate in names {
        let candidate = candidate.as_ref();
        if !can_be_alike(&name, candidate) {
            continue;
        }
        let score = strsim::jaro_winkler(&name, &candidate.to_lowercase());
        if score >= ALIKE {
            scored.push((score, format!("`{candidate}`")));
        }
    }
    if scored.is_empty() {
        return None;
    }
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    let names: Vec<String> = scored.into_iter().take(MOST).map(|(_, name)| name).collect();
    Some(format!("Did you mean {}?", names.join(", ")))
}

/// Whether names of these lengths can be alike. An unknown name from a file may be long, and is then not
/// compared letter by letter with each name of a list.
///
/// Jaro's similarity is at most (shorter / longer + 2) / 3, and Winkler adds at most 0.4 of what is
/// missing, so the shorter has at least 0.35 of the longer's letters. A letter has 1 to 4 bytes.
fn can_be_alike(one: &str, other: &str) -> bool {
    let (shorter, longer) = (one.len().min(other.len()), one.len().max(other.len()));
    longer / 4 <= 3 * shorter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_has_lengths_that_can_be() {
        for (one, other, can_be) in [
            ("", "", true),
            ("ab", "abcdefghijkl", true),
            ("cycles", "instructions", true),
            ("ab", &*"c".repeat(28), false),
            ("instructions", &*"c".repeat(300_000), false),
        ] {
            assert_eq!(can_be_alike(one, other), can_be, "{one}");
            assert_eq!(can_be_alike(other, one), can_be, "{one}");
        }
        // The longest that are alike: the same beginning, and nothing else.
        for length in 1..60 {
            for more in 0..250 {
                for (letter, added) in [("e", "e"), ("é", "e"), ("e", "é")] {
                    let one = letter.repeat(length);
                    let other = one.clone() + &added.repeat(more);
                    let is_alike = strsim::jaro_winkler(&one, &other) >= ALIKE;
                    assert!(!is_alike || can_be_alike(&one, &other), "{length} {more}");
                }
            }
        }
    }

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let names = ["ipc", "branch-mpki", "branch-miss-rate", "kernel-share"];
        let meant = |name| did_you_mean(name, names);
        assert_eq!(meant("IPc"), Some("Did you mean `ipc`?".to_owned()));
        assert_eq!(
            meant("branch-mpi"),
            Some("Did you mean `branch-mpki`, `branch-miss-rate`?".to_owned())
        );
        assert_eq!(meant("kernelshare"), Some("Did you mean `kernel-share`?".to_owned()));
        assert_eq!(meant("xyzzy"), None);
    }
}
