//! What the user looks for in a list.

use halprof_profile::symbols::Pattern;

/// Case is ignored.
pub(super) enum Search {
    All,
    /// Whole names, in which `*` stands for any text.
    Names(Pattern),
    /// Any part of a name or of a description, in lower case.
    Part(String),
}

impl Search {
    pub(super) fn new(pattern: Option<&str>) -> Self {
        match pattern {
            None => Self::All,
            Some(names) if names.contains('*') => Self::Names(Pattern::new(names)),
            Some(part) => Self::Part(part.trim().to_lowercase()),
        }
    }

    /// Whether something is looked for that has these names and descriptions.
    pub(super) fn finds(&self, names: &[&str], descriptions: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Names(pattern) => names.iter().any(|name| pattern.matches(name)),
            Self::Part(part) => {
                let mut texts = names.iter().chain(descriptions);
                texts.any(|text| text.to_lowercase().contains(part))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_in_names_and_descriptions_and_a_glob_in_whole_names() {
        let (names, descriptions) = (["L2_RQSTS.MISS"], ["Requests to the L2 that missed."]);
        for (pattern, is_found) in [
            (None, true),
            (Some("l2_rq"), true),
            (Some("That Missed"), true),
            (Some("L3"), false),
            (Some("l2*miss"), true),
            (Some("L2_RQ*"), true),
            (Some("*that missed*"), false),
            (Some("*miss"), true),
            (Some("rqsts*"), false),
        ] {
            assert_eq!(Search::new(pattern).finds(&names, &descriptions), is_found, "{pattern:?}");
        }
    }
}
