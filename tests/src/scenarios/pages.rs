//! Are counts that need several replies one reading, whatever comes between them?

use crate::backend::Backend;
use crate::requests::{bytes, header};
use crate::wire::{RawClient, Reply, about};
use shared_types::request::counts::{
    Changes, Count, SNAPSHOT, SNAPSHOT_BYTES_MAX, Snapshot, SnapshotPage,
};
use shared_types::request::session::{self, Spec};
use shared_types::{ErrorCode, ReplyHeader};

scenarios![
    each_page_is_of_the_reading_that_the_first_page_took,
    a_page_begins_where_the_previous_one_ended,
    a_later_page_without_a_first_one_takes_a_reading,
    every_page_says_what_others_have_changed,
    stop_replies_with_the_first_page,
    counts_of_an_added_processor_are_in_the_next_reading,
];

/// With 256 sources of 80 bytes, 51 processors fit into 1 MiB.
const FIT: usize = 51;
const SOURCES: usize = 256;
const HEAD: usize = size_of::<Snapshot>();
const ROW: usize = SOURCES * size_of::<Count>();
/// Five slices of 4 ms.
const WORK: &str = "instructions=20000000,cycles=20000000,processors=all";

/// One more processor than a reply holds.
fn machine<B: Backend>() -> RawClient<B> {
    RawClient::new("skylake", FIT + 1)
}

/// A session with as many sources as there can be: event C0h with each unit mask, of which the
/// model has the first.
fn running<B: Backend>(client: &mut RawClient<B>) -> u32 {
    let specs: Vec<Spec> = (0..SOURCES as u64).map(|mask| Spec::of_raw(0xC0 | mask << 8)).collect();
    let number = client.configured(0, &specs);
    client.granted(session::START, number);
    number
}

fn ask<B: Backend>(client: &mut RawClient<B>, session: u32, first: usize) -> Reply {
    let request = SnapshotPage { header: header(0), session, first: first as u32 };
    client.send_with_room(SNAPSHOT, &bytes(&request, &[]), SNAPSHOT_BYTES_MAX)
}

/// A page's head, and what each of its sources has counted, and in how many slices.
fn page<B: Backend>(
    client: &mut RawClient<B>,
    session: u32,
    first: usize,
) -> (Snapshot, Vec<(u64, u64)>) {
    read(&ask(client, session, first))
}

fn read(reply: &Reply) -> (Snapshot, Vec<(u64, u64)>) {
    let counts: Vec<Count> = reply.elements::<Snapshot, _>();
    let head: Snapshot = reply.done();
    assert!(reply.bytes.len() <= SNAPSHOT_BYTES_MAX);
    assert_eq!(counts.len(), head.processors as usize * SOURCES);
    assert_eq!((head.sources, head.reserved), (SOURCES as u32, 0));
    (head, counts.iter().map(|count| (count.counted, count.slices)).collect())
}

/// Ticks, slices that end, and counting go on between the requests for two pages.
fn each_page_is_of_the_reading_that_the_first_page_took<B: Backend>() {
    let mut client = machine::<B>();
    let number = running(&mut client);
    client.work(WORK);
    let (first, _) = page(&mut client, number, 0);
    assert_eq!((first.processors as usize, first.total as usize), (FIT, FIT + 1));
    let (at_once, counts) = page(&mut client, number, FIT);
    assert_eq!((at_once.processors, at_once.total, at_once.time), (1, first.total, first.time));
    assert!(counts.iter().any(|&(_, slices)| slices > 0));
    client.work(WORK);
    let (later, same) = page(&mut client, number, FIT);
    assert_eq!((later.time, same), (first.time, counts.clone()));
    let (second, _) = page(&mut client, number, 0);
    assert!(second.time > first.time);
    let (of_second, more) = page(&mut client, number, FIT);
    assert_eq!(of_second.time, second.time);
    assert_ne!(more, counts);
    client.end();
}

