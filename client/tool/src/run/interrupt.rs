//! Ctrl-C: the first ends the measurement, the second the process.

#[cfg(unix)]
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long after a program halprof may learn of the same Ctrl-C.
const AFTER: Duration = Duration::from_millis(250);
/// The exit status after a second Ctrl-C.
const ENDED_BY_INTERRUPT: i32 = 130;

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let interrupted = Arc::default();
    // If no handler can be installed, Ctrl-C ends the process, and closing its handle ends the
    // session.
    let _ = handle_interrupts(&interrupted);
    interrupted
});

/// Makes Ctrl-C end the measurement and not the process: what was counted so far is printed. A
/// second Ctrl-C ends the process at once.
pub(crate) fn watch_for_interrupt() {
    LazyLock::force(&INTERRUPTED);
}

#[cfg(windows)]
fn handle_interrupts(interrupted: &Arc<AtomicBool>) -> Result<(), ctrlc::Error> {
    let interrupted = Arc::clone(interrupted);
    ctrlc::set_handler(move || {
        if interrupted.swap(true, Ordering::Relaxed) {
            // A session of Windows' own tracing would go on.
            halprof_measure::tracing::session::end_running();
            std::process::exit(ENDED_BY_INTERRUPT);
        }
    })
}

/// The handler itself sets the flag: a thread that the handler wakes could run after the end of
/// a program that the same Ctrl-C has ended, and the measurement would not say that it was
/// interrupted.
#[cfg(unix)]
fn handle_interrupts(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::{consts, flag};
    for signal in [consts::SIGINT, consts::SIGTERM, consts::SIGHUP] {
        let flag = || Arc::clone(interrupted);
        flag::register_conditional_shutdown(signal, ENDED_BY_INTERRUPT, flag())?;
        flag::register(signal, flag())?;
    }
    Ok(())
}

/// Waits for the Ctrl-C that has ended a program: Windows calls the handler of each process in a
/// thread of its own, and halprof's may run later than the end of the program.
pub(crate) fn await_interrupt() {
    let since = Instant::now();
    while !interrupted() && since.elapsed() < AFTER {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the user has asked to stop.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
