//! Checks of what Windows reports.

use super::Check;
use super::tools::{self, RunningTool};
use crate::tracing_rights::{Grant, TracingRights};

/// What Windows reports; `None` where it does not say.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Build and revision, e.g. 19045 and 4291.
    pub build: Option<(u32, u32)>,
    /// Whether Windows itself runs on an Arm processor, where x64 programs are emulated.
    pub arm: Option<bool>,
    /// Whether this process has the rights of an administrator.
    pub elevated: Option<bool>,
    /// What its account may do without them; `None` if Windows does not say whose account it is.
    pub tracing_rights: Option<TracingRights>,
    /// CodeIntegrityOptions of SYSTEM_CODEINTEGRITY_INFORMATION.
    pub code_integrity: Option<u32>,
    /// Whether Secure Boot is on.
    pub secure_boot: Option<bool>,
    /// Running services, drivers among them.
    pub services: Option<Vec<String>>,
    /// Running programs, by file name.
    pub processes: Option<Vec<String>>,
    /// How many modules are visible in this process, and in the kernel.
    pub modules: Option<(usize, usize)>,
}

impl System {
    /// The running programs that use the counters, or may; `None` if Windows does not say what runs.
    pub(super) fn tools(&self) -> Option<Vec<RunningTool>> {
        Some(tools::running(self.services.as_deref()?, self.processes.as_deref()?))
    }

    /// Whether Windows' own tracing is allowed: to administrators, and to whom they have given it.
    pub(super) fn may_trace(&self) -> bool {
        let rights = self.tracing_rights.as_ref();
        self.elevated == Some(true) || rights.is_some_and(|rights| rights.in_force)
    }
}

/// CODEINTEGRITY_OPTION_TESTSIGN (winternl.h).
const TEST_SIGNING: u32 = 0x02;

/// What is in the way where the processor is an Arm one.
const NOT_FOR_ARM: &str = "The driver is for x64 processors, and an emulated one has no counters.";

/// Windows 10 version 2004: the oldest with KMDF 1.31.
const OLDEST_BUILD: u32 = 19041;

/// `runs`: the driver answers; `traces`: Windows' own tracing measures instead.
pub(super) fn checks(system: &System, runs: bool, traces: bool) -> Vec<Check> {
    let mut checks = vec![windows(system), permission(system, runs, traces)];
    checks.extend(system.tracing_rights.as_ref().map(|rights| tracing_rights(system, rights)));
    checks.extend([signing(system, runs), others(system), modules(system)]);
    checks
}

fn windows(system: &System) -> Check {
    let check = |result: String| Check::new("windows", result);
    let build = match system.build {
        Some((build, revision)) => format!("build {build}.{revision}"),
        None => "build unknown".to_owned(),
    };
    let is_old = system.build.map(|(build, _)| build < OLDEST_BUILD);
    match (system.arm, is_old) {
        (Some(true), _) => check(format!("{build}, on an Arm processor"))
            .problem(NOT_FOR_ARM, "Use WindowsPerf, which is for Windows on Arm."),
        (_, Some(true)) => check(build).problem(
            "The driver does not load: it needs KMDF 1.31.",
            "Update to Windows 10 version 2004 (build 19041) or later.",
        ),
        (_, None) => check(build)
            .unknown("The driver needs build 19041 or later.", "`winver` shows the build."),
        (None, _) => check(format!("{build}, on an unknown processor")).unknown(
            NOT_FOR_ARM,
            "Settings, System, About shows whether the processor is Arm-based.",
        ),
        (Some(false), Some(false)) => check(build),
    }
}

fn permission(system: &System, runs: bool, traces: bool) -> Check {
    let check = |result: &str| Check::new("permission", result);
    let elevate = "Run it from an elevated prompt (Run as administrator).";
    match system.elevated {
        Some(true) => check("elevated"),
        _ if runs => check("not elevated, but the device opens"),
        _ if traces && system.may_trace() => {
            check("not elevated, but this account may measure by tracing")
        }
        Some(false) => check("not elevated")
            .problem("Only administrators can open the device.", elevate)
            .code("access-denied"),
        None => check("unknown").unknown("Only administrators can open the device.", elevate),
    }
}

