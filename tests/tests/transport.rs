//! Does the client bear what Windows' I/O manager does to its requests?

use halprof_measure::{Connection, Error, InProcess, Session, Setup, Transport};
use halprof_tests::requests::spec;
use shared_types::request::RequestCode;
use shared_types::request::session::{self, Spec};
use shared_types::{ErrorCode, ReplyHeader};
use zerocopy::IntoBytes;

/// The first requests for a configuration had to wait behind another program's.
struct Waiting {
    machine: InProcess,
    requests: u32,
}

impl Transport for Waiting {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Error> {
        if code != session::CONFIGURE || self.requests == 0 {
            return self.machine.request(code, input, output);
        }
        self.requests -= 1;
        let refused = ReplyHeader::refused(ErrorCode::KernelAddressesNotGranted, 2, 0);
        let bytes = refused.as_bytes();
        output[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// The driver cannot see the privilege of a program whose request is presented by another's thread:
/// that is asked again, and a true refusal is still one.
#[test]
fn a_configuration_that_waited_is_asked_for_again() {
    for (requests, settled) in [(1, true), (2, true), (3, false)] {
        let machine = sim::machines::models::find("skylake").expect("a model");
        let machine = InProcess::new(&machine.processors());
        let waiting = Waiting { machine, requests };
        let mut connection = Connection::new(waiting).expect("a greeting");
        let setup = Setup { specs: vec![spec(2)], ..Setup::default() };
        let mut session = Session::open(&mut connection, true, false).expect("a session");
        let answer = session.configure(&setup, true);
        assert_eq!(answer.is_ok(), settled, "{requests}: {answer:?}");
    }
}

/// Windows has no memory for long replies: METHOD_BUFFERED takes it before the driver sees a request.
struct LittleMemory(InProcess);

impl Transport for LittleMemory {
    fn request(
        &mut self,
        code: RequestCode,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Error> {
        if code == session::STOP && output.len() > 64 << 10 {
            let why = "STATUS_INSUFFICIENT_RESOURCES".to_owned();
            return Err(Error::Protocol { request: "stop", why });
        }
        self.0.request(code, input, output)
    }
}

/// 300 processors with 4 counts of 80 bytes are 94 KiB.
#[test]
fn a_session_is_stopped_however_many_counts_it_has() {
    let machine = LittleMemory(InProcess::new(&halprof_tests::wire::leaves("skylake", 300)));
    let mut connection = Connection::new(machine).expect("a greeting");
    let setup = Setup { specs: (0xC0..0xC4).map(Spec::of_raw).collect(), ..Setup::default() };
    let mut session = Session::open(&mut connection, true, false).expect("a session");
    session.configure(&setup, false).expect("a configuration");
    session.start().expect("a start");
    let counts = session.stop_and_read().expect("all counts");
    assert_eq!((counts.len(), counts[0].len()), (300, 4));
}
