//! When is what an interrupt notes written as a system event?

use crate::backend::Backend;
use crate::requests::spec;
use crate::stepped::Stepped;
use shared_types::EventKind;
use shared_types::request::session::{EVENTS, SAMPLE, Spec};
use sim::cpu::event::Event;

scenarios![each_note_is_told_at_its_time,];

const TOTAL_ISSUES: u32 = 2;

/// Each kind of note alone, with the time at which it first happened; by the tick, or at the end.
fn each_note_is_told_at_its_time<B: Backend>() {
    for ticks in [false, true] {
        for throttled in [false, true] {
            let mut machine = Stepped::<B>::new("skylake", 1);
            machine.run(SAMPLE | EVENTS, &[Spec { interval: 5_000, ..spec(TOTAL_ISSUES) }]);
            let mut at = 0;
            for period in 1..=67 {
                at = 5_000 * period;
                let cpu = machine.cpu(0);
                cpu.processor.set_timestamp(at);
                if throttled {
                    cpu.interrupt_cost = 1_000_000;
                }
                machine.retire(0, &[(Event::Instructions, at)]);
                assert!(machine.take_interrupt(0));
                if throttled {
                    break;
                }
            }
            if ticks {
                machine.tick();
            } else {
                machine.stop();
            }
            let events = machine.system_events();
            // The ring holds 64 samples, so the 65th is the first of three that are lost.
            let (kind, since, amount) = if throttled {
                (EventKind::Throttled, at + 1_000_000, 1)
            } else {
                (EventKind::SamplesLost, 65 * 5_000, 3)
            };
            let note = events[1];
            assert_eq!((note.kind, note.amount), (kind as u32, amount));
            assert_eq!(note.timestamp, since, "{kind:?}");
            assert_eq!(events.len(), if ticks { 2 } else { 3 });
        }
    }
}
