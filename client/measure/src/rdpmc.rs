//! The instructions with which a thread reads its processor's counters: RDTSC, RDTSCP and RDPMC.
//!
//! A time stamp is read as the manuals say, so that the measured code neither starts before the
//! first reading nor ends after the second. Before the code stand a fence, RDTSC and a fence; after
//! it stand RDTSCP, which waits for all earlier instructions, and a fence, so that later
//! instructions do not start (Intel SDM, RDTSC and RDTSCP). CPUID would be a fence too, but under a
//! hypervisor it always exits.

use std::fmt::{Display, Formatter, Result as Formatted};

/// How to read this processor's time stamp, by its own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    fence: Fence,
    /// Whether there is RDTSCP. Without it, a fence and RDTSC take its place.
    rdtscp: bool,
    /// The counter's rate never changes.
    invariant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// LFENCE waits for all instructions before it.
    Lfence,
    /// LFENCE waits only if an MSR says so, and a thread cannot read that MSR. MFENCE is added,
    /// because it waits in any case.
    MfenceLfence,
    /// There is no x86 time-stamp counter: nanoseconds from the operating system.
    System,
}

/// Added if the counter is not invariant.
const VARYING: &str = ", at a rate that changes with the processor's frequency";

/// What CPUID reports about it.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// EBX of leaf 0; 0 on other architectures.
    vendor: u32,
    family: u32,
    /// Leaf 0x80000001 EDX bit 27.
    rdtscp: bool,
    /// Leaf 0x80000007 EDX bit 8.
    invariant: bool,
    /// Leaf 0x80000021 EAX bit 2.
    lfence_always: bool,
}

impl Clock {
    /// The clock of the processor that runs the thread.
    pub fn here() -> Self {
        Self::of(instructions::facts())
    }

    fn of(facts: Facts) -> Self {
        let intel = facts.vendor == u32::from_le_bytes(*b"Genu");
        // AMD, Software techniques for managing speculation: families 0Fh and 11h always.
        let always = facts.lfence_always || matches!(facts.family, 0x0F | 0x11);
        Self {
            fence: match facts.vendor {
                0 => Fence::System,
                _ if intel || always => Fence::Lfence,
                _ => Fence::MfenceLfence,
            },
            rdtscp: facts.rdtscp,
            invariant: facts.invariant,
        }
    }

    /// The time before the measured code.
    pub fn before(&self) -> u64 {
        self.fence();
        let ticks = instructions::rdtsc();
        // Without it, code that is measured may begin before the time is read (SDM vol. 2,
        // "RDTSC").
        instructions::lfence();
        ticks
    }

    /// The time after the measured code.
    pub fn after(&self) -> u64 {
        // RDTSCP itself waits for all instructions before it (SDM vol. 2, "RDTSCP").
        let ticks = if self.rdtscp {
            instructions::rdtscp()
        } else {
            self.fence();
            instructions::rdtsc()
        };
        instructions::lfence();
        ticks
    }

    /// How the time of a mark is read: see [`marks`](crate::marks).
    pub fn unfenced(&self) -> String {
        match self.fence {
            Fence::System => self.to_string(),
            _ if self.invariant => "RDTSC without a fence".to_owned(),
            _ => format!("RDTSC without a fence{VARYING}"),
        }
    }

    fn fence(self) {
        if self.fence == Fence::MfenceLfence {
            instructions::mfence();
        }
        instructions::lfence();
    }
}

impl Display for Clock {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        let before = match self.fence {
            Fence::Lfence => "LFENCE RDTSC LFENCE",
            Fence::MfenceLfence => "MFENCE LFENCE RDTSC LFENCE",
            Fence::System => return f.write_str("the system's clock"),
        };
        let after = if self.rdtscp { "RDTSCP LFENCE" } else { before };
        write!(f, "{before} before, {after} after")?;
        if !self.invariant {
            f.write_str(VARYING)?;
        }
        Ok(())
    }
}

/// The time-stamp counter, roughly now: nearby instructions may be executed before or after it.
#[inline]
pub(crate) fn timestamp() -> u64 {
    instructions::rdtsc()
}

/// Executes this many instructions in user mode, rounded down to an even number, and a few more to
/// begin and to end. Returns `None` on processors other than x86-64, where nothing is executed.
pub fn known_loop(instructions: u64) -> Option<u64> {
    let iterations = instructions / 2;
    instructions::count_down(iterations).then_some(iterations * 2)
}

