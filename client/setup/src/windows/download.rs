//! Downloads from symbol servers, by WinHTTP, which uses Windows' own proxies and certificates.

use super::library::Library;
use super::{last_error, succeeded, wide};
use crate::Result;
use crate::download::{CONNECT_TIME_MAX, Pace, Protocols, REDIRECTS_MAX, is_found};
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::ptr;
use std::time::Instant;
use windows_sys::Win32::Foundation::FALSE;
use windows_sys::Win32::Networking::WinHttp::{
    URL_COMPONENTS, WINHTTP_ACCESS_TYPE_AUTOMATIC_PROXY, WINHTTP_AUTOLOGON_SECURITY_LEVEL_HIGH,
    WINHTTP_FLAG_SECURE, WINHTTP_OPTION_AUTOLOGON_POLICY,
    WINHTTP_OPTION_MAX_HTTP_AUTOMATIC_REDIRECTS, WINHTTP_OPTION_REDIRECT_POLICY,
    WINHTTP_OPTION_REDIRECT_POLICY_DISALLOW_HTTPS_TO_HTTP, WINHTTP_QUERY_FLAG_NUMBER,
    WINHTTP_QUERY_STATUS_CODE,
};
use windows_sys::core::{BOOL, PCWSTR};

/// How long each look-up, connection, and single send and receive may take, in milliseconds. By
/// default WinHTTP waits without end for a name. All headers together have 90 s, by its default.
const STEP_TIME_MAX_MS: i32 = CONNECT_TIME_MAX.as_millis() as i32;

/// What each request is made with. Windows' own name and password are not sent to any server: by
/// default those that WinHTTP takes for the intranet get them.
const OPTIONS: [(u32, u32); 3] = [
    (WINHTTP_OPTION_AUTOLOGON_POLICY, WINHTTP_AUTOLOGON_SECURITY_LEVEL_HIGH),
    (WINHTTP_OPTION_REDIRECT_POLICY, WINHTTP_OPTION_REDIRECT_POLICY_DISALLOW_HTTPS_TO_HTTP),
    (WINHTTP_OPTION_MAX_HTTP_AUTOMATIC_REDIRECTS, REDIRECTS_MAX),
];

type Hinternet = *mut c_void;
type CloseHandle = unsafe extern "system" fn(Hinternet) -> BOOL;

/// The functions of WinHTTP, with their types (winhttp.h).
struct WinHttp {
    open: unsafe extern "system" fn(PCWSTR, u32, PCWSTR, PCWSTR, u32) -> Hinternet,
    crack_url: unsafe extern "system" fn(PCWSTR, u32, u32, *mut URL_COMPONENTS) -> BOOL,
    connect: unsafe extern "system" fn(Hinternet, PCWSTR, u16, u32) -> Hinternet,
    set_timeouts: unsafe extern "system" fn(Hinternet, i32, i32, i32, i32) -> BOOL,
    set_option: unsafe extern "system" fn(Hinternet, u32, *const c_void, u32) -> BOOL,
    open_request: unsafe extern "system" fn(
        Hinternet,
        PCWSTR,
        PCWSTR,
        PCWSTR,
        PCWSTR,
        *const PCWSTR,
        u32,
    ) -> Hinternet,
    send_request:
        unsafe extern "system" fn(Hinternet, PCWSTR, u32, *const c_void, u32, u32, usize) -> BOOL,
    receive_response: unsafe extern "system" fn(Hinternet, *mut c_void) -> BOOL,
    query_headers:
        unsafe extern "system" fn(Hinternet, u32, PCWSTR, *mut c_void, *mut u32, *mut u32) -> BOOL,
    query_data_available: unsafe extern "system" fn(Hinternet, *mut u32) -> BOOL,
    read_data: unsafe extern "system" fn(Hinternet, *mut c_void, u32, *mut u32) -> BOOL,
    close_handle: CloseHandle,
}

struct Handle {
    handle: Hinternet,
    close: CloseHandle,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nothing uses it after this.
        unsafe { (self.close)(self.handle) };
    }
}

