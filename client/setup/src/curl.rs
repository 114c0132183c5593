//! Downloads from symbol servers where there is no WinHTTP: by the program `curl`, which uses the
//! system's own proxies and certificates.

use crate::download::{
    CONNECT_TIME_MAX, Protocols, REDIRECTS_MAX, STALL_BYTES_PER_SECOND, STALL_TIME, TIME_MAX,
    is_found, is_short_enough,
};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

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
    let protocols = match Protocols::of(url)? {
        Protocols::Https => "=https",
        Protocols::HttpAndHttps => "=http,https",
    };
    let mut child = Command::new("curl")
        // No file of the user's changes what is asked.
        .args(["--disable", "--globoff", "--silent", "--show-error", "--location"])
        .args(["--proto", protocols, "--proto-redir", protocols, "--max-redirs"])
        .arg(REDIRECTS_MAX.to_string())
        .args(["--connect-timeout", &CONNECT_TIME_MAX.as_secs().to_string()])
        .args(["--max-time", &TIME_MAX.as_secs().to_string()])
        .args(["--speed-limit", &STALL_BYTES_PER_SECOND.to_string()])
        .args(["--speed-time", &STALL_TIME.as_secs().to_string()])
        .args(["--user-agent", concat!("halprof/", env!("CARGO_PKG_VERSION"))])
        .args(["--write-out", "%{stderr}\n%{http_code}", "--url", url])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("curl cannot be run: {error}"))?;
    let written = copy(&mut child, file, progress);
    // Curl itself would notice only with its next write that nobody reads any more.
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
    is_found(status.parse().map_err(|_| "curl gives no status")?)
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
        is_short_enough(all)?;
        let piece = buffer.get(..length).unwrap_or_default();
        file.write_all(piece).map_err(|error| error.to_string())?;
        progress(all);
    }
}
