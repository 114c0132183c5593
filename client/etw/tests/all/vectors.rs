//! Byte vectors that others made, with the values that they have.

use crate::shared::{list, number, text, vectors};
use halprof_etw::buffer::{BufferHeader, HEADER_LENGTH};
use halprof_etw::header::{Form, Full, Header, Manifest, Refusal, System};
use halprof_etw::payload::{self, EventKind, stack::Half, thread::Details};
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

/// Whether each expected field has its value.
fn compare(name: &str, expected: &Value, found: &Value) -> Vec<String> {
    let fields = expected.as_object().expect("fields").iter();
    let differing = fields.filter(|(field, value)| found[field.as_str()] != **value);
    let line = |(field, value)| format!("{name}: {field} is {}, not {value}", found[field]);
    differing.map(line).collect()
}

#[test]
fn every_vector_has_its_values() {
    let Some(vectors) = vectors() else { return };
    let mut failures = Vec::new();
    let vectors = list(&vectors["vectors"]);
    for vector in vectors {
        let name = text(&vector["name"]);
        let bytes = bytes(text(&vector["hex"]));
        let pointer = PointerSize::from_bytes(number(&vector["pointer_size"]) as u32);
        let pointer = pointer.expect("a pointer size");
        let found = match text(&vector["scope"]) {
            "buffer_header" => buffer_header(&BufferHeader::parse(&bytes).expect(name)),
            "header" => header(&Header::parse(&bytes).expect(name), &bytes),
            "payload" => kind(payload::decode(id(vector), pointer, &bytes).expect(name)),
            _ => {
                let parsed = Header::parse(&bytes).expect(name);
                let fields = header(&parsed, &bytes);
                failures.extend(compare(name, &vector["header_fields"], &fields));
                assert_eq!(usize::from(parsed.size), bytes.len(), "{name}");
                let payload = &bytes[usize::from(parsed.length)..];
                kind(payload::decode(parsed.id, pointer, payload).expect(name))
            }
        };
        failures.extend(compare(name, &vector["fields"], &found));
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(vectors.len() >= 97);
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
        "pmc": header.counters(bytes).iter().collect::<Vec<u64>>(), "pebs": header.pebs(bytes),
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
    let form = match header.form {
        Form::System => {
            let system = System::from_bytes(bytes).expect("a header");
            json!({"kernel_time": system.kernel_time, "user_time": system.user_time})
        }
        Form::Full => {
            let full = Full::from_bytes(bytes).expect("a header");
            json!({"level": full.level, "processor_time": full.processor_time})
        }
        Form::Manifest => manifest(header, bytes, &Manifest::from_bytes(bytes).expect("a header")),
        _ => json!({}),
    };
    add(&mut fields, more);
    add(&mut fields, form);
    fields
}

fn manifest(header: &Header, bytes: &[u8], event: &Manifest) -> Value {
    json!({
            "eflags": event.event_flags, "prop": event.property, "channel": event.channel,
            "level": event.level, "opcode": event.opcode, "task": event.task,
            "keyword": event.keyword, "processor_time": event.processor_time,
            "activity": event.activity.to_string(),
            "ext": header.items(bytes).map(|item| json!({
                "type": item.item_type, "data": hex(item.data),
            })).collect::<Vec<Value>>(),
    })
}

fn add(fields: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    fields.as_object_mut().expect("fields").extend(more);
}

/// What an event says, by the names that the vectors use.
fn kind(kind: EventKind<'_>) -> Value {
    match kind {
        EventKind::TraceHeader(header) => trace_header(&header),
        EventKind::GroupMasks(masks) => {
            json!({"masks": masks.masks, "kernel_event_version": masks.kernel_event_version})
        }
        EventKind::Partition(partition) => json!({
            "event_version": partition.event_version, "reserved": partition.reserved,
            "partition_type": partition.partition_type,
            "qpc_offset_from_root": partition.qpc_offset_from_root,
            "partition_id_guid": partition.partition_id.to_string(),
            "parent_id_guid": partition.parent_id.to_string(),
        }),
        EventKind::Sample(sample) => json!({
            "ip": sample.ip, "thread_id": sample.thread, "count": sample.count,
            "reserved": sample.reserved,
        }),
        EventKind::CounterSample(sample) => {
            json!({"ip": sample.ip, "thread_id": sample.thread, "source": sample.source})
        }
        EventKind::Switch(switch) => json!({
            "new_thread_id": switch.new_thread, "old_thread_id": switch.old_thread,
            "new_priority": switch.new_priority, "old_priority": switch.old_priority,
            "previous_c_state": switch.previous_c_state, "spare": switch.spare,
            "old_wait_reason": switch.old_wait_reason, "old_wait_mode": switch.old_wait_mode,
            "old_state": switch.old_state, "old_ideal_processor": switch.old_ideal_processor,
            "new_wait_time": switch.new_wait_time, "reserved": switch.reserved,
        }),
        EventKind::Ready(ready) => json!({
            "thread_id": ready.thread, "reason": ready.reason, "increment": ready.increment,
            "flags": ready.flags,
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
        EventKind::Dpc(dpc) => {
            json!({"initial_time": dpc.initial_time, "routine": dpc.routine})
        }
        EventKind::Isr(isr) => json!({
            "initial_time": isr.initial_time, "routine": isr.routine,
            "return_value": isr.return_value, "vector": isr.vector,
        }),
        EventKind::Branches(branches) => json!({
            "event_time": branches.event_time, "process_id": branches.process,
            "thread_id": branches.thread, "filters": branches.filters,
            "branches": branches.iter().map(|branch| json!({
                "source": branch.source, "target": branch.target,
            })).collect::<Vec<Value>>(),
        }),
        EventKind::Unknown | EventKind::Lost => json!({}),
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
        EventKind::ProcessTerminated(process) => json!({"process_id": process}),
        EventKind::ProcessCounters(counters) => json!({
            "process_id": counters.process, "page_fault_count": counters.page_faults,
            "handle_count": counters.handles, "reserved": counters.reserved,
            "peak_virtual_size": counters.peak_virtual_size,
            "peak_working_set_size": counters.peak_working_set_size,
            "peak_pagefile_usage": counters.peak_pagefile_usage,
            "quota_peak_paged_pool_usage": counters.quota_peak_paged_pool_usage,
            "quota_peak_non_paged_pool_usage": counters.quota_peak_non_paged_pool_usage,
            "virtual_size": counters.virtual_size,
            "working_set_size": counters.working_set_size,
            "pagefile_usage": counters.pagefile_usage,
            "quota_paged_pool_usage": counters.quota_paged_pool_usage,
            "quota_non_paged_pool_usage": counters.quota_non_paged_pool_usage,
            "private_page_count": counters.private_page_count,
        }),
        EventKind::Thread(thread) => {
            let mut fields = json!({
                "process_id": thread.process, "thread_id": thread.thread, "name": thread.name,
            });
            add(&mut fields, details(&thread.details));
            fields
        }
        EventKind::ThreadName(name) => json!({
            "process_id": name.process, "thread_id": name.thread, "name": name.name,
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
        other => system(other),
    }
}

fn details(details: &Details) -> Value {
    match details {
        Details::None => json!({}),
        Details::Version1(old) => json!({
            "stack_base": old.stack_base, "stack_limit": old.stack_limit,
            "user_stack_base": old.user_stack_base, "user_stack_limit": old.user_stack_limit,
            "start_address": old.start_address,
            "win32_start_address": old.win32_start_address, "wait_mode": old.wait_mode,
        }),
        Details::Version2(old) => json!({
            "stack_base": old.stack_base, "stack_limit": old.stack_limit,
            "user_stack_base": old.user_stack_base, "user_stack_limit": old.user_stack_limit,
            "start_address": old.start_address,
            "win32_start_address": old.win32_start_address, "teb": old.teb,
            "sub_process_tag": old.sub_process_tag,
        }),
        Details::Version3(new) => json!({
            "stack_base": new.stack_base, "stack_limit": new.stack_limit,
            "user_stack_base": new.user_stack_base, "user_stack_limit": new.user_stack_limit,
            "affinity": new.affinity, "win32_start_address": new.win32_start_address,
            "teb": new.teb, "sub_process_tag": new.sub_process_tag,
            "base_priority": new.base_priority, "page_priority": new.page_priority,
            "io_priority": new.io_priority, "flags": new.flags,
        }),
    }
}

fn trace_header(header: &payload::trace::TraceHeader) -> Value {
    // One of the vectors has only the names of the time zone.
    let zone = if header.build == 7601 {
        json!({"standard_name": header.standard_name, "daylight_name": header.daylight_name})
    } else {
        json!({
            "bias": header.bias, "standard_name": header.standard_name,
            "standard_date": header.standard_date, "standard_bias": header.standard_bias,
            "daylight_name": header.daylight_name, "daylight_date": header.daylight_date,
            "daylight_bias": header.daylight_bias,
        })
    };
    json!({
        "buffer_size": header.buffer_size, "major": header.major, "minor": header.minor,
        "sub_version": header.sub_version, "sub_minor": header.sub_minor,
        "build": header.build, "processors": header.processors, "end_time": header.end_time,
        "timer_resolution": header.timer_resolution, "max_file_size": header.max_file_size,
        "log_file_mode": header.log_file_mode, "buffers_written": header.buffers_written,
        "start_buffers": header.start_buffers, "pointer_size": header.pointer_size,
        "events_lost": header.events_lost, "cpu_mhz": header.cpu_mhz, "time_zone": zone,
        "boot_time": header.boot_time, "perf_freq": header.perf_freq,
        "start_time": header.start_time, "reserved_flags": header.clock_type,
        "buffers_lost": header.buffers_lost, "session_name": header.session_name,
        "file_name": header.file_name,
    })
}

/// What the system is.
fn system(kind: EventKind<'_>) -> Value {
    match kind {
        EventKind::Cpu(cpu) => {
            let mut fields = json!({
                "mhz": cpu.cpu.mhz, "processors": cpu.cpu.processors, "memory_mb": cpu.cpu.memory_mb,
                "page_size": cpu.cpu.page_size, "granularity": cpu.cpu.granularity,
                "computer": cpu.cpu.computer, "domain": cpu.domain,
                "hyper_threading": cpu.hyper_threading,
            });
            let more = cpu.architecture.map(|more| {
                json!({
                    "highest_user_address": more.highest_user_address,
                    "architecture": more.architecture, "level": more.level,
                    "revision": more.revision, "pae": more.pae, "nx": more.nx,
                    "memory_speed": more.memory_speed,
                })
            });
            add(&mut fields, more.unwrap_or_default());
            fields
        }
        EventKind::PhysicalDisk(disk) => json!({
            "disk_number": disk.disk, "bytes_per_sector": disk.bytes_per_sector,
            "sectors_per_track": disk.sectors_per_track,
            "tracks_per_cylinder": disk.tracks_per_cylinder, "cylinders": disk.cylinders,
            "scsi_port": disk.scsi_port, "scsi_path": disk.scsi_path, "scsi_target": disk.scsi_target,
            "scsi_lun": disk.scsi_lun, "manufacturer": disk.manufacturer,
            "partition_count": disk.partitions, "write_cache_enabled": disk.write_cache,
            "boot_drive_letter": disk.boot_drive_letter, "spare": disk.spare,
        }),
        EventKind::LogicalDisk(disk) => json!({
            "start_offset": disk.start_offset, "partition_size": disk.partition_size,
            "disk_number": disk.disk, "size": disk.size, "drive_type": disk.drive_type,
            "drive_letter": disk.drive_letter, "partition_number": disk.partition,
            "sectors_per_cluster": disk.sectors_per_cluster,
            "bytes_per_sector": disk.bytes_per_sector, "free_clusters": disk.free_clusters,
            "total_clusters": disk.total_clusters, "file_system": disk.file_system,
            "volume_extent": disk.volume_extent,
        }),
        EventKind::Device(device) => json!({
            "class_guid": device.class.to_string(), "upper_filters_count": device.upper_filters,
            "lower_filters_count": device.lower_filters, "dev_status": device.status,
            "dev_problem": device.problem, "device_id": device.device_id,
            "device_description": device.description, "friendly_name": device.friendly_name,
            "pdo_name": device.pdo_name, "service_name": device.service_name,
        }),
        EventKind::Build(build) => json!({
            "install_date": build.install_date, "build_lab": build.build_lab,
            "product": build.product,
        }),
        EventKind::Folders(folders) => json!({
            "system_directory": folders.system, "windows_directory": folders.windows,
        }),
        EventKind::Volume(volume) => {
            json!({"nt_path": volume.nt_path, "dos_path": volume.dos_path})
        }
        other => panic!("not described: {other:?}"),
    }
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
    let expected = [Cause::MissingBuffers, Cause::TimeBackwards];
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
            other => panic!("{other} is new"),
        };
        assert_eq!(causes, expected, "{name}");
        assert_eq!(is_next_read, goes_on, "{name}");
        match name {
            "stack_ragged" => assert!(text.contains("frames: [4]"), "{text}"),
            "stack_empty" => assert!(text.contains("frames: []"), "{text}"),
            "surrogate_alone" => assert!(text.contains("name: \"\u{FFFD}A\""), "{text}"),
            "lbr_ragged" => assert!(text.contains("Branches("), "{text}"),
            _ => {}
        }
    }
    assert_eq!(refused.len(), 20, "the three below are the buffers'");
}

#[test]
fn buffers_that_must_be_survived_are_survived_and_told() {
    let Some(vectors) = vectors() else { return };
    let refused = list(&vectors["refuse"]);
    let buffers = refused.iter().filter(|vector| vector["scope"] == "buffer_header");
    for vector in buffers {
        let mut trace = crate::shared::trace("artificial_pmc.etl").expect("a trace");
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
            other => panic!("{other} is new"),
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
