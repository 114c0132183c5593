//! The delivery of a real-time session's events (evntcons.h).

use super::privilege::last_error;
use crate::live_tracing::Consumer;
use crate::tracing::live::{deliver_buffer, deliver_record};
use halprof_etw::header::RECORD_LENGTH;
use std::ffi::c_void;
use std::mem::{self, offset_of, size_of};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::thread;
use windows_sys::Win32::Foundation::{
    ERROR_CTX_CLOSE_PENDING, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_SUPPORTED, ERROR_SUCCESS, FALSE,
    TRUE,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CloseTrace, ETW_BUFFER_CALLBACK_INFORMATION, ETW_BUFFER_HEADER, ETW_OPEN_TRACE_OPTIONS,
    EVENT_HEADER_EXT_TYPE_PMC_COUNTERS, EVENT_RECORD, EVENT_TRACE_LOGFILEW, OpenTraceW,
    PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_RAW_TIMESTAMP,
    PROCESS_TRACE_MODE_REAL_TIME, PROCESSTRACE_HANDLE, ProcessTrace, TRACE_LOGFILE_HEADER,
};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    GetModuleHandleW, GetProcAddress,
};
use windows_sys::core::{BOOL, PCWSTR, s, w};

// The part of an event's record that is read as bytes, as evntcons.h has it.
const _: () = {
    assert!(offset_of!(EVENT_RECORD, BufferContext) == 80);
    assert!(offset_of!(EVENT_RECORD, UserDataLength) == RECORD_LENGTH - 2);
    assert!(size_of::<ETW_BUFFER_HEADER>() == halprof_etw::buffer::HEADER_LENGTH);
    assert!(offset_of!(ETW_BUFFER_HEADER, FilledBytes) == 48);
    assert!(size_of::<ETW_OPEN_TRACE_OPTIONS>() == 40);
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

/// Delivers the events of the session of this name, which ends with a zero: its buffers as they are, where
/// Windows hands them over, else single events.
pub(super) fn consume(mut name: Vec<u16>, consumer: Arc<dyn Consumer>) -> Result<(), u32> {
    // Callbacks get a thin pointer, which stays valid until ProcessTrace has returned.
    let consumer = Box::new(consumer);
    let context = (&raw const *consumer).cast_mut().cast();
    let handle = open_buffers(&name, context).or_else(|_| open_records(&mut name, context))?;
    let spawned = thread::Builder::new().spawn(move || deliver(handle, &consumer));
    spawned.map(drop).map_err(|error| {
        // SAFETY: the handle is open, and no thread has it.
        unsafe { CloseTrace(handle) };
        error.raw_os_error().map_or(ERROR_NOT_ENOUGH_MEMORY, i32::cast_unsigned)
    })
}

/// OpenTraceFromRealTimeLogger.
type OpenBuffers = unsafe extern "system" fn(
    PCWSTR,
    *const ETW_OPEN_TRACE_OPTIONS,
    *mut TRACE_LOGFILE_HEADER,
) -> u64;

/// Opens a session for whole buffers. Windows has this from 11 22H2 and Server 2022 on, so the function is
/// looked up when it is needed.
fn open_buffers(name: &[u16], context: *mut c_void) -> Result<PROCESSTRACE_HANDLE, u32> {
    // SAFETY: the name ends with a zero. This program imports the module, so it stays loaded.
    let module = unsafe { GetModuleHandleW(w!("advapi32.dll")) };
    if module.is_null() {
        return Err(last_error());
    }
    // SAFETY: the module is loaded, and the name ends with a zero.
    let function = unsafe { GetProcAddress(module, s!("OpenTraceFromRealTimeLogger")) };
    let function = function.ok_or(ERROR_NOT_SUPPORTED)?;
    // SAFETY: the function of this name has this type (evntrace.h).
    let open =
        unsafe { mem::transmute::<unsafe extern "system" fn() -> isize, OpenBuffers>(function) };
    let options = ETW_OPEN_TRACE_OPTIONS {
        // Raw times, as below. Without an EventCallback no event is played back on its own.
        ProcessTraceModes: PROCESS_TRACE_MODE_RAW_TIMESTAMP.cast_signed(),
        BufferCallback: Some(whole_buffer),
        BufferCallbackContext: context,
        ..ETW_OPEN_TRACE_OPTIONS::default()
    };
    // SAFETY: the name ends with a zero; name and options outlive the call, the callback is a function, and
    // the header is not requested.
    let value = unsafe { open(name.as_ptr(), &raw const options, ptr::null_mut()) };
    valid(PROCESSTRACE_HANDLE { Value: value })
}

/// Opens a session for single events.
fn open_records(name: &mut [u16], context: *mut c_void) -> Result<PROCESSTRACE_HANDLE, u32> {
    let mut log = EVENT_TRACE_LOGFILEW {
        LoggerName: name.as_mut_ptr(),
        BufferCallback: Some(buffer),
        Context: context,
        ..EVENT_TRACE_LOGFILEW::default()
    };
    // Raw times are those of the performance counter, as the threads read it.
    log.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME
        | PROCESS_TRACE_MODE_EVENT_RECORD
        | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    log.Anonymous2.EventRecordCallback = Some(event);
    // SAFETY: the name ends with a zero and outlives the call; the callbacks are functions.
    valid(unsafe { OpenTraceW(&raw mut log) })
}

/// A handle, unless it is INVALID_PROCESSTRACE_HANDLE.
fn valid(handle: PROCESSTRACE_HANDLE) -> Result<PROCESSTRACE_HANDLE, u32> {
    if handle.Value == u64::MAX { Err(last_error()) } else { Ok(handle) }
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
    // SAFETY: the record begins with so many bytes, which Windows has written (see above).
    let fixed = unsafe { bytes(ptr::from_ref(record).cast(), RECORD_LENGTH) };
    deliver_record(fixed, payload, values, &**consumer);
}

/// The PETW_BUFFER_CALLBACK: returns whether to go on.
unsafe extern "system" fn whole_buffer(
    buffer: *const ETW_BUFFER_HEADER,
    size: u32,
    _: *const ETW_BUFFER_CALLBACK_INFORMATION,
    context: *const c_void,
) -> BOOL {
    // SAFETY: it is the context of `consume`, a consumer that outlives ProcessTrace.
    let Some(consumer) = (unsafe { context.cast::<Arc<dyn Consumer>>().as_ref() }) else {
        return FALSE;
    };
    // SAFETY: Windows lends it until this returns.
    if let Some(header) = unsafe { buffer.as_ref() } {
        // What is behind these bytes is not to be read.
        let filled = header.FilledBytes.min(size) as usize;
        // SAFETY: Windows lends so many bytes until this returns.
        deliver_buffer(unsafe { bytes(buffer.cast(), filled) }, &**consumer);
    }
    if consumer.goes_on() { TRUE } else { FALSE }
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
