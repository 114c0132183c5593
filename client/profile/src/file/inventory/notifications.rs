//! What the system reports by itself, as it happens: processes and images, including short-lived
//! ones.

use super::{AddressSpace, Changes, Image, Inventory, Owner};
use crate::file::{Process, RecordedEvent};
use shared_types::{EventKind, SystemEvent};

impl Inventory {
    /// Sets whether the system reports processes and images from now on. If so, scans only serve to
    /// find what ran before.
    pub fn set_notifications(&mut self, notifications: bool) {
        self.notifications = notifications;
    }

    /// Takes in system events. If some were `lost`, the next scan is due at once.
    pub fn apply_events(&mut self, events: &[SystemEvent], lost: u64) -> Changes {
        let mut changes = Changes::default();
        for event in events {
            match EventKind::from_wire(event.kind) {
                Some(EventKind::ProcessStarted) => self.started(event, &mut changes),
                Some(EventKind::ProcessEnded) => self.ended(event, &mut changes),
                Some(EventKind::ImageLoaded) => self.loaded(event, &mut changes),
                Some(kind) => changes.events.push(apply_events(kind, event)),
                None => {}
            }
        }
        self.catch_up |= lost != 0;
        self.scan_requested = self.address_spaces.values().any(AddressSpace::is_due);
        changes
    }

    fn started(&mut self, event: &SystemEvent, changes: &mut Changes) {
        let tracked = self.running.get(&event.process);
        let seen_since = tracked.and_then(|process| process.started);
        if seen_since.is_some_and(|seen| seen >= event.timestamp) {
            // A scan found it before the event was read.
            return;
        }
        // Another process had the identifier before, and its end was not reported.
        self.ended(event, changes);
        let process = Process {
            id: event.process,
            name: String::new(),
            started: Some(event.timestamp),
            ended: None,
        };
        changes.processes.push(process.clone());
        self.seen.insert(event.process);
        self.running.insert(event.process, process);
    }

    fn ended(&mut self, event: &SystemEvent, changes: &mut Changes) {
        let Some(mut process) = self.running.remove(&event.process) else {
            return;
        };
        process.ended = Some(event.timestamp);
        changes.processes.push(process);
        let address_space = self.address_spaces.remove(&Some(event.process));
        self.gone.extend(address_space.into_iter().flat_map(AddressSpace::sampled));
        self.last = (None, u64::MAX);
    }

    fn loaded(&mut self, event: &SystemEvent, changes: &mut Changes) {
        let is_kernel = event.process == 0 || event.start >> 63 == 1;
        let owner: Owner = (!is_kernel).then_some(event.process);
        let image = self.image(event);
        if let Some(process) = owner.and_then(|id| self.running.get_mut(&id))
            && process.name.is_empty()
        {
            process.name.clone_from(&image.name);
            changes.processes.push(process.clone());
        }
        let address_space = self.address_spaces.entry(owner).or_default();
        let gone = address_space.load(owner, image, event.timestamp, &mut changes.modules);
        self.gone.extend(gone);
        self.last = (None, u64::MAX);
    }

    /// An image with a path that programs can open. A path that was cut only gives the name.
    fn image(&mut self, event: &SystemEvent) -> Image {
        let units = event.name.get(..event.name_units.into());
        let native = String::from_utf16_lossy(units.unwrap_or_default());
        let name = native.rsplit('\\').next().unwrap_or_default().to_owned();
        let whole = event.flags & SystemEvent::CUT == 0 && !native.is_empty();
        Image {
            name,
            path: whole.then(|| self.system.on_disk(&native)),
            start: event.start,
            end: event.start.saturating_add(event.amount),
            identity: None,
        }
    }
}

/// An event in the form that a recording stores.
fn apply_events(kind: EventKind, event: &SystemEvent) -> RecordedEvent {
    use EventKind::{ProcessorAdded, SamplesLost, Storm, Throttled};
    let on_processor = matches!(kind, ProcessorAdded | SamplesLost | Storm | Throttled);
    RecordedEvent {
        timestamp: event.timestamp,
        kind: kind.name().to_owned(),
        processor: on_processor.then_some(event.subject),
        amount: event.amount,
    }
}
