//! Strings, and what C programs expect of their runtime.

use super::{done, touch};
use crate::machine::{Machine, Outcome};
use crate::memory::{ARENA, ARENA_SIZE};
use crate::rules::Violation;

pub(super) fn copy_unicode(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, from) = (m.engine.argument(0), m.engine.argument(1));
    let most = m.engine.read_u32(to) >> 16;
    let length = (m.engine.read_u32(from) & 0xFFFF).min(most);
    let bytes = m.engine.bytes(m.engine.read_u64(from + 8), length as usize);
    let buffer = m.engine.read_u64(to + 8);
    m.engine.write(buffer, &bytes);
    m.engine.write(to, &(length as u16).to_le_bytes());
    done()
}

/// What the C functions access is checked like the driver's own accesses, if it is in the arena.
fn touched(m: &mut Machine, writes: bool, at: u64, size: u64) -> Result<(), Violation> {
    if size > 0 && (at >= ARENA || size > ARENA_SIZE) {
        touch(m, at, size)?;
        m.engine.bus().access(writes, at, size);
    }
    Ok(())
}

pub(super) fn copy(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, from, size) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    touched(m, true, to, size)?;
    touched(m, false, from, size)?;
    let bytes = m.engine.bytes(from, size as usize);
    m.engine.write(to, &bytes);
    Ok(Outcome::Return(to))
}

pub(super) fn fill(m: &mut Machine) -> Result<Outcome, Violation> {
    let (to, byte, size) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    touched(m, true, to, size)?;
    m.engine.write(to, &vec![byte as u8; size as usize]);
    Ok(Outcome::Return(to))
}

pub(super) fn compare(m: &mut Machine) -> Result<Outcome, Violation> {
    let (one, other, size) = (m.engine.argument(0), m.engine.argument(1), m.engine.argument(2));
    touched(m, false, one, size)?;
    touched(m, false, other, size)?;
    let (one, other) = (m.engine.bytes(one, size as usize), m.engine.bytes(other, size as usize));
    let order = one.cmp(&other) as i64;
    Ok(Outcome::Return(order.cast_unsigned()))
}

/// RAX holds the number of bytes of stack that a function will use, and must be preserved.
pub(super) fn check_stack(m: &mut Machine) -> Result<Outcome, Violation> {
    Ok(Outcome::Return(m.engine.returned()))
}
