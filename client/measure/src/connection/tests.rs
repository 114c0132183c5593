//! What becomes of a request that fails, and of a reply that is not as it should be.

use crate::connection::{Connection, Setup};
use crate::error::{Error, Result};
use crate::in_process::InProcess;
use crate::session::Session;
use crate::transport::Transport;
use shared_types::request::session::{OPEN, START, STOP, Spec};
use shared_types::request::{RequestCode, machine};
use shared_types::{NtStatus, ReplyHeader, WIRE_VERSION};
use std::mem::offset_of;

/// What happens to every request of one code.
#[derive(Clone, Copy)]
enum Fault {
    /// It is completed with this status.
    Status(NtStatus),
    /// The version in its reply is another.
    Version,
    /// The device ends every session before it arrives, as when it is removed.
    Removed,
}

struct Faulty {
    machine: InProcess,
    code: RequestCode,
    fault: Fault,
}

impl Transport for Faulty {
    fn request(&mut self, code: RequestCode, input: &[u8], output: &mut [u8]) -> Result<usize> {
        if code != self.code {
            return self.machine.request(code, input, output);
        }
        match self.fault {
            Fault::Status(status) => return Err(Error::Status(status)),
            Fault::Removed => self.machine.model().end_sessions(),
            Fault::Version => {}
        }
        let length = self.machine.request(code, input, output)?;
        if matches!(self.fault, Fault::Version) {
            output[offset_of!(ReplyHeader, version)] ^= 1;
        }
        Ok(length)
    }
}

fn faulty(code: RequestCode, fault: Fault) -> Faulty {
    let spec = crate::in_process::spec("skylake").expect("a model");
    Faulty { machine: InProcess::new(&spec.leaves), code, fault }
}

/// Counts one source from start to stop.
fn counted(connection: &mut Connection<Faulty>) -> Result<()> {
    let mut session = Session::open(connection, false, false)?;
    let specs = vec![Spec { source: 2, filter: Spec::USER, ..Spec::default() }];
    session.configure(&Setup { specs, ..Setup::default() }, false)?;
    session.start()?;
    session.stop_and_read().map(drop)
}

#[test]
fn a_reply_of_another_wire_version_is_refused() {
    for (code, what) in [(machine::HELLO, "hello"), (STOP, "stop")] {
        let connection = Connection::new(faulty(code, Fault::Version));
        let refused = connection.and_then(|mut connection| counted(&mut connection));
        let refused = refused.expect_err(what);
        assert_eq!(refused.code(), "version-mismatch", "{what}");
        let other = (WIRE_VERSION ^ 1).to_string();
        assert!(refused.to_string().ends_with(&other), "{refused}");
    }
}

#[test]
fn a_handle_that_has_answered_is_not_explained_by_rights_or_versions() {
    let vanishing =
        [NtStatus::ACCESS_DENIED, NtStatus::INVALID_DEVICE_REQUEST, NtStatus::DEVICE_NOT_READY];
    for status in vanishing {
        for code in [OPEN, START, STOP] {
            let connection = Connection::new(faulty(code, Fault::Status(status)));
            let gone = counted(&mut connection.expect("it greets")).expect_err("it fails");
            assert_eq!(gone.code(), "driver-gone", "{gone}");
        }
        // At the first request they can be the cause.
        let Err(refused) = Connection::new(faulty(machine::HELLO, Fault::Status(status))) else {
            panic!("{status:?} is no answer");
        };
        assert_eq!(refused.code(), Error::Status(status).code());
    }
}

#[test]
fn a_session_that_the_driver_has_ended_is_no_defect_of_the_client() {
    for code in [START, STOP] {
        let connection = Connection::new(faulty(code, Fault::Removed));
        let gone = counted(&mut connection.expect("it greets")).expect_err("no session");
        assert_eq!(gone.code(), "driver-gone", "{gone}");
    }
}
