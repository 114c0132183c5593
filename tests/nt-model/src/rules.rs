//! What a driver must not do.

use std::fmt;

/// A rule's name, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A function was called above its highest IRQL.
    Irql,
    /// Memory was touched that is not the driver's, or not any more.
    Memory,
    /// Pool was freed twice, with another tag, or never taken.
    PoolFree,
    /// Pool is left after unload.
    PoolLeak,
    /// Something waited where nothing may wait.
    Wait,
    /// A request was completed twice, or not at all.
    Request,
    /// A framework object was used after it was deleted, or is none.
    Object,
    /// A lock was taken twice by one thread, or released by another.
    Lock,
    /// Something of the driver's is alive after unload.
    Alive,
    /// A register or a reservation is left as a session had it, though none is open.
    Left,
    /// Silicon refused an access to a register.
    Register,
    /// Interrupts stayed masked for too many instructions.
    Masked,
    /// A function ran for too many instructions without an end.
    Endless,
    /// Something that is not modelled.
    Unmodelled,
    /// The driver stopped the system.
    BugCheck,
}

impl Rule {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Irql => "irql",
            Self::Memory => "memory",
            Self::PoolFree => "pool-free",
            Self::PoolLeak => "pool-leak",
            Self::Wait => "wait",
            Self::Request => "request",
            Self::Object => "object",
            Self::Lock => "lock",
            Self::Alive => "alive",
            Self::Left => "left",
            Self::Register => "register",
            Self::Masked => "masked",
            Self::Endless => "endless",
            Self::Unmodelled => "unmodelled",
            Self::BugCheck => "bug-check",
        }
    }
}

/// A rule, broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What happened.
    pub what: String,
    /// Return addresses, the innermost first, as offsets in the image.
    pub stack: Vec<u64>,
}

impl Violation {
    /// A violation without a stack yet.
    #[must_use]
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self {
            rule,
            what: what.into(),
            stack: Vec::new(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule.name(), self.what)?;
        for address in &self.stack {
            write!(f, "\n  at halprof.sys+{address:#x}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}