fn a_page_begins_where_the_previous_one_ended<B: Backend>() {
    let mut client = machine::<B>();
    let number = running(&mut client);
    let all = FIT + 1;
    for first in [1, FIT - 1, all, all + 1, u32::MAX as usize] {
        let refusal = Some((ErrorCode::ProcessorUnknown, first as u32, all as u64));
        assert_eq!(ask(&mut client, number, first).refusal(), refusal);
    }
    // A page is not made smaller for a client with little room: it would not be known where it ends.
    let needed = HEAD + FIT * ROW;
    let request = about(number);
    let reply = client.send_with_room(SNAPSHOT, &request, needed - 1);
    let refusal = Some((ErrorCode::ReplyTooSmall, needed as u32 - 1, needed as u64));
    assert_eq!(reply.refusal(), refusal);
    assert_eq!(client.send_with_room(SNAPSHOT, &request, needed).bytes.len(), needed);
    client.end();
}

fn a_later_page_without_a_first_one_takes_a_reading<B: Backend>() {
    let mut client = machine::<B>();
    let number = running(&mut client);
    client.work(WORK);
    let (page, counts) = page(&mut client, number, FIT);
    assert_eq!(page.processors, 1);
    assert_ne!(page.time, 0);
    assert!(counts.iter().any(|&(_, slices)| slices > 0));
    client.end();
}

/// Somebody has written a select of the last processor, whose counts are on the second page.
fn every_page_says_what_others_have_changed<B: Backend>() {
    const SELECT_0: u32 = 0x186;
    const CYCLES: u64 = 0x43_003C;
    let mut client = machine::<B>();
    let number = running(&mut client);
    client.write(FIT, SELECT_0, CYCLES);
    client.model.others_wrote_registers();
    for first in [0, FIT] {
        let (page, _) = page(&mut client, number, first);
        let Changes { number, processor, register, found, .. } = page.changes;
        assert_eq!((number, processor, register, found), (1, FIT as u32, SELECT_0, CYCLES));
    }
    client.end();
}

/// As where all counts fit: or with a bare header, if there is no room. It has stopped in each case.
fn stop_replies_with_the_first_page<B: Backend>() {
    for (room, bytes) in
        [(SNAPSHOT_BYTES_MAX, HEAD + FIT * ROW), (HEAD + FIT * ROW - 1, size_of::<ReplyHeader>())]
    {
        let mut client = machine::<B>();
        let number = running(&mut client);
        client.work(WORK);
        let reply = client.send_with_room(session::STOP, &about(number), room);
        assert_eq!((reply.refusal(), reply.bytes.len()), (None, bytes));
        client.work(WORK);
        let again = client.about(session::STOP, number).error();
        assert_eq!(again, Some(ErrorCode::NotRunning));
        let (last, _) = page(&mut client, number, FIT);
        if bytes > size_of::<ReplyHeader>() {
            let (first, counts) = read(&reply);
            assert_eq!(first.time, last.time);
            assert_eq!(page(&mut client, number, 0).1, counts, "none counts any more");
        }
        client.end();
    }
}

fn counts_of_an_added_processor_are_in_the_next_reading<B: Backend>() {
    let mut client = machine::<B>();
    let number = running(&mut client);
    let (first, _) = page(&mut client, number, 0);
    client.add_processor(&crate::wire::first("skylake"));
    let (rest, _) = page(&mut client, number, FIT);
    assert_eq!((rest.processors, rest.total, rest.time), (1, first.total, first.time));
    client.work(WORK);
    let (first, _) = page(&mut client, number, 0);
    assert_eq!(first.total as usize, FIT + 2);
    let (rest, counts) = page(&mut client, number, FIT);
    assert_eq!((rest.processors, rest.time), (2, first.time));
    let added = &counts[SOURCES..];
    assert!(added.iter().any(|&(_, slices)| slices > 0));
    client.end();
}