/// RDPMC.
///
/// If CR4.PCE is clear the processor refuses the instruction and the program ends: call this only
/// while a session of the driver keeps it set on every processor.
#[cfg(windows)]
pub(crate) fn rdpmc(ecx: u32) -> u64 {
    instructions::rdpmc(ecx)
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that the language has no words for")]
mod instructions {
    use super::Facts;
    use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _mm_mfence, _rdtsc};

    #[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
    pub(super) fn facts() -> Facts {
        let leaf = |leaf: u32| {
            // SAFETY: every 64-bit processor has CPUID.
            unsafe { __cpuid(leaf) }
        };
        let signature = leaf(1).eax;
        let base = signature >> 8 & 0xF;
        let extended = if base == 0xF { signature >> 20 & 0xFF } else { 0 };
        let highest = leaf(0x8000_0000).eax;
        let bit = |number: u32, register: fn(std::arch::x86_64::CpuidResult) -> u32, bit: u32| {
            highest >= number && register(leaf(number)) >> bit & 1 != 0
        };
        Facts {
            vendor: leaf(0).ebx,
            family: base + extended,
            rdtscp: bit(0x8000_0001, |leaf| leaf.edx, 27),
            invariant: bit(0x8000_0007, |leaf| leaf.edx, 8),
            lfence_always: bit(0x8000_0021, |leaf| leaf.eax, 2),
        }
    }

    #[inline]
    pub(super) fn rdtsc() -> u64 {
        // SAFETY: RDTSC reads a counter; Windows and Linux let every thread do so.
        unsafe { _rdtsc() }
    }

    pub(super) fn rdtscp() -> u64 {
        let mut processor = 0;
        // SAFETY: the caller has checked by CPUID that it exists; `processor` is valid for a write.
        unsafe { __rdtscp(&raw mut processor) }
    }

    pub(super) fn lfence() {
        // SAFETY: every 64-bit processor has it, and it changes nothing.
        unsafe { _mm_lfence() }
    }

    pub(super) fn mfence() {
        // SAFETY: as for LFENCE.
        unsafe { _mm_mfence() }
    }

    /// Two instructions an iteration; returns whether this processor has them.
    pub(super) fn count_down(iterations: u64) -> bool {
        if iterations != 0 {
            // SAFETY: it changes the register that it is given, which is not 0, until that is 0.
            unsafe {
                std::arch::asm!(
                    "2:", "dec {left}", "jnz 2b",
                    left = inout(reg) iterations => _,
                    options(nomem, nostack)
                );
            }
        }
        true
    }

    #[cfg(windows)]
    pub(super) fn rdpmc(ecx: u32) -> u64 {
        // RDPMC waits for no instruction before it, and later ones may overtake it (Intel SDM,
        // RDPMC): hence the fences.
        let (low, high): (u32, u32);
        // SAFETY: it reads a counter, or the processor refuses it and the program ends.
        unsafe {
            std::arch::asm!(
                "lfence", "rdpmc", "lfence",
                in("ecx") ecx, out("eax") low, out("edx") high,
                options(nostack, preserves_flags)
            );
        }
        u64::from(high) << 32 | u64::from(low)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod instructions {
    use super::Facts;
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn facts() -> Facts {
        Facts { invariant: true, ..Facts::default() }
    }

    pub(super) fn rdtsc() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(super) fn rdtscp() -> u64 {
        rdtsc()
    }

    pub(super) const fn lfence() {}

    pub(super) const fn mfence() {}

    pub(super) const fn count_down(_iterations: u64) -> bool {
        false
    }

    #[cfg(windows)]
    pub(super) const fn rdpmc(_ecx: u32) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(vendor: [u8; 4], family: u32, lfence_always: bool, rdtscp: bool) -> String {
        let facts = Facts {
            vendor: u32::from_le_bytes(vendor),
            family,
            rdtscp,
            invariant: true,
            lfence_always,
        };
        Clock::of(facts).to_string()
    }

    #[test]
    fn each_processor_has_its_own_rule() {
        let plain = "LFENCE RDTSC LFENCE before, RDTSCP LFENCE after";
        let guarded = "MFENCE LFENCE RDTSC LFENCE before, RDTSCP LFENCE after";
        for (vendor, family, always, rule) in [
            (*b"Genu", 6, false, plain),
            (*b"Auth", 0x0F, false, plain),
            (*b"Auth", 0x11, false, plain),
            (*b"Auth", 0x10, false, guarded),
            (*b"Auth", 0x17, false, guarded),
            (*b"Auth", 0x19, true, plain),
            (*b"Cent", 6, false, guarded),
        ] {
            assert_eq!(words(vendor, family, always, true), rule, "{family:#x}");
        }
        // A Core 2 has no RDTSCP.
        let core2 = words(*b"Genu", 6, false, false);
        assert!(core2.ends_with("LFENCE RDTSC LFENCE after"), "{core2}");
        let varying = Facts { vendor: 1, ..Facts::default() };
        let varying = Clock::of(varying).to_string();
        assert!(varying.contains("frequency"), "{varying}");
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = Clock::here();
        for _ in 0..1000 {
            let before = clock.before();
            assert!(clock.after() >= before);
        }
    }
}
