//! Process and image events from a trace, on the time-stamp counter's clock: for samples of a driver.

use super::program_name;
use crate::error::{Error, Result};
use crate::processes::{ProcessChange, ProcessEvent, ProcessEvents, ProcessSource};
use crate::tracing::etl;
use crate::tracing::session::{TraceRequest, TraceState, Tracing};
use halprof_etw::clock::ClockType;
use halprof_etw::payload::{Change, EventKind};
use std::path::Path;

/// A backend that traces processes and images, and nothing else.
#[derive(Debug)]
pub struct TracedProcesses<T>(pub T);

impl<T: Tracing> ProcessSource for TracedProcesses<T> {
    fn start(&mut self) -> Result<()> {
        let request = TraceRequest { clock: ClockType::ProcessorCycles, ..TraceRequest::default() };
        self.0.start(&request).map(drop)
    }

    fn stop(&mut self) -> Result<ProcessEvents> {
        let (file, TraceState { events_lost, ended, .. }) = self.0.stop()?;
        let ended = ended.map(|end| end.to_string());
        Ok(ProcessEvents { events: read(file.path())?, lost: events_lost, ended })
    }
}

/// The events of a trace. The trace must use the processor's cycle counter: its times are then
/// time-stamp counter values, as the driver reads them. Other clocks cannot be converted exactly.
fn read(path: &Path) -> Result<Vec<ProcessEvent>> {
    let mut trace = etl::open(path)?;
    if trace.clock().clock_type() != ClockType::ProcessorCycles {
        return Err(Error::unavailable(
            "this Windows does not trace by the processor's cycle counter",
            "halprof looks for running programs by other means.",
        ));
    }
    let mut events = Vec::new();
    while let Some(event) = trace.next_event().map_err(|error| Error::reading(path, error))? {
        let timestamp = event.time.cast_unsigned();
        let (process, change) = match event.kind {
            EventKind::Process(process) => match process.change {
                Change::Start => {
                    let name = program_name::of_event(&process);
                    (process.process, ProcessChange::Started(name))
                }
                Change::End => (process.process, ProcessChange::Ended),
                _ => continue,
            },
            EventKind::Image(image) => {
                let change = match image.change {
                    Change::Start => ProcessChange::Loaded {
                        start: image.base,
                        end: image.base.saturating_add(image.size),
                        path: image.name,
                    },
                    Change::End => ProcessChange::Unloaded(image.base),
                    _ => continue,
                };
                (image.process.unwrap_or(0), change)
            }
            _ => continue,
        };
        events.push(ProcessEvent { timestamp, process, change });
    }
    Ok(events)
}
