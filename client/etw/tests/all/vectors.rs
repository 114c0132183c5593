//! Byte vectors that others made, with the values that they have.

use crate::shared::{list, number, text, vectors};
use halprof_etw::buffer::{BufferHeader, HEADER_LENGTH};
use halprof_etw::header::{Header, Refusal};
use halprof_etw::payload::{self, EventKind, stack::Half};
use halprof_etw::{Cause, EventId, Guid, PointerSize, Trace};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Cursor;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
    digits.map(|pair| byte(pair).expect("hexadecimal")).collect()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a text");
    }
    text
}

fn guid(text: &str) -> Guid {
    Guid(u128::from_str_radix(&text.replace('-', ""), 16).expect("a GUID"))
}

fn id(vector: &Value) -> EventId {
    let (opcode, version) = (number(&vector["opcode"]) as u8, number(&vector["version"]) as u16);
    match vector["guid"].as_str() {
        Some(text) => EventId::Classic { guid: guid(text), opcode, version },
        None => EventId::Kernel { group: number(&vector["group"]) as u8, opcode, version },
    }
}

/// The fields with other values than expected. Some are not read at all: where a thread runs, most
/// of them.
fn differing(name: &str, expected: &Value, found: &Value) -> Vec<String> {
    let fields = expected.as_object().expect("fields").iter();
    let both = fields.filter_map(|(field, value)| Some((field, value, found.get(field)?)));
    both.filter(|(_, value, found)| value != found)
        .map(|(field, value, found)| format!("{name}: {field} is {found}, not {value}"))
        .collect()
}

