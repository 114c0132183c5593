//! What an input may cost. Recordings, symbol files, archives and formulas come from strangers, and
//! what reads them must take the time, the memory and the stack that their size is worth: a file of a
//! few kilobytes that says "four gigabytes", or names one thing a million times, is refused or cut.
//!
//! Each limit is far above what compilers and linkers write. Whoever reaches one says so ("symbols of
//! NAME are left out: ...", "... are cut: ...") and goes on with everything else. The amounts that
//! grow have a floor, since small files may be packed or shared well.

/// What a packed file may always become: 64 MiB.
const EXPANDED_ALWAYS: u64 = 64 << 20;

/// How many bytes each byte of a file may become. Compilers' debug information shrinks to a third, and
/// text to a tenth. zstd can say 32,768 bytes in one, deflate 1,032.
const EXPANSION: u64 = 64;

/// The most bytes that all compressed parts of a file of this length may have together once they are
/// expanded. A part that is expanded twice counts twice.
pub const fn expanded(length: u64) -> u64 {
    at_least(EXPANDED_ALWAYS, length.saturating_mul(EXPANSION))
}

/// The most bytes that are read of a file of this length: each byte four times. Parts may share bytes
/// (a table and the section that holds it), but not all of them all bytes.
pub const fn read(length: u64) -> u64 {
    at_least(EXPANDED_ALWAYS, length.saturating_mul(4))
}

/// The most entries of one kind (lines, inlined calls, ranges of addresses) that are kept of a file of
/// this length. An entry takes 24 to 104 bytes of memory, and at least two in a file that is not
/// packed; the floor is for those that are.
pub const fn entries(length: u64) -> u64 {
    at_least(1 << 22, length / 4)
}

/// The most steps that finding the names of all functions of a file of this length may take, where one
/// step is one record or one byte that is looked at for a name. A name takes some twenty records.
pub const fn steps(length: u64) -> u64 {
    at_least(1 << 24, length)
}

/// The deepest nesting that is followed: functions inlined into others, types made of others. Compilers
/// stop at some tens. Functions that call themselves for each level take less than 2 KiB a level, and
/// the stack of a Windows program is 2 MiB.
pub const DEPTH: usize = 256;

/// The longest name that is read, in bytes. CodeView's records end at 64 KiB, and templates of Boost
/// and Eigen come near it.
pub const NAME: usize = 1 << 16;

/// The longest name that is shown, in bytes: no terminal, web page or profile viewer has use for more.
/// What is cut ends with a mark that tells it from others with the same beginning.
pub const NAME_SHOWN: usize = 1 << 12;

/// The longest name that is demangled, in bytes. Demanglers recurse once for each part of a name.
pub const MANGLED: usize = 1 << 10;

/// The most tokens of a metric's formula. Vendors' longest have some 300.
pub const FORMULA_TOKENS: usize = 1_000;

/// The longest augmentation of unwinding information, in letters. Compilers write at most five
/// (`zPLRS`), and each entry of a table leads to it.
pub const AUGMENTATION: usize = 16;

const fn at_least(floor: u64, amount: u64) -> u64 {
    if amount < floor { floor } else { amount }
}
