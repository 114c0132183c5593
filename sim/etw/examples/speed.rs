//! Writes a trace as a busy machine would, and reads it: `speed [MB]`.
//!
//! Sixteen processors with samples, their stacks and context switches with two counters; every stack
//! is joined and every thread's counts are summed, as a report does.

use halprof_etw::join::slices::Slices;
use halprof_etw::join::stacks::Joiner;
use halprof_etw::join::threads::Threads;
use halprof_etw::payload::processor::{Sample, Switch};
use halprof_etw::payload::stack::{Frames, Half, Stack};
use halprof_etw::{EventKind, PointerSize, Trace};
use sim_etw::write::{Origin, Session, Writer};
use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

const PROCESSORS: u16 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(1024), |text| text.parse())?;
    let path = std::env::temp_dir().join(format!("halprof-etw-{}.etl", std::process::id()));
    write(&path, megabytes << 20)?;
    for is_joined in [false, true] {
        read(&path, is_joined)?;
    }
    std::fs::remove_file(path)?;
    Ok(())
}

fn write(path: &std::path::Path, length: u64) -> Result<(), Box<dyn Error>> {
    let session = Session { buffer_size: 65536, processors: PROCESSORS, ..Session::default() };
    let mut writer = Writer::new(BufWriter::new(File::create(path)?), session)?;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut stacks = Vec::new();
    for _ in 0..500 {
        let depth = rng.u64(4..30);
        let kernel = (0..depth / 3).map(|_| 0xFFFF_F800_0000_0000 + rng.u64(..1 << 24));
        let mut frames: Vec<u64> = kernel.collect();
        frames.extend((0..depth).map(|_| 0x7FF6_0000_0000 + rng.u64(..1 << 20)));
        stacks.push(frames.iter().flat_map(|frame| frame.to_le_bytes()).collect::<Vec<u8>>());
    }
    let mut running = [0; PROCESSORS as usize];
    let (mut time, mut written) = (0, 0);
    while written < length {
        time += rng.i64(1..100);
        let processor = rng.u16(..PROCESSORS);
        let thread = running[usize::from(processor)];
        let origin = Origin { time, processor, thread, process: 4 };
        if rng.u8(..3) == 0 {
            let new_thread = 4 * rng.u32(..2000);
            let switch = Switch { new_thread, old_thread: thread, ..Switch::default() };
            running[usize::from(processor)] = new_thread;
            writer.event(
                origin,
                &EventKind::Switch(switch),
                &[time.cast_unsigned() * 3, time.cast_unsigned()],
            )?;
            written += 56;
        } else {
            let sample = Sample { ip: 0x7FF6_0000_1000, thread, count: 1, reserved: 0 };
            writer.event(origin, &EventKind::Sample(sample), &[])?;
            let bytes = &stacks[rng.usize(..stacks.len())];
            let frames = Frames::from_bytes(bytes, PointerSize::Eight);
            let stack = Stack { event_time: time.cast_unsigned(), process: 4, thread, frames };
            writer.event(origin, &EventKind::Stack(stack), &[])?;
            written += 32 + 32 + bytes.len() as u64;
        }
    }
    writer.finish(133_000_000_100_000_000)?;
    Ok(())
}

fn read(path: &std::path::Path, is_joined: bool) -> Result<(), Box<dyn Error>> {
    let (begin, before) = (Instant::now(), processor_seconds());
    let mut trace = Trace::open(File::open(path)?)?;
    let (mut threads, mut slices) = (Threads::default(), Slices::new(trace.clock()));
    let mut joiner = Joiner::new(trace.clock().ticks(2_000_000_000));
    let (pointer, mut whole) = (trace.pointer_size(), 0_u64);
    while let Some(event) = trace.next_event()? {
        if !is_joined {
            continue;
        }
        let (time, processor) = (event.time, event.processor);
        match &event.kind {
            EventKind::Sample(sample) => {
                let mode = Half::of(sample.ip, pointer);
                joiner.event(time, sample.thread, processor, mode, sample.ip);
            }
            EventKind::Switch(switch) => {
                let pair = (switch.old_thread, switch.new_thread);
                slices.switch(&mut threads, processor, time, pair, event.counters.iter());
                while slices.next_slice().is_some() {}
            }
            _ => joiner.stacks_of(&event),
        }
        while let Some(joined) = joiner.next_joined() {
            whole += u64::from(joined.user.is_some());
        }
    }
    while let Some(joined) = joiner.pop() {
        whole += u64::from(joined.user.is_some());
    }
    let seconds = begin.elapsed().as_secs_f64();
    let processor = processor_seconds() - before;
    let megabytes = f64::from((File::open(path)?.metadata()?.len() >> 20) as u32);
    println!(
        "{} events, {megabytes:.0} MB in {seconds:.2} s ({processor:.2} s of a processor: {:.0} MB/s); \
         {whole} samples with stacks, {} threads; damage {:?}, {} slices lost",
        trace.events(),
        megabytes / processor,
        threads.instances().len(),
        trace.damage().counts().collect::<Vec<_>>(),
        slices.lost(),
    );
    Ok(())
}

/// The processor time of this thread, where the system says it without a call: others may keep the
/// processors busy.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|first| first.parse().ok());
    ns.unwrap_or(0.0) / 1e9
}
