//! As much of HTTP as a scraper needs: GET and HEAD of two paths, one request for each connection.

use crate::output::Told;
use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Connections served at once; others wait their turn.
const WORKERS: usize = 8;
/// The longest head of a request, in bytes,
const HEAD_BYTES_MAX: usize = 8 << 10;
/// and its most header fields.
const FIELDS_MAX: usize = 64;
/// How long a client may take to ask, and to take the answer: one that dawdles keeps nobody else
/// waiting for longer.
const ASKING_MAX: Duration = Duration::from_secs(3);
const ANSWERING_MAX: Duration = Duration::from_secs(10);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What the server has to show.
pub(super) struct Page {
    about: String,
    metrics: RwLock<Arc<str>>,
}

impl Page {
    pub(super) fn new(told: &Told, metrics: String) -> Self {
        let modelled = if told.modelled {
            "modelled machine, not silicon: "
        } else {
            ""
        };
        Self {
            about: format!(
                "halprof: {modelled}{}\n\n/metrics: counts, in OpenMetrics 1.0\n",
                told.machine
            ),
            metrics: RwLock::new(metrics.into()),
        }
    }

    fn metrics(&self) -> Arc<str> {
        Arc::clone(&self.metrics.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A server that runs as long as the process.
pub(super) struct Server {
    address: SocketAddr,
    page: Arc<Page>,
}

impl Server {
    /// Listens, and answers on threads of its own.
    pub(super) fn start(address: SocketAddr, page: Page) -> Result<Self> {
        let refused = |error| cannot_listen(address, &error);
        let listener = TcpListener::bind(address).map_err(refused)?;
        let server = Self {
            address: listener.local_addr().map_err(refused)?,
            page: Arc::new(page),
        };
        let host = Host(server.address.ip().is_loopback());
        let listener = Arc::new(listener);
        for _ in 0..WORKERS {
            let (listener, page) = (Arc::clone(&listener), Arc::clone(&server.page));
            let serve = move || serve(&listener, &page, host);
            std::thread::Builder::new().spawn(serve).map_err(refused)?;
        }
        Ok(server)
    }

    /// Where it listens, with the port that it was given.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows another text from now on.
    pub(super) fn publish(&self, metrics: String) {
        let mut shown = self
            .page
            .metrics
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *shown = metrics.into();
    }
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "Another program listens there: take another port, or port 0 for a free one."
        }
        io::ErrorKind::PermissionDenied => "Take a port from 1024 on.",
        _ => "Take an address of this machine, such as 127.0.0.1.",
    };
    Error::unavailable(format!("{address} cannot be listened on: {error}"), hint)
}

/// One connection after the other.
fn serve(listener: &TcpListener, page: &Page, host: Host) {
    loop {
        match listener.accept() {
            // What becomes of a connection is its client's concern.
            Ok((stream, _)) => drop(Connection::new(stream).serve(page, host)),
            // Out of handles, most likely: they come back.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A connection, and when its client's time is over.
struct Connection {
    stream: TcpStream,
    until: Instant,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            until: Instant::now() + ASKING_MAX,
        }
    }

    fn serve(mut self, page: &Page, host: Host) -> io::Result<()> {
        let mut head = Vec::new();
        let response = loop {
            let mut bytes = [0; 1024];
            let read = self.read(&mut bytes)?;
            head.extend_from_slice(bytes.get(..read).unwrap_or_default());
            match answer(&head, page, host) {
                Some(response) => break response,
                None if read == 0 => return Ok(()),
                None => {}
            }
        };
        self.until = Instant::now() + ANSWERING_MAX;
        self.write(&response.bytes())?;
        self.stream.shutdown(Shutdown::Write)?;
        // A connection closed with bytes unread is reset, and the response may be lost with it.
        while self.read(&mut [0; 1024])? > 0 {}
        Ok(())
    }

    /// Reads what there is, within what is left of the time.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            let written = self.stream.write(bytes)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(left)
        }
    }
}

/// A response.
struct Response {
    status: &'static str,
    content_type: &'static str,
    /// Further header fields.
    fields: &'static str,
    body: Arc<str>,
    /// Whether the body is sent, or only its head.
    whole: bool,
}

impl Response {
    fn new(content_type: &'static str, body: Arc<str>) -> Self {
        Self {
            status: "200 OK",
            content_type,
            fields: "",
            body,
            whole: true,
        }
    }

    /// A refusal, which says why.
    fn refusal(status: &'static str, why: &str) -> Self {
        Self {
            status,
            ..Self::new(TEXT, format!("{why}\n").into())
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self {
            status,
            content_type,
            fields,
            body,
            whole,
        } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             {fields}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let body = if *whole { body.as_bytes() } else { &[] };
        [head.as_bytes(), body].concat()
    }
}

/// The response to a request; `None` where its head is not all there yet.
fn answer(head: &[u8], page: &Page, host: Host) -> Option<Response> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES_MAX => return None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            let why = "the head of the request is too large";
            return Some(Response::refusal(
                "431 Request Header Fields Too Large",
                why,
            ));
        }
        Err(_) => return Some(Response::refusal("400 Bad Request", "this is no HTTP/1.1")),
    }
    Some(complete(&request, page, host))
}

fn complete(request: &httparse::Request<'_, '_>, page: &Page, host: Host) -> Response {
    let mut hosts = request.headers.iter();
    let mut hosts = hosts
        .by_ref()
        .filter(|field| field.name.eq_ignore_ascii_case("host"));
    let named = hosts.next().map(|field| field.value);
    if hosts.next().is_some() || (named.is_none() && request.version == Some(1)) {
        return Response::refusal("400 Bad Request", "a request names one Host");
    }
    if named.is_some_and(|named| !host.allows(named)) {
        let why = "this server answers to localhost and loopback addresses only";
        return Response::refusal("421 Misdirected Request", why);
    }
    let whole = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => {
            return Response {
                fields: "Allow: GET, HEAD\r\n",
                ..Response::refusal("405 Method Not Allowed", "GET and HEAD only")
            };
        }
    };
    let target = request.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    let response = match path {
        "/metrics" => Response::new(OPENMETRICS, page.metrics()),
        "/" => Response::new(TEXT, page.about.as_str().into()),
        _ => Response::refusal("404 Not Found", "/metrics is what there is"),
    };
    Response { whole, ..response }
}

/// Which names the server answers to. A page of the web can give its own name this machine's
/// address and have a browser ask for it; a server that is for this machine alone refuses that name.
#[derive(Clone, Copy, Debug)]
struct Host(bool);

impl Host {
    fn allows(self, named: &[u8]) -> bool {
        let Self(loopback_only) = self;
        !loopback_only || std::str::from_utf8(named).is_ok_and(is_loopback)
    }
}

/// Whether `host` or `host:port` is this machine for itself.
fn is_loopback(host: &str) -> bool {
    let host = host.trim();
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let address = bare.unwrap_or(name).parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