/// What an administrator gave this account, each, and whether it is in force.
fn tracing_rights(system: &System, rights: &TracingRights) -> Check {
    let TracingRights { given, in_force } = rights;
    let each: Vec<String> = Grant::ALL
        .into_iter()
        .zip(given)
        .map(|(grant, given)| format!("{}: {}", grant.name(), yes_or_no(*given)))
        .collect();
    let each = each.join("; ");
    let check = |result: String| Check::new("tracing-rights", result);
    let some = given.contains(&Some(true));
    match (given.iter().all(|given| *given == Some(true)), in_force) {
        (_, true) => check(format!("in force; {each}")),
        (true, false) if system.elevated != Some(true) => check(format!("not in force; {each}"))
            .warning(
                "Windows' own tracing is refused without elevation until then.",
                "Sign out and in again. Windows may keep it from an administrator's prompt that is not elevated all the same.",
            ),
        (false, false) if some && system.elevated != Some(true) => {
            check(format!("not in force; {each}")).warning(
                "Windows' own tracing is refused without elevation.",
                "Have an administrator give this account the rest, then sign out and in again.",
            )
        }
        (all, false) if all || some => check(format!("not in force; {each}")),
        _ => check("not given to this account".to_owned()),
    }
}

const fn yes_or_no(known: Option<bool>) -> &'static str {
    match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

/// Whether Windows loads a driver with a test certificate. Which certificate the driver has, and what
/// else is in its way, Windows says when it is installed.
fn signing(system: &System, runs: bool) -> Check {
    const BOOT: &str = "Turn off Secure Boot in the firmware setup (Hyper-V: with the machine off, run Set-VMFirmware -VMName NAME -EnableSecureBoot Off on the host). If BitLocker protects the disk, have its recovery key ready. Then";
    const TESTING: &str = "`bcdedit /set testsigning on` from an elevated prompt and restart.";
    let testing = system.code_integrity.map(|options| options & TEST_SIGNING != 0);
    let result = format!(
        "test signing {}, Secure Boot {}",
        on_or_off(testing),
        on_or_off(system.secure_boot)
    );
    let check = Check::new("signing", result);
    if runs || testing == Some(true) {
        return check;
    }
    let consequence = "A driver with a test certificate does not load.";
    if testing.is_none() {
        return check.unknown(consequence, "`bcdedit` shows testsigning.");
    }
    let hint = match system.secure_boot {
        Some(false) => format!("Run {TESTING}"),
        Some(true) | None => format!("{BOOT} run {TESTING}"),
    };
    check.warning(consequence, hint)
}

const fn on_or_off(setting: Option<bool>) -> &'static str {
    match setting {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

fn others(system: &System) -> Check {
    let check = |result: String| Check::new("other-tools", result);
    let Some(running) = system.tools() else {
        return check("unknown".to_owned()).unknown(
            "Another profiler may own or change the counters.",
            "Look for other profilers in Task Manager.",
        );
    };
    if running.is_empty() {
        return check("none known".to_owned());
    }
    let tools: Vec<String> = running.iter().map(RunningTool::text).collect();
    let hints: Vec<String> =
        running.iter().map(|one| format!("{}: {}", one.tool, one.hint)).collect();
    check(tools.join(", ")).warning(
        "It may own the counters, and then measuring is refused, or change them, and then counts are wrong.",
        format!("{}.", hints.join("; ")),
    )
}

/// What may keep an elevated program from seeing its own modules.
const PROTECTED: &str = "Look for software that protects processes from being inspected.";

fn modules(system: &System) -> Check {
    let check = |result: String| Check::new("modules", result);
    let text = |own, kernel| format!("{own} visible in this process, {kernel} in the kernel");
    let elevated = system.elevated == Some(true);
    let hint = |otherwise: &str| {
        if elevated { otherwise.to_owned() } else { "Run it from an elevated prompt.".to_owned() }
    };
    match system.modules {
        Some((own @ 1.., kernel @ 1..)) => check(text(own, kernel)),
        Some((own @ 1.., kernel)) => check(text(own, kernel)).warning(
            "Kernel samples have addresses but no names: Windows reveals kernel module addresses only with the debug privilege.",
            hint("Give administrators the user right \"Debug programs\" again: a policy has taken it away."),
        ),
        Some((own, kernel)) => check(text(own, kernel)).warning(
            "Samples have addresses but no names: the modules of programs are not visible.",
            hint(PROTECTED),
        ),
        None => check("unknown".to_owned()).unknown(
            "If modules are not visible, samples have addresses but no names.",
            hint(PROTECTED),
        ),
    }
}
