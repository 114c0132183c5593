//! Functions inlined into others, those of `core` among them: their frames are compared with those of
//! LLVM's tools. With `--cfg windows_alone` it needs no library of Windows.
#![cfg_attr(windows_alone, no_std, no_main)]

use core::hint::black_box;

#[inline]
fn weight(value: u64) -> u64 {
    value.rotate_left(7).wrapping_mul(0x9E37_79B9) ^ value.count_ones() as u64
}

#[inline(never)]
fn sorted(all: &mut [u64]) -> u64 {
    all.sort_unstable_by_key(|value| weight(*value));
    let found = all.binary_search_by_key(&weight(7), |value| weight(*value));
    found.map_or_else(|at| at as u64, |at| at as u64 * 2)
}

#[inline(never)]
fn texts(text: &str) -> u64 {
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_numeric));
    words.map(|word| word.bytes().fold(0, |sum, byte| weight(sum + u64::from(byte)))).sum()
}

#[inline(never)]
fn pairs(all: &[u64]) -> u64 {
    let windows = all.windows(2).zip(all.chunks(3)).rev();
    windows.filter_map(|(two, three)| two.iter().max().zip(three.first())).map(|(a, b)| a ^ b).sum()
}

fn all() -> u64 {
    let mut numbers: [u64; 100] = core::array::from_fn(|at| weight(at as u64));
    let text = black_box("a1 b22 c d3333");
    sorted(black_box(&mut numbers)) + texts(text) + pairs(black_box(&numbers))
}

#[cfg(windows_alone)]
#[unsafe(no_mangle)]
extern "C" fn start() -> u64 {
    all()
}

#[cfg(windows_alone)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[cfg(not(windows_alone))]
fn main() {
    println!("{}", all());
}
