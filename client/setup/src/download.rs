//! What holds for every download from a symbol server, whoever asks it: which servers are asked, how
//! long and how large an answer may be, and what its status means.

use std::time::Duration;
#[cfg(any(windows, test))]
use std::time::Instant;

/// The largest download that is accepted: 4 GiB, which no PDB exceeds.
pub(crate) const BYTES_MAX: u64 = 1 << 32;
/// The longest download: 4 GiB at 10 Mbit/s.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3600);
/// How long a connection may take.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// A download slower than so many bytes a second, for this time, has stalled.
pub(crate) const STALL_BYTES_PER_SECOND: u32 = 1000;
pub(crate) const STALL_TIME: Duration = Duration::from_secs(60);
pub(crate) const REDIRECTS_MAX: u32 = 5;

/// Hosts that are this machine, which are asked without encryption too.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The protocols by which a server may be asked, redirections included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    Https,
    /// Of this machine alone. It may redirect to https, and anywhere by http.
    HttpAndHttps,
}

impl Protocols {
    /// Those for a URL.
    ///
    /// # Errors
    /// A message, if its server may not be asked at all.
    pub(crate) fn of(url: &str) -> Result<Self, String> {
        let (protocol, rest) = url.split_once("://").ok_or("the server's URL is not valid")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
            _ => authority,
        };
        match protocol {
            "https" => Ok(Self::Https),
            "http" if LOOPBACK.contains(&host) => Ok(Self::HttpAndHttps),
            _ => Err("only servers of https are asked".to_owned()),
        }
    }
}

/// Whether a server that answers with a status of HTTP has the file.
///
/// # Errors
/// A message, if the status says neither.
pub(crate) fn is_found(status: u32) -> Result<bool, String> {
    match status {
        200 => Ok(true),
        // Not found, gone.
        404 | 410 => Ok(false),
        status => Err(format!("the server answered with status {status}")),
    }
}

/// What has come so far of a download, and whether it still may go on. curl watches that itself.
#[cfg(any(windows, test))]
pub(crate) struct Pace {
    began: Instant,
    /// Of the whole answer.
    bytes: u64,
    /// When the time began within which it has to be fast enough, and the bytes before that.
    since: (Instant, u64),
}

#[cfg(any(windows, test))]
impl Pace {
    /// A download that was asked for at one time, and whose bytes come from another on.
    pub(crate) const fn new(began: Instant, now: Instant) -> Self {
        Self { began, bytes: 0, since: (now, 0) }
    }

    /// Counts what has come; returns the bytes of all.
    ///
    /// # Errors
    /// A message, if it is too long, too late, or too slow.
    pub(crate) fn came(&mut self, bytes: u64, now: Instant) -> Result<u64, String> {
        self.bytes = self.bytes.saturating_add(bytes);
        is_short_enough(self.bytes)?;
        if now.duration_since(self.began) > TIME_MAX {
            return Err("it takes longer than an hour".to_owned());
        }
        let (since, before) = self.since;
        let waited = now.duration_since(since);
        if waited >= STALL_TIME {
            if self.bytes - before < waited.as_secs() * u64::from(STALL_BYTES_PER_SECOND) {
                return Err("it has stalled".to_owned());
            }
            self.since = (now, self.bytes);
        }
        Ok(self.bytes)
    }
}

/// # Errors
/// A message, if an answer has more bytes than any PDB.
pub(crate) fn is_short_enough(bytes: u64) -> Result<(), String> {
    if bytes > BYTES_MAX {
        return Err("it is longer than 4 GiB".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_without_encryption() {
        use Protocols::{HttpAndHttps, Https};
        for (url, expected) in [
            ("https://msdl.microsoft.com/download/symbols/a", Some(Https)),
            ("http://127.0.0.1:8080/a", Some(HttpAndHttps)),
            ("http://localhost/a", Some(HttpAndHttps)),
            ("http://[::1]:80/a", Some(HttpAndHttps)),
            ("http://example.com/a", None),
            ("http://127.0.0.1.example.com/a", None),
            ("http://127.0.0.1@example.com/a", None),
            ("http://127.0.0.1:80@example.com/a", None),
            (r"http://127.0.0.1\@example.com/a", None),
            ("http://127.0.0.2/a", None),
            ("http://example.com:80/127.0.0.1", None),
            ("http://example.com#@127.0.0.1/", None),
            ("file:///etc/passwd", None),
            ("ftp://127.0.0.1/a", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(Protocols::of(url).ok(), expected, "{url}");
        }
    }

    #[test]
    fn a_server_has_a_file_or_not_or_does_not_say() {
        for (status, found) in
            [(200, Some(true)), (404, Some(false)), (410, Some(false)), (403, None), (500, None)]
        {
            assert_eq!(is_found(status).ok(), found, "{status}");
        }
    }

    /// What comes, again and again, at which distance in seconds; and after how many seconds and for which
    /// reason that is refused.
    #[test]
    fn a_download_ends_when_it_is_too_slow_too_late_or_too_long() {
        for (bytes, every, ended) in [
            // A byte before each time-out of a single read.
            (1, 29, Some((87, "stalled"))),
            (0, 29, Some((87, "stalled"))),
            (999, 1, Some((60, "stalled"))),
            (1000, 1, Some((3601, "an hour"))),
            (60_000, 30, Some((3630, "an hour"))),
            (1 << 30, 10, Some((50, "4 GiB"))),
            (1 << 20, 1, Some((3601, "an hour"))),
        ] {
            let start = Instant::now();
            let mut pace = Pace::new(start, start);
            let mut seconds = (1..=4000).map(|n| n * every);
            let refused = seconds.find_map(|second| {
                let came = pace.came(bytes, start + Duration::from_secs(second));
                came.err().map(|why| (second, why))
            });
            let refused = refused.as_ref().map(|(second, why)| (*second, why.as_str()));
            let is_right = match (refused, ended) {
                (Some((at, why)), Some((second, word))) => at == second && why.contains(word),
                (refused, ended) => refused.is_none() && ended.is_none(),
            };
            assert!(is_right, "{bytes} each {every} s: {refused:?}");
        }
    }

    /// A pause is no stall where enough came before it in the same minute.
    #[test]
    fn a_download_may_pause() {
        let start = Instant::now();
        let mut pace = Pace::new(start, start);
        for (second, bytes) in [(1, 1 << 20), (59, 1), (119, 70_000), (149, 0), (178, 60_000)] {
            let came = pace.came(bytes, start + Duration::from_secs(second));
            assert!(came.is_ok(), "at {second} s: {came:?}");
        }
    }
}
