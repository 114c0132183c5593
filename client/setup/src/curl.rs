//! Downloads from symbol servers where there is no WinHTTP: by the program `curl`, which uses the
//! system's own proxies and certificates.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// The largest download that is accepted: 4 GiB, which no PDB exceeds.
const BYTES_MAX: u64 = 1 << 32;
/// The longest download, in seconds: 4 GiB at 10 Mbit/s.
const SECONDS_MAX: &str = "3600";
/// How long a connection may take, in seconds.
const CONNECT_SECONDS_MAX: &str = "30";
/// A download slower than 1,000 bytes a second for so many seconds has stalled.
const STALL_SECONDS: &str = "60";
const REDIRECTS_MAX: &str = "5";
const FOUND: &str = "200";
/// Not found, gone.
const ABSENT: [&str; 2] = ["404", "410"];
/// Hosts that are this machine, which are asked without encryption too.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Whether `curl` is installed.
pub fn is_installed() -> bool {
    let mut curl = Command::new("curl");
    curl.args(["--disable", "--version"]).stdin(Stdio::null());
    curl.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Downloads a URL into a file; returns `false` if the server does not have it. `progress` gets the
/// number of bytes that have come.
///
/// # Errors
/// A message, if the URL is not of https (or of http and this machine), the server cannot be reached
/// or answers anything else, the answer is cut, too long or too slow, or if the file cannot be
/// written.
pub fn fetch(url: &str, file: &mut File, progress: &dyn Fn(u64)) -> Result<bool, String> {
    let protocols = protocols(url)?;
    let mut child = Command::new("curl")
        // No file of the user's changes what is asked.
        .args(["--disable", "--globoff", "--silent", "--show-error", "--location"])
        .args(["--proto", protocols, "--proto-redir", protocols, "--max-redirs", REDIRECTS_MAX])
        .args(["--connect-timeout", CONNECT_SECONDS_MAX, "--max-time", SECONDS_MAX])
        .args(["--speed-limit", "1000", "--speed-time", STALL_SECONDS])
        .args(["--user-agent", concat!("halprof/", env!("CARGO_PKG_VERSION"))])
        .args(["--write-out", "%{stderr}\n%{http_code}", "--url", url])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("curl cannot be run: {error}"))?;
    let written = copy(&mut child, file, progress);
    if written.is_err() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    written?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (why, status) = said.trim_end().rsplit_once('\n').unwrap_or(("", &said));
    if !output.status.success() {
        return Err(why.trim().to_owned());
    }
    match status {
        FOUND => Ok(true),
        status if ABSENT.contains(&status) => Ok(false),
        status => Err(format!("the server answered with status {status}")),
    }
}

/// The protocols by which a server may be asked, redirections included.
fn protocols(url: &str) -> Result<&'static str, String> {
    let (protocol, rest) = url.split_once("://").ok_or("the server's URL is not valid")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => authority,
    };
    match protocol {
        "https" => Ok("=https"),
        "http" if LOOPBACK.contains(&host) => Ok("=http,https"),
        _ => Err("only servers of https are asked".to_owned()),
    }
}

fn copy(child: &mut Child, file: &mut File, progress: &dyn Fn(u64)) -> Result<(), String> {
    let mut stdout = child.stdout.take().ok_or("curl has no output")?;
    let mut buffer = vec![0; 64 << 10];
    let mut all = 0;
    loop {
        let length = stdout.read(&mut buffer).map_err(|error| error.to_string())?;
        if length == 0 {
            return Ok(());
        }
        all += length as u64;
        if all > BYTES_MAX {
            return Err("it is longer than 4 GiB".to_owned());
        }
        let piece = buffer.get(..length).unwrap_or_default();
        file.write_all(piece).map_err(|error| error.to_string())?;
        progress(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_without_encryption() {
        for (url, expected) in [
            ("https://msdl.microsoft.com/download/symbols/a", Some("=https")),
            ("http://127.0.0.1:8080/a", Some("=http,https")),
            ("http://localhost/a", Some("=http,https")),
            ("http://[::1]:80/a", Some("=http,https")),
            ("http://example.com/a", None),
            ("http://127.0.0.1.example.com/a", None),
            ("http://127.0.0.1@example.com/a", None),
            ("http://example.com:80/127.0.0.1", None),
            ("file:///etc/passwd", None),
            ("ftp://127.0.0.1/a", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(protocols(url).ok(), expected, "{url}");
        }
    }
}
