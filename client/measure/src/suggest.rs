//! Which names a mistyped one may have been meant to be.

/// Names less alike than this are not suggested.
const ALIKE: f64 = 0.87;
/// More suggestions than this are no help.
const MOST: usize = 3;

/// The names that an unknown one may stand for, as a sentence; `None` if none is similar.
pub fn did_you_mean(
    wanted: &str,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Option<String> {
    let wanted = wanted.to_lowercase();
    let score = |name: &str| strsim::jaro_winkler(&wanted, &name.to_lowercase());
    let scored = names.into_iter().map(|name| (score(name.as_ref()), name));
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score >= ALIKE).collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    let names = scored.iter().take(MOST);
    let names: Vec<String> = names.map(|(_, name)| format!("`{}`", name.as_ref())).collect();
    (!names.is_empty()).then(|| format!("Did you mean {}?", names.join(", ")))
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
