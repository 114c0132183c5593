//! A client of the driver's device with one session.

use halprof_tests::requests::{ALL_RIGHTS, bytes, configure, header};
use nt_model::device::File;
use nt_model::{Device, Violation};
use shared_types::request::events::EVENTS_BYTES_MAX;
use shared_types::request::session::{self, Opened, Session, Spec};
use shared_types::request::{Plain, RequestCode};
use shared_types::{ErrorCode, NtStatus, ReplyHeader};
use zerocopy::FromBytes;

/// The client's process.
pub(crate) const PROCESS: u32 = 1001;

/// An open handle, and a request about its session.
pub(crate) struct Client {
    pub(crate) file: File,
    about: Vec<u8>,
}

impl Client {
    /// Opens the device and a session, and configures it.
    pub(crate) fn configured(
        device: &mut Device,
        kernel: bool,
        flags: u32,
        specs: &[Spec],
    ) -> Result<Self, Violation> {
        let opening = Plain { header: header(if kernel { session::KERNEL } else { 0 }) };
        let mut client =
            Self { file: device.open(PROCESS, ALL_RIGHTS)?, about: bytes(&opening, &[]) };
        let opened = client.send(device, session::OPEN)?;
        let session = Opened::read_from_bytes(&opened).expect("opened").session;
        let reply = client.ask(device, session::CONFIGURE, &configure(session, flags, specs))?;
        assert_eq!(refusal(&reply), None);
        let about = Session { header: header(0), session, reserved: 0 };
        client.about = bytes(&about, &[]);
        Ok(client)
    }

    /// A request about the session that must succeed.
    pub(crate) fn granted(&self, device: &mut Device, code: RequestCode) -> Result<(), Violation> {
        let reply = self.send(device, code)?;
        assert_eq!(refusal(&reply), None);
        Ok(())
    }

    /// The reply to a request about the session.
    pub(crate) fn send(
        &self,
        device: &mut Device,
        code: RequestCode,
    ) -> Result<Vec<u8>, Violation> {
        self.ask(device, code, &self.about)
    }

    /// The reply to any request.
    pub(crate) fn ask(
        &self,
        device: &mut Device,
        code: RequestCode,
        input: &[u8],
    ) -> Result<Vec<u8>, Violation> {
        let mut output = vec![0; EVENTS_BYTES_MAX];
        let (status, length) = device.device_control(&self.file, code, input, &mut output)?;
        assert_eq!(status, NtStatus::SUCCESS);
        output.truncate(length);
        Ok(output)
    }
}

/// The error in a reply, with its subject and detail.
pub(crate) fn refusal(reply: &[u8]) -> Option<(ErrorCode, u32, u64)> {
    let (header, _) = ReplyHeader::read_from_prefix(reply).expect("a header");
    let code = ErrorCode::from_wire(header.error)?;
    Some((code, header.subject, header.detail))
}
