//! Branches in a configuration: which requests are valid, and what each CPU type records.

use super::cpu_types::CpuTypes;
use super::io_buffer::{Refused, refused};
use crate::cpu::capabilities::Capabilities;
use crate::cpu::lbr::Recording;
use crate::plan::program::Program;
use crate::service::session::Rights;
use core::mem::offset_of;
use shared_types::ErrorCode;
use shared_types::request::session::{Configure, SAMPLE};

/// Refuses a number or a filter that is not valid, branches without samples, and kernel mode for a
/// client that may not see it.
pub(super) fn check_request(request: &Configure, rights: Rights) -> Result<(), Refused> {
    let (branches, filter) = (request.branches, request.branch_filter);
    let known = Configure::MODES | Configure::KINDS;
    if !matches!(branches, 0 | 8 | 16 | 32) {
        let offset = offset_of!(Configure, branches) as u32;
        return Err(refused(ErrorCode::BadValue, offset, branches.into()));
    }
    if filter & !known != 0 || (branches == 0 && filter != 0) {
        let offset = offset_of!(Configure, branch_filter) as u32;
        return Err(refused(ErrorCode::BadValue, offset, filter.into()));
    }
    if branches != 0 && request.header.flags & SAMPLE == 0 {
        return Err(refused(ErrorCode::BranchesNeedSamples, branches.into(), 0));
    }
    if filter & Configure::TO_KERNEL != 0 && !rights.sees_kernel() {
        let error = ErrorCode::BranchesKernelNotGranted;
        return Err(refused(error, filter.into(), 0));
    }
    Ok(())
}

/// Sets what each CPU type records; refuses if a CPU type that the session uses cannot record
/// it.
pub(super) fn make_recordings(
    cpu_types: &CpuTypes,
    program: &mut Program,
    filter: u16,
) -> Result<(), Refused> {
    let settings = &program.settings;
    let filter = completed(filter, settings.kernel);
    for (cpu_type, made) in program.cpu_programs.iter_mut().enumerate() {
        made.recording = Recording::default();
        let Some(Capabilities { branches, .. }) = cpu_types.list().get(cpu_type) else {
            continue;
        };
        if settings.branches == 0 || !cpu_types.uses(&settings.processors, cpu_type) {
            continue;
        }
        let processor = cpu_types.first_of(cpu_type) as u32;
        if branches.most() == 0 {
            let reason = branches.reason as u64;
            return Err(refused(ErrorCode::BranchesUnavailable, processor, reason));
        }
        made.recording = branches.recording(settings.branches, filter).ok_or(refused(
            ErrorCode::BranchDepth,
            processor,
            branches.most().into(),
        ))?;
    }
    Ok(())
}

/// Completes a filter so that it names both kinds and modes.
fn completed(filter: u16, sees_kernel: bool) -> u16 {
    let kinds = match filter & Configure::KINDS {
        0 => Configure::KINDS,
        some => some,
    };
    let modes = match filter & Configure::MODES {
        0 if sees_kernel => Configure::MODES,
        0 => Configure::TO_USER,
        some => some,
    };
    kinds | modes
}