/// A server and the resource requested from it.
struct Target {
    host: Vec<u16>,
    port: u16,
    path: Vec<u16>,
}

/// Downloads a URL into a file; returns `false` if the server does not have it. `progress` gets the
/// number of bytes that have come.
///
/// # Errors
/// A message, if the URL is not of https (or of http and this machine), the server cannot be reached
/// or answers anything else, the answer is cut, too long or too slow, or if the file cannot be
/// written.
pub fn fetch(
    url: &str,
    file: &mut File,
    progress: &dyn Fn(u64),
) -> std::result::Result<bool, String> {
    let protocols = Protocols::of(url)?;
    let http = WinHttp::load().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let reply = http.ask(url, protocols).map_err(|error| error.to_string())?;
    let found = is_found(reply.status)?;
    if found {
        let pace = Pace::new(began, Instant::now());
        http.write(&reply, pace, file, progress)?;
    }
    Ok(found)
}

/// A response whose headers have arrived. Handles are closed in this order.
struct Reply {
    request: Handle,
    _connection: Handle,
    _session: Handle,
    status: u32,
}

impl WinHttp {
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "all are safe for one reason")]
    fn load() -> Result<Self> {
        let library = Library::load("winhttp.dll")?;
        // SAFETY: the fields have the types of the functions.
        unsafe {
            Ok(Self {
                open: library.function(c"WinHttpOpen")?,
                crack_url: library.function(c"WinHttpCrackUrl")?,
                connect: library.function(c"WinHttpConnect")?,
                set_timeouts: library.function(c"WinHttpSetTimeouts")?,
                set_option: library.function(c"WinHttpSetOption")?,
                open_request: library.function(c"WinHttpOpenRequest")?,
                send_request: library.function(c"WinHttpSendRequest")?,
                receive_response: library.function(c"WinHttpReceiveResponse")?,
                query_headers: library.function(c"WinHttpQueryHeaders")?,
                query_data_available: library.function(c"WinHttpQueryDataAvailable")?,
                read_data: library.function(c"WinHttpReadData")?,
                close_handle: library.function(c"WinHttpCloseHandle")?,
            })
        }
    }

    fn handle(&self, handle: Hinternet, step: &'static str) -> Result<Handle> {
        if handle.is_null() {
            return Err(last_error(step));
        }
        Ok(Handle { handle, close: self.close_handle })
    }

    /// Sends the request and waits for the headers of the response.
    fn ask(&self, url: &str, protocols: Protocols) -> Result<Reply> {
        let target = self.target(url)?;
        let agent = wide::terminated(concat!("halprof/", env!("CARGO_PKG_VERSION")));
        // SAFETY: the name ends with a zero; there is no proxy to name.
        let session = unsafe {
            (self.open)(
                agent.as_ptr(),
                WINHTTP_ACCESS_TYPE_AUTOMATIC_PROXY,
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        let session = self.handle(session, "WinHTTP could not be opened")?;
        let [resolve, connect, send, receive] = [STEP_TIME_MAX_MS; 4];
        // SAFETY: the session is open.
        let done = unsafe { (self.set_timeouts)(session.handle, resolve, connect, send, receive) };
        succeeded(done, "WinHTTP takes no time-outs")?;
        // SAFETY: the session is open, the host's name ends with a zero.
        let connection =
            unsafe { (self.connect)(session.handle, target.host.as_ptr(), target.port, 0) };
        let connection = self.handle(connection, "the server's name is not valid")?;
        let verb = wide::terminated("GET");
        let flags = match protocols {
            Protocols::Https => WINHTTP_FLAG_SECURE,
            Protocols::HttpAndHttps => 0,
        };
        // SAFETY: the connection is open, the texts end with a zero, and the others are null.
        let request = unsafe {
            (self.open_request)(
                connection.handle,
                verb.as_ptr(),
                target.path.as_ptr(),
                ptr::null(),
                ptr::null(),
                ptr::null(),
                flags,
            )
        };
        let request = self.handle(request, "the request is not valid")?;
        for (option, value) in OPTIONS {
            let (value, length) = (&raw const value, size_of_val(&value) as u32);
            // SAFETY: the request is open; each of these options is a number of this length.
            let done = unsafe { (self.set_option)(request.handle, option, value.cast(), length) };
            succeeded(done, "the request takes no option")?;
        }
        // SAFETY: the request is open; there are no headers and no data.
        let sent =
            unsafe { (self.send_request)(request.handle, ptr::null(), 0, ptr::null(), 0, 0, 0) };
        succeeded(sent, "the server could not be asked")?;
        // SAFETY: the request has been sent; the second argument is reserved.
        let received = unsafe { (self.receive_response)(request.handle, ptr::null_mut()) };
        succeeded(received, "the server did not answer")?;
        let (mut status, mut length) = (0u32, size_of::<u32>() as u32);
        // SAFETY: the headers have arrived; `status` is valid for writes of `length` bytes.
        let done = unsafe {
            (self.query_headers)(
                request.handle,
                WINHTTP_QUERY_STATUS_CODE | WINHTTP_QUERY_FLAG_NUMBER,
                ptr::null(),
                (&raw mut status).cast(),
                &raw mut length,
                ptr::null_mut(),
            )
        };
        succeeded(done, "the server's answer has no status")?;
        Ok(Reply { request, _connection: connection, _session: session, status })
    }

    fn target(&self, url: &str) -> Result<Target> {
        let text = wide::terminated(url);
        // A length other than 0 requests a pointer to that part.
        let mut parts = URL_COMPONENTS {
            dwStructSize: size_of::<URL_COMPONENTS>() as u32,
            dwHostNameLength: u32::MAX,
            dwUrlPathLength: u32::MAX,
            ..URL_COMPONENTS::default()
        };
        // SAFETY: the text ends with a zero; `parts` holds its size and is valid for a write.
        let cracked = unsafe { (self.crack_url)(text.as_ptr(), 0, 0, &raw mut parts) };
        succeeded(cracked, "the server's URL is not valid")?;
        let part = |start: *mut u16, length: u32| -> Vec<u16> {
            // SAFETY: the part lies within `text`, which is still alive.
            let units = unsafe { std::slice::from_raw_parts(start, length as usize) };
            units.iter().copied().chain([0]).collect()
        };
        Ok(Target {
            host: part(parts.lpszHostName, parts.dwHostNameLength),
            port: parts.nPort,
            path: part(parts.lpszUrlPath, parts.dwUrlPathLength),
        })
    }

    /// Reads only what has come: a read for a whole buffer may wait for each byte of it, and no time
    /// would be looked at in between.
    fn write(
        &self,
        reply: &Reply,
        mut pace: Pace,
        file: &mut File,
        progress: &dyn Fn(u64),
    ) -> std::result::Result<(), String> {
        let broken = || last_error("the server's answer broke off").to_string();
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let mut available = 0;
            // SAFETY: the request is open, and `available` is valid for a write.
            let done =
                unsafe { (self.query_data_available)(reply.request.handle, &raw mut available) };
            if done == FALSE {
                return Err(broken());
            }
            let length = buffer.len().min(available as usize);
            let room = buffer.get_mut(..length).unwrap_or_default();
            let mut read = 0;
            // SAFETY: the request is open; `room` is valid for writes of its length, `read` for a
            // write.
            let done = unsafe {
                (self.read_data)(
                    reply.request.handle,
                    room.as_mut_ptr().cast(),
                    room.len() as u32,
                    &raw mut read,
                )
            };
            if done == FALSE {
                return Err(broken());
            }
            if read == 0 {
                return Ok(());
            }
            let all = pace.came(u64::from(read), Instant::now())?;
            let piece = room.get(..read as usize).unwrap_or_default();
            file.write_all(piece).map_err(|error| error.to_string())?;
            progress(all);
        }
    }
}
