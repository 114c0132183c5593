//! Where requests go: to the installed driver, or to the same service on a modelled machine.
//!
//! A transport carries bytes and does not interpret them.

use crate::error::Result;
use crate::live_tracing::Live;
use shared_types::request::RequestCode;

/// Carries the bytes of one DeviceIoControl.
pub trait Transport {
    /// Sends `input`, puts the reply into `output` and returns its length in bytes.
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize>;

    /// What counts threads where nobody answers requests: Windows' own tracing, without the driver.
    fn live(&self) -> Option<Live> {
        None
    }
}
