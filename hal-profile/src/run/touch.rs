//! How START touches a register before it relies on it: [`probe`](crate::run::probe) and
//! [`lbr`](crate::run::lbr) say which.

use crate::cpu::capabilities::Capabilities;
use crate::cpu::machine::Machine;
use crate::cpu::registers::intel;
use crate::run::state::Refusals;

/// RDPMC user disable of every fixed counter, in IA32_FIXED_CTR_CTRL.
const FIXED_HIDES: u64 = intel::FIXED_USER_DISABLE * 0x1111_1111;

/// A register that a session uses, and how it is touched first. All but [`Touch::Acknowledge`] are read
/// before anything is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touch {
    /// Equal registers in a row, which are only read.
    Read { first: u32, count: u32 },
    /// The same, which are then cleared.
    Clear { first: u32, count: u32 },
    /// A counter is read by RDPMC with this ECX.
    ReadPmc(u32),
    /// A select and its counter. Where the counter is not there, the select is not the session's either
    /// and gets back what it held; else both are left off and 0.
    Counter { select_msr: u32, select: u64, counter_msr: u32, value: u64 },
    /// A register that only the session uses: `value`, then `left`.
    Own { msr: u32, value: u64, left: u64 },
    /// The session's bits of a shared register: `value`, then 0.
    Part { msr: u32, mask: u64, value: u64 },
    /// The bits of `mask` get `value`, and then the register what it held.
    Borrow { msr: u32, mask: u64, value: u64 },
    /// Status bits, which mean something else when they are read.
    Acknowledge { msr: u32, bits: u64 },
}

impl Touch {
    pub(crate) const fn read(msr: u32) -> Self {
        Self::Read { first: msr, count: 1 }
    }
}

/// Reads a register; if it is not there, returns its number.
#[inline(never)]
pub(crate) fn read(
    machine: &mut impl Machine,
    touch: &Touch,
    refusals: &mut Refusals,
) -> Result<(), u32> {
    match *touch {
        Touch::Read { first, count } | Touch::Clear { first, count } => {
            machine.try_read_msrs(first, count)
        }
        Touch::ReadPmc(pmc) => {
            // The counter's own register has been read before, so there is another way.
            refusals.rdpmc |= machine.try_read_pmc(pmc).is_err();
            Ok(())
        }
        Touch::Counter { select_msr, counter_msr, .. } => {
            machine.try_read_msrs(select_msr, 1)?;
            machine.try_read_msrs(counter_msr, 1)
        }
        Touch::Own { msr, .. } | Touch::Part { msr, .. } | Touch::Borrow { msr, .. } => {
            machine.try_read_msrs(msr, 1)
        }
        Touch::Acknowledge { .. } => Ok(()),
    }
}

/// Writes a register, which has been read, and leaves it as its [`Touch`] says.
#[inline(never)]
pub(crate) fn write(
    machine: &mut impl Machine,
    capabilities: &Capabilities,
    touch: &Touch,
    refusals: &mut Refusals,
) -> Result<(), u32> {
    match *touch {
        Touch::Read { .. } | Touch::ReadPmc(_) => Ok(()),
        Touch::Clear { first, count } => machine.try_write_msrs(first, count, 0),
        Touch::Counter { select_msr, select, counter_msr, value } => {
            let found = machine.read_msr(select_msr);
            let hides = if capabilities.user_disable { intel::USER_DISABLE } else { 0 };
            write_hidden(machine, select_msr, select, hides, refusals)?;
            leave(machine, select_msr, select, capabilities.off);
            if machine.try_write_msr(counter_msr, value).is_err() {
                machine.write_msr(select_msr, found);
                return Err(counter_msr);
            }
            leave(machine, counter_msr, value, 0);
            Ok(())
        }
        Touch::Own { msr, value, left } => {
            machine.try_write_msrs(msr, 1, value)?;
            leave(machine, msr, value, left);
            Ok(())
        }
        Touch::Part { msr, mask, value } => {
            let others = machine.read_msr(msr) & !mask;
            let hides = if capabilities.user_disable { FIXED_HIDES & mask } else { 0 };
            write_hidden(machine, msr, others | value, hides, refusals)?;
            leave(machine, msr, others | value, others);
            Ok(())
        }
        Touch::Borrow { msr, mask, value } => {
            let found = machine.read_msr(msr);
            let written = found & !mask | value;
            machine.try_write_msrs(msr, 1, written)?;
            leave(machine, msr, written, found);
            Ok(())
        }
        Touch::Acknowledge { msr, bits } => machine.try_write_msrs(msr, 1, bits),
    }
}

/// Writes a value of which the bits `hides` are not needed: where only those are refused, the counters
/// cannot be hidden.
fn write_hidden(
    machine: &mut impl Machine,
    msr: u32,
    value: u64,
    hides: u64,
    refusals: &mut Refusals,
) -> Result<(), u32> {
    let refused = machine.try_write_msrs(msr, 1, value);
    if refused.is_ok() || value & hides == 0 {
        return refused;
    }
    machine.try_write_msrs(msr, 1, value & !hides)?;
    refusals.user_disable = true;
    Ok(())
}

/// Writes what a register is left as, unless that was written.
fn leave(machine: &mut impl Machine, msr: u32, written: u64, left: u64) {
    if left != written {
        // The write may be refused: the register may have held what it does not take, as the depth
        // of branch records.
        let _ = machine.try_write_msr(msr, left);
    }
}
