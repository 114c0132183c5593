//! The same for rustc, without its standard library, so that it links without Windows' libraries.
#![no_std]
#![no_main]

use core::hint::black_box;

#[panic_handler]
fn stopped(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

struct Sum<T>(T);

trait Add {
    fn add(&mut self, value: u64);
}

impl Add for Sum<u64> {
    #[inline(never)]
    fn add(&mut self, value: u64) {
        self.0 = black_box(self.0 ^ value).rotate_left(7);
    }
}

#[inline(never)]
fn generic<T: Add>(all: &mut T, turns: u64) {
    let mut turn = |value| all.add(black_box(value));
    for value in 0..turns {
        turn(value * 3);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn start() -> u64 {
    let mut sum = Sum(7);
    generic(&mut sum, black_box(100));
    sum.0
}
