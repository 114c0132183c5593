//! What happens on a processor (MOF classes `SampledProfile`, `CSwitch`; a counter's sample has a
//! source where the timer's has a count).

use crate::bytes::layout;

layout! {
    /// A sample of the timer.
    #[derive(Copy)]
    pub struct Sample {
        ip: pointer,
        /// 0 is the idle thread of the processor.
        thread: u32,
        count: u16,
        /// Bit 0: in a DPC; bit 1: in an interrupt; bits 3 to 7: the priority.
        reserved: u16,
    }
}

layout! {
    /// A sample of a counter.
    #[derive(Copy)]
    pub struct CounterSample {
        ip: pointer,
        /// 0 is the idle thread of the processor.
        thread: u32,
        /// As the interval events name it.
        source: u16,
        reserved: u16,
    }
}

layout! {
    /// A context switch, on the processor of its buffer.
    #[derive(Copy)]
    pub struct Switch {
        new_thread: u32,
        old_thread: u32,
        new_priority: i8,
        old_priority: i8,
        /// What the idle thread was in last.
        previous_c_state: u8,
        spare: i8,
        /// Why the old thread waits (`KWAIT_REASON`).
        old_wait_reason: i8,
        /// Kernel (0) or user mode; from version 4 on flags.
        old_wait_mode: i8,
        /// `KTHREAD_STATE`: 5 is waiting, 1 ready, 4 terminated.
        old_state: i8,
        old_ideal_processor: i8,
        /// In ticks of the timer.
        new_wait_time: u32,
        reserved: u32,
    }
}

impl Switch {
    /// `KTHREAD_STATE` of a thread that does not run again.
    pub const TERMINATED: i8 = 4;
    /// `KTHREAD_STATE` of a thread that waits.
    pub const WAITING: i8 = 5;

    /// Whether it takes a thread off its processor for the last time.
    pub const fn ends_thread(&self) -> bool {
        self.old_state == Self::TERMINATED
    }
}
