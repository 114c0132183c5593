//! When a host's processors and the thread that serves requests may use the same memory: the two
//! atomics that decide it. loom tries them in every order.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The processors that have not finished their part of a call, and the thread that waits for them.
///
/// Whoever is last has seen what all others wrote.
#[derive(Debug, Default)]
pub struct Pending(AtomicU32);

impl Pending {
    /// The thread begins a call. It counts as one, so that a processor that is done at once is not
    /// taken for the last before all have been called.
    pub fn begin(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// A processor is going to be called. Before it is, for it may be done at once.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A processor or the thread is done; returns whether it was the last.
    #[must_use]
    pub fn one_done(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Whether a processor runs the program. Only that processor changes it, with interrupts masked, so
/// what it reads there is true until its code ends; elsewhere it is a hint.
#[derive(Debug, Default)]
pub struct Running(AtomicBool);

impl Running {
    /// Notes whether the program runs from here on. The processor itself, masked.
    #[inline]
    pub fn note(&self, runs: bool) {
        // Relaxed: only this processor acts on it. The thread learns that a run has ended from the call
        // that ends it, through `Pending`.
        self.0.store(runs, Ordering::Relaxed);
    }

    /// Whether the program runs.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Calls `work` if the program runs. `work` may use what the thread changes only while nothing
    /// runs. On the processor itself.
    #[inline]
    pub fn then<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.is_set().then(work)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex, mpsc};
    use loom::thread;

    struct Shared {
        pending: Pending,
        /// The event for which the thread waits.
        done: (Mutex<bool>, Condvar),
        program: UnsafeCell<u32>,
    }

    impl Shared {
        fn one_done(&self) {
            if self.pending.one_done() {
                *self.done.0.lock().unwrap() = true;
                self.done.1.notify_one();
            }
        }

        fn call(&self, call: &mpsc::Sender<bool>, runs: bool) {
            *self.done.0.lock().unwrap() = false;
            self.pending.begin();
            self.pending.add();
            call.send(runs).unwrap();
            self.one_done();
            let mut done = self.done.0.lock().unwrap();
            while !*done {
                done = self.done.1.wait(done).unwrap();
            }
        }
    }

    /// A processor that is called to start and to stop, with a tick or an interrupt after each.
    fn processor(shared: &Shared, calls: &mpsc::Receiver<bool>) {
        let running = Running::default();
        for _ in 0..2 {
            running.note(calls.recv().unwrap());
            shared.one_done();
            running.then(|| shared.program.with(|_| ()));
        }
    }

    /// The thread writes the program, has the processor start and stop, and writes the next one.
    #[test]
    fn no_program_is_written_while_a_processor_reads_it() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                pending: Pending::default(),
                done: (Mutex::new(false), Condvar::new()),
                program: UnsafeCell::new(0),
            });
            let (call, calls) = mpsc::channel();
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || processor(&shared, &calls))
            };
            shared.program.with_mut(|_| ());
            shared.call(&call, true);
            shared.call(&call, false);
            shared.program.with_mut(|_| ());
            other.join().unwrap();
        });
    }
}