#[test]
fn every_vector_has_its_values() {
    let Some(vectors) = vectors() else { return };
    let mut all = Vec::new();
    for vector in list(&vectors["vectors"]) {
        let name = text(&vector["name"]);
        let bytes = bytes(text(&vector["hex"]));
        let pointer = PointerSize::from_bytes(number(&vector["pointer_size"]) as u32);
        let pointer = pointer.expect("a pointer size");
        let found = match text(&vector["scope"]) {
            "buffer_header" => buffer_header(&BufferHeader::parse(&bytes).expect(name)),
            "header" => header(&Header::parse(&bytes).expect(name), &bytes),
            "payload" => event(name, id(vector), pointer, &bytes),
            _ => {
                let parsed = Header::parse(&bytes).expect(name);
                let fields = header(&parsed, &bytes);
                all.extend(differing(name, &vector["header_fields"], &fields));
                assert_eq!(usize::from(parsed.size), bytes.len(), "{name}");
                let payload = &bytes[usize::from(parsed.length)..];
                event(name, parsed.id, pointer, payload)
            }
        };
        all.extend(differing(name, &vector["fields"], &found));
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// The opcodes that are read of each group, in every version that the vectors have.
const READ: [(&str, &[u8]); 10] = [
    ("header", &[0]),
    ("process", &[1, 2, 3, 10, 39]),
    ("thread", &[1, 2, 3, 4, 36, 50, 72]),
    ("perfinfo", &[46, 47, 48, 49, 72, 73]),
    ("image", &[2, 3, 4]),
    ("stackwalk", &[32, 35, 36, 37, 38]),
    ("6a399ae0-4bc6-4de9-870b-3657f8947e7e", &[32]),
    ("99134383-5248-43fc-834b-529454e75df3", &[32]),
    ("b3e675d7-2554-4f18-830b-2762732560de", &[0, 36]),
    ("9b79ee91-b5fd-41c0-a243-4248e266e9d0", &[35]),
];

fn is_read(id: EventId) -> bool {
    let id = id.normalized().to_string();
    let same = |group: &str, opcode: &u8| id.starts_with(&format!("{group} op {opcode} v"));
    READ.iter().any(|(group, opcodes)| opcodes.iter().any(|opcode| same(group, opcode)))
}

/// What an event's payload says; null if it is of a kind that is not read.
fn event(name: &str, id: EventId, pointer: PointerSize, payload: &[u8]) -> Value {
    let found = kind(payload::decode(id, pointer, payload).expect(name));
    assert!(!(found.is_null() && is_read(id)), "{name}: {id} is not read");
    found
}

fn buffer_header(header: &BufferHeader) -> Value {
    json!({
        "buffer_size": header.buffer_size, "saved_offset": header.saved_offset,
        "current_offset": header.current_offset, "reference_count": header.reference_count,
        "timestamp": header.time, "sequence_number": header.sequence_number,
        "clock": header.clock, "processor": header.processor, "logger_id": header.logger_id,
        "state": header.state, "offset": header.used, "flags": header.flags,
        "type": header.buffer_type, "start_time": header.start_time,
        "start_perf_clock": header.start_perf_clock,
    })
}

fn header(header: &Header, bytes: &[u8]) -> Value {
    let mut fields = json!({
        "header_type": bytes[2], "flags": bytes[3], "size": header.size,
        "tid": header.writer.map(|(thread, _)| thread),
        "pid": header.writer.map(|(_, process)| process), "time": header.time,
        "pmc": header.counters(bytes).iter().collect::<Vec<u64>>(),
        "ext": header.items(bytes).map(|item| json!({
            "type": item.item_type, "data": hex(item.data),
        })).collect::<Vec<Value>>(),
    });
    let more = match header.id {
        EventId::Kernel { group, opcode, version } => {
            json!({"group": group, "opcode": opcode, "version": version})
        }
        EventId::Classic { guid, opcode, version } => {
            json!({"guid": guid.to_string(), "opcode": opcode, "version": version})
        }
        EventId::Manifest { guid, id, version } => {
            json!({"guid": guid.to_string(), "id": id, "version": version})
        }
        EventId::Other { .. } => json!({}),
    };
    add(&mut fields, more);
    fields
}

fn add(fields: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    fields.as_object_mut().expect("fields").extend(more);
}

/// What an event says, by the names that the vectors use; null if it is of a kind that is not read.
fn kind(kind: EventKind<'_>) -> Value {
    match kind {
        EventKind::TraceHeader(header) => trace_header(&header),
        EventKind::Sample(sample) => json!({
            "ip": sample.ip, "thread_id": sample.thread, "count": sample.count,
            "reserved": sample.reserved,
        }),
        EventKind::CounterSample(sample) => {
            json!({"ip": sample.ip, "thread_id": sample.thread, "source": sample.source})
        }
        EventKind::Ready(ready) => json!({
            "thread": ready.thread, "reason": ready.reason, "increment": ready.increment,
            "flags": ready.flags,
        }),
        EventKind::Switch(switch) => json!({
            "new_thread_id": switch.new_thread, "old_thread_id": switch.old_thread,
            "new_priority": switch.new_priority, "old_priority": switch.old_priority,
            "previous_c_state": switch.previous_c_state, "spare": switch.spare,
            "old_wait_reason": switch.old_wait_reason, "old_wait_mode": switch.old_wait_mode,
            "old_state": switch.old_state, "old_ideal_processor": switch.old_ideal_processor,
            "new_wait_time": switch.new_wait_time, "reserved": switch.reserved,
        }),
        EventKind::Stack(stack) => json!({
            "event_time": stack.event_time, "process_id": stack.process,
            "thread_id": stack.thread, "frames": stack.frames.iter().collect::<Vec<u64>>(),
        }),
        EventKind::StackKey(key) => json!({
            "event_time": key.event_time, "process_id": key.process, "thread_id": key.thread,
            "key": key.key, "is_kernel": key.half == Half::Kernel,
        }),
        EventKind::StackDefinition(definition) => json!({
            "key": definition.key, "frames": definition.frames.iter().collect::<Vec<u64>>(),
        }),
        EventKind::LastBranches(records) => json!({
            "event_time": records.event_time, "process_id": records.process,
            "thread_id": records.thread, "filters": records.filter,
            "branches": records.entries.iter().map(|entry| json!({
                "source": entry.from, "target": entry.to,
            })).collect::<Vec<Value>>(),
        }),
        EventKind::CounterNames(names) => {
            json!({"count": names.names.len(), "names": names.names})
        }
        EventKind::Corruption(corruption) => json!({
            "processor": corruption.processor, "count": corruption.sources.len(),
            "status": corruption.sources.iter().map(|source| json!({
                "source": source.source, "last_good": source.last_good,
            })).collect::<Vec<Value>>(),
        }),
        EventKind::Interval(interval) => json!({
            "source": interval.source, "new_interval": interval.interval,
            "old_interval": interval.old_interval, "name": interval.name,
        }),
        EventKind::Unknown => Value::Null,
        EventKind::Lost => json!({}),
        other => life(other),
    }
}

/// Processes, threads and images.
fn life(kind: EventKind<'_>) -> Value {
    match kind {
        EventKind::Process(process) => json!({
            "unique_process_key": process.unique_key, "page_directory_base": process.unique_key,
            "process_id": process.process, "parent_id": process.parent,
            "session_id": process.session, "exit_status": process.exit_status,
            "directory_table_base": process.directory_table_base, "flags": process.flags,
            "sid": process.sid, "image": process.image, "command_line": process.command_line,
            "package": process.package, "application": process.application,
            "exit_time": process.exit_time,
        }),
        EventKind::Thread(thread) => json!({
            "process_id": thread.process, "thread_id": thread.thread, "name": thread.name,
        }),
        EventKind::ThreadName(thread) => json!({
            "process_id": thread.process, "thread_id": thread.thread, "name": thread.name,
        }),
        EventKind::Image(image) => {
            let mut fields = json!({
                "base": image.base, "size": image.size, "process_id": image.process,
                "name": image.name,
            });
            let file = image.file.map(|file| {
                json!({
                    "checksum": file.checksum, "time_date_stamp": file.time_date_stamp,
                    "signature_level": file.signature_level, "signature_type": file.signature_type,
                    "default_base": file.default_base,
                })
            });
            add(&mut fields, file.unwrap_or_default());
            fields
        }
        EventKind::ImageId(image) => json!({
            "base": image.base, "size": image.size, "process_id": image.process,
            "time_date_stamp": image.time_date_stamp, "name": image.name,
        }),
        EventKind::Pdb(pdb) => json!({
            "base": pdb.base, "process_id": pdb.process, "guid": pdb.guid.to_string(),
            "age": pdb.age, "pdb": pdb.name,
        }),
        EventKind::Volume(volume) => json!({
            "nt_path": volume.nt_path, "dos_path": volume.dos_path,
        }),
        other => panic!("not described: {other:?}"),
    }
}

fn trace_header(header: &payload::trace::TraceHeader) -> Value {
    json!({
        "buffer_size": header.buffer_size, "major": header.major, "minor": header.minor,
        "sub_version": header.sub_version, "sub_minor": header.sub_minor,
        "build": header.build, "processors": header.processors, "end_time": header.end_time,
        "timer_resolution": header.timer_resolution, "max_file_size": header.max_file_size,
        "log_file_mode": header.log_file_mode, "buffers_written": header.buffers_written,
        "start_buffers": header.start_buffers, "pointer_size": header.pointer_size,
        "events_lost": header.events_lost, "cpu_mhz": header.cpu_mhz,
        "boot_time": header.boot_time, "perf_freq": header.perf_freq,
        "start_time": header.start_time, "reserved_flags": header.clock_type,
        "buffers_lost": header.buffers_lost, "session_name": header.session_name,
        "file_name": header.file_name,
    })
}

/// A trace of one buffer, whose only other event is `record`.
fn with_record(record: &[u8]) -> Option<Vec<u8>> {
    let mut trace = crate::shared::trace("artificial_pmc.etl")?;
    trace.truncate(2 * 4096);
    let buffer = &mut trace[4096..];
    buffer[HEADER_LENGTH..].fill(0xFF);
    buffer[HEADER_LENGTH..HEADER_LENGTH + record.len()].copy_from_slice(record);
    // A good one follows, so that it shows whether the buffer was given up.
    let next = HEADER_LENGTH + ((record.len() + 7) & !7);
    let good = [2, 0, 0x11, 0xC0, 16, 0, 8, 0, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0];
    buffer[next..next + 16].copy_from_slice(&good);
    buffer[48..52].copy_from_slice(&(next as u32 + 16).to_le_bytes());
    Some(trace)
}

/// What comes of a record in a trace: causes, whether the next event is read, its text.
fn in_a_trace(record: &[u8]) -> Option<(Vec<Cause>, bool, String)> {
    let mut trace = Trace::open(Cursor::new(with_record(record)?)).expect("a trace");
    let (mut is_next_read, mut text) = (false, String::new());
    while let Some(event) = trace.next_event().expect("bytes") {
        is_next_read |= event.kind == EventKind::RundownComplete && event.time == 0xFFFFFF;
        writeln!(text, "{:?}", event.kind).expect("a text");
    }
    let found = trace.damage().counts().map(|(cause, _)| cause);
    let expected = [Cause::MissingBuffers, Cause::TimeBackwards, Cause::TimeOutside];
    Some((found.filter(|cause| !expected.contains(cause)).collect(), is_next_read, text))
}

#[test]
fn what_must_be_survived_is_survived_and_told() {
    let Some(vectors) = vectors() else { return };
    let refused = list(&vectors["refuse"]);
    for vector in refused.iter().filter(|vector| vector["scope"] == "record") {
        let name = text(&vector["name"]);
        let (causes, is_next_read, text) =
            in_a_trace(&bytes(text(&vector["hex"]))).expect("a file of the vectors");
        let (expected, goes_on) = match name {
            "size_below_header" | "unknown_header_type" | "no_marker" => {
                (vec![Cause::EventHeader], false)
            }
            "size_beyond_buffer" => (vec![Cause::EventSize], false),
            "pmc_beyond_size" | "ext_loop" => (vec![Cause::HeaderExtension], true),
            "cswitch_short"
            | "config_count_huge"
            | "config_no_terminator"
            | "corruption_count_huge"
            | "sid_subauthorities"
            | "process_no_name"
            | "thread_short" => (vec![Cause::Payload], true),
            "stack_ragged" | "stack_empty" | "surrogate_alone" | "lbr_ragged" => (vec![], true),
            // It was survived, and what is right for it is not written here.
            _ => continue,
        };
        assert_eq!(causes, expected, "{name}");
        assert_eq!(is_next_read, goes_on, "{name}");
        match name {
            "stack_ragged" => assert!(text.contains("frames: [4]"), "{text}"),
            "stack_empty" => assert!(text.contains("frames: []"), "{text}"),
            "lbr_ragged" => {
                let whole = "entries: [Entry { from: 1, to: 2, reserved: 0 }]";
                assert!(text.contains(whole), "{text}");
            }
            "surrogate_alone" => assert!(text.contains("name: \"\u{FFFD}A\""), "{text}"),
            _ => {}
        }
    }
}

#[test]
fn buffers_that_must_be_survived_are_survived_and_told() {
    let Some(vectors) = vectors() else { return };
    let refused = list(&vectors["refuse"]);
    for vector in refused.iter().filter(|vector| vector["scope"] == "buffer_header") {
        let Some(mut trace) = crate::shared::trace("artificial_pmc.etl") else { return };
        trace.truncate(3 * 4096);
        trace[4096..4096 + HEADER_LENGTH].copy_from_slice(&bytes(text(&vector["hex"])));
        let mut trace = Trace::open(Cursor::new(trace)).expect("a trace");
        let mut processors = Vec::new();
        while let Some(event) = trace.next_event().expect("bytes") {
            processors.push(event.processor);
        }
        processors.sort_unstable();
        processors.dedup();
        let (cause, expected) = match text(&vector["name"]) {
            "buffer_size_zero" => (Cause::BufferSize, vec![0]),
            "buffer_compressed_without_mode" => (Cause::CompressedBuffer, vec![0, 1]),
            "buffer_cpu_beyond" => (Cause::Processor, vec![0, 1, 300]),
            _ => continue,
        };
        assert_eq!(trace.damage().count(cause), 1, "{vector}");
        assert_eq!(processors, expected, "{vector}");
    }
}

#[test]
fn every_prefix_of_a_vector_is_refused_or_read() {
    let Some(vectors) = vectors() else { return };
    for vector in list(&vectors["vectors"]) {
        let bytes = bytes(text(&vector["hex"]));
        for length in 0..bytes.len() {
            let prefix = &bytes[..length];
            for pointer in [PointerSize::Four, PointerSize::Eight] {
                match text(&vector["scope"]) {
                    "payload" => _ = payload::decode(id(vector), pointer, prefix),
                    "buffer_header" => assert!(BufferHeader::parse(prefix).is_none()),
                    _ => match Header::parse(prefix) {
                        Ok(header) if usize::from(header.length) <= length => {
                            let payload = &prefix[usize::from(header.length)..];
                            _ = payload::decode(header.id, pointer, payload);
                        }
                        Ok(_) | Err(Refusal::Short | Refusal::Extension { .. }) => {}
                        Err(other) => panic!("{vector}: {other:?}"),
                    },
                }
            }
        }
    }
}
