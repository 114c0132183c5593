//! A web server on 127.0.0.1, which lives as long as the test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// What is answered to a request.
pub(crate) struct Response {
    /// Such as `404 Not Found`.
    pub(crate) status: &'static str,
    /// The header fields beside the length's, each with its end of line.
    pub(crate) fields: &'static str,
    pub(crate) body: Vec<u8>,
    /// The length that the head states.
    pub(crate) length: usize,
}

impl Response {
    pub(crate) fn new(status: &'static str, body: Vec<u8>) -> Self {
        Self { status, fields: "", length: body.len(), body }
    }

    pub(crate) fn found(body: Vec<u8>) -> Self {
        Self::new("200 OK", body)
    }

    pub(crate) fn not_found() -> Self {
        Self::new("404 Not Found", b"not here".to_vec())
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves what `answer` gives for a path.
    pub(crate) fn start(answer: impl Fn(&str) -> Response + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let asked = Arc::default();
        let server = Self { port, asked: Arc::clone(&asked) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut lines = BufReader::new(&stream).lines();
                let first = lines.next().expect("a request").expect("a line");
                let path = first.split(' ').nth(1).expect("a path").to_owned();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let Response { status, fields, body, length } = answer(&path);
                asked.lock().expect("no panic").push(path);
                let head = format!(
                    "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).expect("sent");
                stream.write_all(&body).expect("sent");
            }
        });
        server
    }

    /// The paths that were asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}
