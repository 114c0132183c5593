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

#[cfg(test)]
mod tests {
    use super::*;

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
