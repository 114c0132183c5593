//! Checks of what Windows reports.

use super::{Check, Signature, tools};

/// What Windows reports; `None` where it does not say.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Build and revision, e.g. 19045 and 4291.
    pub build: Option<(u32, u32)>,
    /// Whether Windows itself runs on an Arm processor, where x64 programs are emulated.
    pub arm: Option<bool>,
    /// Whether this process has the rights of an administrator.
    pub elevated: Option<bool>,
    /// CodeIntegrityOptions of SYSTEM_CODEINTEGRITY_INFORMATION.
    pub code_integrity: Option<u32>,
    /// Whether Secure Boot is on.
    pub secure_boot: Option<bool>,
    /// Who signed the driver: the installed one or, without one, the one beside the tool.
    pub signature: Option<Signature>,
    /// Running services, drivers among them.
    pub services: Option<Vec<String>>,
    /// Running programs, by file name.
    pub processes: Option<Vec<String>>,
    /// How many modules are visible in this process, and in the kernel.
    pub modules: Option<(usize, usize)>,
    /// The power state of the processors.
    pub power: Power,
    /// CPUID 0x80000007 EDX bit 8: the time-stamp counter runs at one rate in every state.
    pub invariant_tsc: Option<bool>,
}

/// The power state of the processors; `None` where Windows does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Power {
    /// Whether they run on battery.
    pub battery: Option<bool>,
    /// The maximum speed and the limit, in MHz, of the processor with the lowest limit.
    pub held: Option<(u32, u32)>,
}

/// CODEINTEGRITY_OPTION_TESTSIGN, _DEBUGMODE_ENABLED and _HVCI_KMCI_ENABLED (winternl.h).
const TEST_SIGNING: u32 = 0x02;
const DEBUG_MODE: u32 = 0x80;
const MEMORY_INTEGRITY: u32 = 0x400;

/// What is in the way where the processor is an Arm one.
const NOT_FOR_ARM: &str = "The driver is for x64 processors, and an emulated one has no counters.";

/// Windows 10 version 2004: the oldest with KMDF 1.31.
const OLDEST_BUILD: u32 = 19041;

pub(super) fn checks(system: &System, runs: bool) -> Vec<Check> {
    vec![
        windows(system),
        permission(system, runs),
        signing(system, runs),
        secure_boot(system, runs),
        memory_integrity(system, runs),
        others(system),
        modules(system),
        power(system),
    ]
}

fn windows(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "windows",
            "CurrentBuild and UBR of Windows NT\\CurrentVersion, and IsWow64Process2",
            result,
        )
    };
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
        (_, None) => check(build).unknown(
            "The driver needs build 19041 or later.",
            "`winver` shows the build.",
        ),
        (None, _) => check(format!("{build}, on an unknown processor")).unknown(
            NOT_FOR_ARM,
            "Settings, System, About shows whether the processor is Arm-based.",
        ),
        (Some(false), Some(false)) => check(build),
    }
}

fn permission(system: &System, runs: bool) -> Check {
    let check = |result: &str| Check::new("permission", "the elevation of this process", result);
    let elevate = "Run it from an elevated prompt (Run as administrator).";
    match system.elevated {
        Some(true) => check("elevated"),
        _ if runs => check("not elevated, but the device opens"),
        Some(false) => check("not elevated")
            .problem("Only administrators can open the device.", elevate)
            .code("access-denied"),
        None => check("unknown").unknown("Only administrators can open the device.", elevate),
    }
}

/// Whether Windows loads a driver with this signature.
fn signing(system: &System, runs: bool) -> Check {
    let check = |result: String| {
        Check::new(
            "signing",
            "SystemCodeIntegrityInformation, and the certificates in halprof.sys",
            result,
        )
    };
    let signed = match system.signature {
        Some(Signature::Microsoft) => "the driver is signed by Microsoft",
        Some(Signature::Other) => "the driver has a test certificate",
        Some(Signature::None) => "the driver file has no signature",
        None => "no driver file was found",
    };
    let Some(options) = system.code_integrity else {
        return check(format!("test signing unknown; {signed}")).unknown(
            "A driver with a test certificate loads only with test signing on.",
            "`bcdedit` shows testsigning.",
        );
    };
    let testing = options & TEST_SIGNING != 0;
    let debugged = options & DEBUG_MODE != 0;
    let state = match (testing, debugged) {
        (true, _) => "test signing is on",
        (false, true) => "test signing is off, kernel debugging is on",
        (false, false) => "test signing is off",
    };
    let check = check(format!("{state}; {signed}"));
    if testing || runs || system.signature == Some(Signature::Microsoft) {
        return check;
    }
    let remedy = "Turn off Secure Boot in the firmware setup, run `bcdedit /set testsigning on` from an elevated prompt and restart.";
    if system.signature == Some(Signature::Other) && !debugged {
        return check
            .problem("Windows does not load the driver.", remedy)
            .code("not-signed");
    }
    check.unknown("Windows loads only drivers signed by Microsoft.", remedy)
}

