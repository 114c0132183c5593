//! The delivery of a real-time session's events (evntcons.h).

use super::privilege::last_error;
use crate::live_tracing::{Consumer, Record};
use halprof_etw::{EventId, Guid};
use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::thread;
use windows_sys::Win32::Foundation::{
    ERROR_CTX_CLOSE_PENDING, ERROR_NOT_ENOUGH_MEMORY, ERROR_SUCCESS, FALSE, TRUE,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CloseTrace, EVENT_HEADER_EXT_TYPE_PMC_COUNTERS, EVENT_HEADER_FLAG_PROCESSOR_INDEX,
    EVENT_RECORD, EVENT_TRACE_LOGFILEW, OpenTraceW, PROCESS_TRACE_MODE_EVENT_RECORD,
    PROCESS_TRACE_MODE_RAW_TIMESTAMP, PROCESS_TRACE_MODE_REAL_TIME, PROCESSTRACE_HANDLE,
    ProcessTrace,
};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};

/// Keeps this library loaded until the process ends: a thread of its own will run in it.
pub(super) fn keep_loaded() -> Result<(), u32> {
    let mut module = ptr::null_mut();
    let address: *const u16 = (keep_loaded as fn() -> Result<(), u32> as *const ()).cast();
    // SAFETY: with FROM_ADDRESS the "name" is an address in the module, and `module` is valid for a
    // write.
    let done = unsafe {
        GetModuleHandleExW(
            GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
            address,
            &raw mut module,
        )
    };
    if done == FALSE { Err(last_error()) } else { Ok(()) }
}

/// Delivers the events of the session of this name, which ends with a zero.
pub(super) fn consume(mut name: Vec<u16>, consumer: Arc<dyn Consumer>) -> Result<(), u32> {
    // Callbacks get a thin pointer, which stays valid until ProcessTrace has returned.
    let consumer = Box::new(consumer);
    let mut log = EVENT_TRACE_LOGFILEW {
        LoggerName: name.as_mut_ptr(),
        BufferCallback: Some(buffer),
        Context: (&raw const *consumer).cast_mut().cast(),
        ..EVENT_TRACE_LOGFILEW::default()
    };
    // Raw times are those of the performance counter, as the threads read it.
    log.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME
        | PROCESS_TRACE_MODE_EVENT_RECORD
        | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    log.Anonymous2.EventRecordCallback = Some(event);
    // SAFETY: the name ends with a zero and outlives the call; the callbacks are functions.
    let handle = unsafe { OpenTraceW(&raw mut log) };
    // INVALID_PROCESSTRACE_HANDLE.
    if handle.Value == u64::MAX {
        return Err(last_error());
    }
    let spawned = thread::Builder::new().spawn(move || deliver(handle, &consumer));
    spawned.map(drop).map_err(|error| {
        // SAFETY: the handle is open, and no thread has it.
        unsafe { CloseTrace(handle) };
        error.raw_os_error().map_or(ERROR_NOT_ENOUGH_MEMORY, i32::cast_unsigned)
    })
}

/// Delivers events until the session ends or the consumer wants no more.
fn deliver(handle: PROCESSTRACE_HANDLE, consumer: &Arc<dyn Consumer>) {
    // SAFETY: the handle is open, and the times are absent. The callbacks use `consumer`, which is
    // boxed, through the context.
    let _ = unsafe { ProcessTrace(&raw const handle, 1, ptr::null(), ptr::null()) };
    // SAFETY: the handle is open, and nobody uses it afterwards.
    let closed = unsafe { CloseTrace(handle) };
    debug_assert!(matches!(closed, ERROR_SUCCESS | ERROR_CTX_CLOSE_PENDING), "{closed}");
    consumer.ended();
}

/// The EventRecordCallback.
unsafe extern "system" fn event(record: *mut EVENT_RECORD) {
    // SAFETY: Windows lends it until this returns.
    let Some(record) = (unsafe { record.as_ref() }) else { return };
    // SAFETY: it is the context of `consume`, a consumer that outlives ProcessTrace.
    let Some(consumer) = (unsafe { record.UserContext.cast::<Arc<dyn Consumer>>().as_ref() })
    else {
        return;
    };
    let header = &record.EventHeader;
    let context = record.BufferContext.Anonymous;
    let has_index = u32::from(header.Flags) & EVENT_HEADER_FLAG_PROCESSOR_INDEX != 0;
    let processor = if has_index {
        // SAFETY: the flag says that this number was written.
        unsafe { context.ProcessorIndex }
    } else {
        // SAFETY: without the flag the other number was written.
        unsafe { context.Anonymous.ProcessorNumber }.into()
    };
    let guid = header.ProviderId;
    let [a, b] = [guid.data2, guid.data3].map(u128::from);
    let guid = u128::from(guid.data1) << 96
        | a << 80
        | b << 64
        | u128::from(u64::from_be_bytes(guid.data4));
    let id = EventId::Classic {
        guid: Guid(guid),
        opcode: header.EventDescriptor.Opcode,
        version: header.EventDescriptor.Version.into(),
    };
    // SAFETY: Windows lends so many bytes until this returns.
    let payload = unsafe { bytes(record.UserData, record.UserDataLength.into()) };
    // SAFETY: Windows lends so many items until this returns.
    let items = unsafe { items(record) };
    let values =
        items.iter().find(|item| u32::from(item.ExtType) == EVENT_HEADER_EXT_TYPE_PMC_COUNTERS);
    let values = values.map_or(&[][..], |item| {
        let data = item.DataPtr as *const c_void;
        // SAFETY: as for the payload. The values may be unaligned, which bytes allow.
        unsafe { bytes(data, item.DataSize.into()) }
    });
    consumer.record(&Record { time: header.TimeStamp, processor, id, payload, values });
}

/// The BufferCallback: returns whether to go on.
unsafe extern "system" fn buffer(log: *mut EVENT_TRACE_LOGFILEW) -> u32 {
    // SAFETY: Windows lends it until this returns.
    let context = unsafe { log.as_ref() }.map(|log| log.Context);
    // SAFETY: it is the context of `consume`, a consumer that outlives ProcessTrace.
    let consumer =
        context.and_then(|context| unsafe { context.cast::<Arc<dyn Consumer>>().as_ref() });
    let goes_on = consumer.is_some_and(|consumer| consumer.goes_on());
    if goes_on { TRUE.cast_unsigned() } else { FALSE.cast_unsigned() }
}

/// # Safety
/// `data` is NULL or valid for reads of `length` bytes.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { slice::from_raw_parts(data.cast(), length) }
}

/// # Safety
/// `record` is as Windows lends it.
unsafe fn items(
    record: &EVENT_RECORD,
) -> &[windows_sys::Win32::System::Diagnostics::Etw::EVENT_HEADER_EXTENDED_DATA_ITEM] {
    if record.ExtendedData.is_null() {
        return &[];
    }
    // SAFETY: Windows has put so many there.
    unsafe { slice::from_raw_parts(record.ExtendedData, record.ExtendedDataCount.into()) }
}
