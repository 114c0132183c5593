//! The owners of counters, as Windows reports them (TraceQueryInformation, classes 25 and 27; evntrace.h).

use zerocopy::FromBytes;

/// The kinds of owners (ETW_PMC_COUNTER_OWNER_TYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// The counter has no owner.
    Free,
    /// The owner has given no tag.
    Untagged,
    /// The owner has given a tag, whose meaning Microsoft does not document.
    Tagged,
    /// The owner has given a tag, and counts one source of Windows' list.
    TaggedWithSource,
}

/// The owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterOwner {
    /// The processor.
    pub processor: u32,
    /// The counter, counted from 0 in Windows' own order.
    pub counter: u32,
    /// The kind of its owner; `None` for one that evntrace.h does not name.
    pub kind: Option<OwnerKind>,
    /// The source it counts, where the kind says that there is one.
    pub source: u32,
    /// The owner's tag.
    pub tag: u32,
}

/// A tracing session that uses counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSession {
    /// The logger's number.
    pub logger: u16,
    /// How many sources it counts.
    pub sources: u32,
    /// How many events carry their counts.
    pub events: u32,
}

/// The owners of counters. `None` where this version of Windows does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterOwners {
    /// The counters that have an owner (Windows 11 21H2 and later).
    pub counters: Option<Vec<CounterOwner>>,
    /// The sessions that use counters (Windows 11 22H2 and later).
    pub sessions: Option<Vec<CounterSession>>,
}

/// ETW_PMC_COUNTER_OWNERSHIP_STATUS: the processor and the number of counters, then for each counter
/// the owner's type, the source and the tag. Whatever does not fit ends it.
pub(super) fn owners(bytes: &[u8]) -> Vec<CounterOwner> {
    let mut owners = Vec::new();
    let mut rest = bytes;
    while let Ok(([processor, count], following)) = <[u32; 2]>::read_from_prefix(rest) {
        rest = following;
        for counter in 0..count {
            let Ok(([kind, source, tag], following)) = <[u32; 3]>::read_from_prefix(rest) else {
                return owners;
            };
            rest = following;
            owners.push(CounterOwner { processor, counter, kind: kind_of(kind), source, tag });
        }
    }
    owners
}

const fn kind_of(number: u32) -> Option<OwnerKind> {
    match number {
        0 => Some(OwnerKind::Free),
        1 => Some(OwnerKind::Untagged),
        2 => Some(OwnerKind::Tagged),
        3 => Some(OwnerKind::TaggedWithSource),
        _ => None,
    }
}

/// ETW_PMC_SESSION_INFO: entries that say where the next one is. What follows an entry's head is not
/// documented, and not read.
pub(super) fn sessions(bytes: &[u8]) -> Vec<CounterSession> {
    const HEAD: usize = 16;
    let mut sessions = Vec::new();
    let mut rest = bytes;
    while let Ok(([next, logger, sources, events], _)) = <[u32; 4]>::read_from_prefix(rest) {
        // The upper half of the logger's word is reserved.
        sessions.push(CounterSession { logger: logger as u16, sources, events });
        // An offset that is shorter than an entry would lead back into this one, again and again.
        match rest.get(next as usize..) {
            Some(following) if next as usize >= HEAD => rest = following,
            _ => break,
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn owners_are_read_as_evntrace_h_lays_them_out() {
        let status = bytes(&[0, 2, 0, 0, 0, 3, 26, 0x5444_5420, 1, 1, 2, 0, 7]);
        let owner = |processor, counter, kind, source, tag| CounterOwner {
            processor,
            counter,
            kind,
            source,
            tag,
        };
        let expected = [
            owner(0, 0, Some(OwnerKind::Free), 0, 0),
            owner(0, 1, Some(OwnerKind::TaggedWithSource), 26, 0x5444_5420),
            owner(1, 0, Some(OwnerKind::Tagged), 0, 7),
        ];
        assert_eq!(owners(&status), expected);
        assert_eq!(owners(&status[..status.len() - 1]), expected[..2], "cut");
        assert_eq!(owners(&bytes(&[0, u32::MAX])), [], "a count without counters");
    }

    #[test]
    fn sessions_are_read_as_evntrace_h_lays_them_out() {
        let two = bytes(&[24, 0xFFFF_0003, 1, 1, 26, 0x0F2F, 0, 9, 4, 1]);
        let expected = [(3, 1, 1), (9, 4, 1)];
        let expected =
            expected.map(|(logger, sources, events)| CounterSession { logger, sources, events });
        assert_eq!(sessions(&two), expected);
        assert_eq!(sessions(&bytes(&[4, 1, 0, 0])).len(), 1, "an offset into itself");
    }

    proptest! {
        #[test]
        fn any_bytes_are_owners(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(owners(&bytes).len() <= bytes.len() / 12);
            prop_assert!(sessions(&bytes).len() <= bytes.len() / 16);
        }
    }
}
