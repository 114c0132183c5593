//! Threads (MOF classes `Thread_V1_TypeGroup1` to `Thread_V3_TypeGroup1`; version 4 has a name).

use super::Change;
use crate::bytes::{Fields, Layout, Output, layout};

/// A thread. The process is this one's, while the event's header has the creator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub change: Change,
    pub process: u32,
    pub thread: u32,
    /// Where it runs; the oldest end events do not say.
    pub details: Details,
    pub name: Option<String>,
}

impl Thread {
    /// A thread of which nothing else is known.
    pub fn new(change: Change, process: u32, thread: u32) -> Self {
        let details = Details::Version3(Details3::default());
        Self { change, process, thread, details, name: None }
    }
}

/// Where a thread runs, by the version of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Details {
    None,
    Version1(Details1),
    Version2(Details2),
    Version3(Details3),
}

layout! {
    /// Up to version 1.
    pub struct Details1 {
        stack_base: pointer,
        stack_limit: pointer,
        user_stack_base: pointer,
        user_stack_limit: pointer,
        start_address: pointer,
        win32_start_address: pointer,
        wait_mode: i8,
    }
}

layout! {
    /// Version 2.
    pub struct Details2 {
        stack_base: pointer,
        stack_limit: pointer,
        user_stack_base: pointer,
        user_stack_limit: pointer,
        start_address: pointer,
        win32_start_address: pointer,
        teb: pointer,
        /// The service.
        sub_process_tag: u32,
    }
}

layout! {
    /// From version 3 on.
    pub struct Details3 {
        stack_base: pointer,
        stack_limit: pointer,
        user_stack_base: pointer,
        user_stack_limit: pointer,
        affinity: pointer,
        /// The start address that the program gave.
        win32_start_address: pointer,
        teb: pointer,
        /// The service.
        sub_process_tag: u32,
        base_priority: u8,
        page_priority: u8,
        io_priority: u8,
        flags: u8,
    }
}

layout! {
    /// A thread got a name.
    pub struct ThreadName {
        process: u32,
        thread: u32,
        name: utf16,
    }
}

pub(super) fn thread(opcode: u8, version: u16, mut fields: Fields<'_>) -> Option<Thread> {
    let fields = &mut fields;
    let change = Change::from_opcode(opcode)?;
    let (process, thread) = (fields.u32()?, fields.u32()?);
    let details = match version {
        // The oldest end events.
        _ if change == Change::End && fields.rest.is_empty() => Details::None,
        0 | 1 => Details::Version1(Details1::read(fields)?),
        2 => Details::Version2(Details2::read(fields)?),
        _ => Details::Version3(Details3::read(fields)?),
    };
    let has_name = version >= 3 && fields.rest.len() >= 2;
    let name = if has_name { fields.utf16() } else { None };
    Some(Thread { change, process, thread, details, name })
}

/// Appends version 4.
pub(crate) fn write(thread: &Thread, output: &mut Output) {
    output.u32(thread.process);
    output.u32(thread.thread);
    match &thread.details {
        Details::Version3(details) => details.write(output),
        _ => Details3::default().write(output),
    }
    if let Some(name) = &thread.name {
        output.utf16(name);
    }
}
