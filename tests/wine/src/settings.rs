//! What a test wants of the driver, from a file of lines such as `hold stop`.
//!
//! ```text
//! machine NAME           the modelled machine; skylake,processors=2 by default
//! workload WORKLOAD      what it runs; by default without end
//! begin start            the workload begins with each START that succeeds, not with the device
//! without-pnp            the device is there as soon as the driver is loaded
//! fail REQUEST STATUS    the request completes with this status, in hexadecimal
//! hold REQUEST           the request waits until it is cancelled
//! delay REQUEST MS       the request is answered after so many milliseconds
//! cut REQUEST BYTES      the reply has no more bytes than these
//! flip REQUEST BYTE XOR  one byte of the reply is changed
//! ```

use shared_types::request::RequestCode;
use std::str::FromStr;

const FILE: &str = r"C:\halprof-driver.conf";

/// The lines of the file.
#[derive(Default)]
pub(crate) struct Settings(Vec<String>);

impl Settings {
    /// The file as it is at this moment; without one there are no faults.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(FILE).unwrap_or_default();
        Self(text.lines().map(str::to_owned).collect())
    }

    /// What follows this word.
    pub(crate) fn of(&self, word: &str) -> Option<&str> {
        self.0
            .iter()
            .find_map(|line| line.strip_prefix(word).filter(|rest| ends_word(rest)))
            .map(str::trim)
    }

    /// What follows this word and the name of this request.
    fn of_request(&self, word: &str, code: RequestCode) -> Option<&str> {
        let own = self.0.iter().filter_map(|line| {
            let rest = line.strip_prefix(word).filter(|rest| ends_word(rest))?.trim();
            rest.strip_prefix(name(code)).filter(|rest| ends_word(rest))
        });
        own.map(str::trim).next()
    }

    pub(crate) fn failure(&self, code: RequestCode) -> Option<u32> {
        u32::from_str_radix(self.of_request("fail", code)?, 16).ok()
    }

    pub(crate) fn holds(&self, code: RequestCode) -> bool {
        self.of_request("hold", code).is_some()
    }

    pub(crate) fn delay_ms(&self, code: RequestCode) -> Option<u64> {
        self.number("delay", code)
    }

    pub(crate) fn cut(&self, code: RequestCode) -> Option<usize> {
        self.number("cut", code)
    }

    /// Which byte is changed, and by which bits.
    pub(crate) fn flip(&self, code: RequestCode) -> Option<(usize, u8)> {
        let (byte, bits) = self.of_request("flip", code)?.split_once(' ')?;
        Some((byte.parse().ok()?, bits.parse().ok()?))
    }

    fn number<N: FromStr>(&self, word: &str, code: RequestCode) -> Option<N> {
        self.of_request(word, code)?.parse().ok()
    }
}

fn ends_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(' ')
}

/// The name of a request.
pub(crate) fn name(code: RequestCode) -> &'static str {
    RequestCode::ALL.iter().find(|(known, _)| *known == code).map_or("unknown", |(_, name)| name)
}
