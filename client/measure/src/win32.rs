//! What a failed request says, by the Win32 error that Windows has made of its NTSTATUS.
//!
//! Which error stands for which status: RtlNtStatusToDosError, as ntstatus.h and winerror.h name both.

use crate::error::Error;
use shared_types::NtStatus;
use std::io;
use std::time::Duration;

/// ERROR_OPERATION_ABORTED, of STATUS_CANCELLED.
const ABORTED: u32 = 995;

/// The errors of the statuses that the driver itself completes requests with.
const STATUSES: [(u32, NtStatus); 5] = [
    // ERROR_INVALID_FUNCTION, ERROR_ACCESS_DENIED, ERROR_NOT_READY, ERROR_BAD_LENGTH and
    // ERROR_INSUFFICIENT_BUFFER.
    (1, NtStatus::INVALID_DEVICE_REQUEST),
    (5, NtStatus::ACCESS_DENIED),
    (21, NtStatus::DEVICE_NOT_READY),
    (24, NtStatus::INFO_LENGTH_MISMATCH),
    (122, NtStatus::BUFFER_TOO_SMALL),
];

/// The errors of a device that is gone: ERROR_FILE_NOT_FOUND, ERROR_BAD_COMMAND
/// (STATUS_INVALID_DEVICE_STATE), ERROR_DEV_NOT_EXIST, ERROR_NO_SUCH_DEVICE, ERROR_DEVICE_NOT_CONNECTED
/// and ERROR_DEVICE_REMOVED.
const GONE: [u32; 6] = [2, 22, 55, 433, 1167, 1617];

/// The error of a request; `cancelled_after`: the client itself cancelled it, because it took so long.
pub(crate) fn failed(error: io::Error, cancelled_after: Option<Duration>) -> Error {
    let number = error.raw_os_error().unwrap_or(0).cast_unsigned();
    if let Some((_, status)) = STATUSES.iter().find(|(known, _)| *known == number) {
        return Error::Status(*status);
    }
    if GONE.contains(&number) {
        return Error::DriverGone { why: error.to_string() };
    }
    match cancelled_after {
        Some(time) if number == ABORTED => Error::TimedOut(time),
        None if number == ABORTED => Error::Device(io::Error::other("it was cancelled")),
        _ => Error::Device(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: i32, cancelled_after: Option<Duration>) -> Error {
        failed(io::Error::from_raw_os_error(number), cancelled_after)
    }

    #[test]
    fn each_status_of_the_driver_has_the_code_and_the_text_that_it_has_on_a_model() {
        for (number, status) in STATUSES {
            let (there, here) = (of(number.cast_signed(), None), Error::Status(status));
            assert_eq!((there.code(), there.to_string()), (here.code(), here.to_string()));
        }
    }

    #[test]
    fn only_what_the_client_cancelled_has_timed_out() {
        let time = Duration::from_secs(30);
        assert_eq!(of(995, Some(time)).code(), "timed-out");
        let cancelled = of(995, None);
        assert_eq!(cancelled.code(), "device-failed");
        assert!(cancelled.to_string().ends_with("it was cancelled"), "{cancelled}");
        // The request failed before it could be cancelled.
        assert_eq!(of(1450, Some(time)).code(), "device-failed");
    }

    #[test]
    fn a_device_that_has_gone_is_called_so() {
        for number in [2, 22, 55, 433, 1167, 1617] {
            assert_eq!(of(number, None).code(), "driver-gone", "{number}");
        }
    }
}
