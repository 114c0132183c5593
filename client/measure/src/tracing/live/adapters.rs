//! The two forms in which Windows delivers the events of a session, for one consumer: whole buffers, as a
//! file has them, and single events with pointers to what they have. Both become the same [`Record`]s.

use crate::live_tracing::{Consumer, Record};
use halprof_etw::EventId;
use halprof_etw::buffer::Buffer;
use halprof_etw::header::{EventRecord, Manifest};
use halprof_etw::id::LOST_EVENT;

/// Gives a consumer the events of a buffer. Unreadable events, and events lost before the buffer, become
/// the same records of losses that a delivery of single events has.
pub fn deliver_buffer(buffer: &[u8], consumer: &dyn Consumer) {
    let Ok(buffer) = Buffer::parse(buffer) else {
        lose(consumer, 0, 0);
        return;
    };
    let processor = buffer.header.processor;
    let mut events = buffer.events().peekable();
    let first = events.peek().and_then(|event| event.as_ref().ok()?.header.time);
    // An event without a time has the time of the event before it.
    let mut time = first.unwrap_or(buffer.header.time);
    if buffer.is_after_loss() {
        lose(consumer, time, processor);
    }
    for event in events {
        let Ok(event) = event else {
            lose(consumer, time, processor);
            continue;
        };
        time = event.header.time.unwrap_or(time);
        let (id, payload, values) = (event.header.id, event.payload, event.values);
        consumer.record(&Record { time, processor, id, payload, values });
    }
}

/// The opcode of `RT_LostEvent` for events.
const EVENTS: u8 = 32;

fn lose(consumer: &dyn Consumer, time: i64, processor: u16) {
    let id = EventId::Classic { guid: LOST_EVENT, opcode: EVENTS, version: 0 };
    consumer.record(&Record { time, processor, id, payload: &[], values: &[] });
}

/// Gives a consumer a single event: the bytes of its `EVENT_RECORD` up to the pointers, its payload, and the
/// values of the counters that are attached to it, each of 8 bytes.
pub fn deliver_record(record: &[u8], payload: &[u8], values: &[u8], consumer: &dyn Consumer) {
    let Some(EventRecord { header, context }) = EventRecord::parse(record) else { return };
    let Manifest { time, guid, opcode, version, .. } = header;
    let processor = context.processor;
    let id = EventId::Classic { guid, opcode, version: version.into() };
    consumer.record(&Record { time, processor, id, payload, values });
}