fn secure_boot(system: &System, runs: bool) -> Check {
    let check = |result: &str| {
        Check::new(
            "secure-boot",
            "UEFISecureBootEnabled of Control\\SecureBoot\\State",
            result,
        )
    };
    let remedy = "Turn it off in the firmware setup (Hyper-V: with the machine off, run Set-VMFirmware -VMName NAME -EnableSecureBoot Off on the host). If BitLocker protects the disk, have its recovery key ready.";
    let testing = system
        .code_integrity
        .is_some_and(|options| options & TEST_SIGNING != 0);
    match system.secure_boot {
        Some(false) => check("off"),
        Some(true) if runs || testing || system.signature == Some(Signature::Microsoft) => {
            check("on")
        }
        Some(true) if system.signature == Some(Signature::Other) => check("on")
            .problem(
                "Test signing cannot be turned on, and the driver does not load without it.",
                remedy,
            )
            .code("not-signed"),
        Some(true) => {
            check("on").warning("A driver with a test certificate does not load.", remedy)
        }
        None => check("unknown").unknown(
            "If it is on, test signing cannot be turned on.",
            "`msinfo32` shows the Secure Boot State.",
        ),
    }
}

fn memory_integrity(system: &System, runs: bool) -> Check {
    let check = |result: &str| {
        Check::new(
            "memory-integrity",
            "SystemCodeIntegrityInformation: HVCI",
            result,
        )
    };
    match system.code_integrity.map(|options| options & MEMORY_INTEGRITY != 0) {
        Some(false) => check("off"),
        Some(true) if runs => check("on, and the driver runs"),
        Some(true) => check("on").warning(
            "The driver is built to be compatible, which has not been tried yet; the hypervisor that Memory integrity needs may hide the counters.",
            "If the driver does not load, turn it off in Windows Security, Device security, Core isolation, and restart.",
        ),
        None => check("unknown").unknown(
            "The driver is built to be compatible, which has not been tried yet.",
            "Windows Security, Device security, Core isolation shows it.",
        ),
    }
}

fn others(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "other-tools",
            "running services and programs, by the names of known profilers",
            result,
        )
    };
    let (Some(services), Some(processes)) = (&system.services, &system.processes) else {
        return check("unknown".to_owned()).unknown(
            "Another profiler may own or change the counters.",
            "Look for other profilers in Task Manager.",
        );
    };
    let running = tools::running(services, processes);
    if running.is_empty() {
        return check("none known".to_owned());
    }
    let found: Vec<String> = running.iter().map(tools::Running::text).collect();
    let remedies: Vec<String> = running
        .iter()
        .map(|one| format!("{}: {}", one.tool, one.remedy))
        .collect();
    check(found.join(", ")).warning(
        "It may own the counters, and then measuring is refused, or change them, and then counts are wrong.",
        format!("{}.", remedies.join("; ")),
    )
}

/// What may keep an elevated program from seeing its own modules.
const PROTECTED: &str = "Look for software that protects processes from being inspected.";

fn modules(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "modules",
            "a tool help snapshot of this process, and K32EnumDeviceDrivers",
            result,
        )
    };
    let text = |own, kernel| format!("{own} visible in this process, {kernel} in the kernel");
    let elevated = system.elevated == Some(true);
    let remedy = |otherwise: &str| {
        if elevated {
            otherwise.to_owned()
        } else {
            "Run it from an elevated prompt.".to_owned()
        }
    };
    match system.modules {
        Some((own @ 1.., kernel @ 1..)) => check(text(own, kernel)),
        Some((own @ 1.., kernel)) => check(text(own, kernel)).warning(
            "Kernel samples have addresses but no names: Windows reveals kernel module addresses only with the debug privilege.",
            remedy("Give administrators the user right \"Debug programs\" again: a policy has taken it away."),
        ),
        Some((own, kernel)) => check(text(own, kernel)).warning(
            "Samples have addresses but no names: the modules of programs are not visible.",
            remedy(PROTECTED),
        ),
        None => check("unknown".to_owned()).unknown(
            "If modules are not visible, samples have addresses but no names.",
            remedy(PROTECTED),
        ),
    }
}

fn power(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "power",
            "GetSystemPowerStatus, and the processors' limits (CallNtPowerInformation)",
            result,
        )
    };
    let Power { battery, held } = system.power;
    match (held, battery) {
        (Some((most, limit)), _) if limit < most => check(format!("limited to {limit} of {most} MHz"))
            .warning(
                "Times, and cycles of code that waits for memory, differ from those at full speed; instructions do not.",
                "Plug it in, choose the High performance power plan, and let it cool down.",
            ),
        (_, Some(true)) => check("on battery".to_owned()).warning(
            "The processors change speed: times vary from run to run; instructions do not.",
            "Plug it in.",
        ),
        (Some((most, _)), _) => check(format!("up to {most} MHz, not limited")),
        (None, Some(false)) => check("not on battery".to_owned()),
        (None, None) => check("unknown".to_owned()).unknown(
            "A throttled processor gives different times.",
            "`powercfg /getactivescheme` shows the power plan.",
        ),
    }
}
