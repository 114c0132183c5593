//! What Windows says.

use super::{Check, Signature, tools};

/// What Windows says; `None` where it does not tell.
#[derive(Clone, Debug, Default)]
pub struct System {
    /// Build and revision, e.g. 19045 and 4291.
    pub build: Option<(u32, u32)>,
    /// Whether this process has the rights of an administrator.
    pub elevated: Option<bool>,
    /// CodeIntegrityOptions of SYSTEM_CODEINTEGRITY_INFORMATION.
    pub code_integrity: Option<u32>,
    /// Whether Secure Boot is on.
    pub secure_boot: Option<bool>,
    /// Who signed the driver: the installed one, or else that beside the tool.
    pub signature: Option<Signature>,
    /// Services that run, drivers among them.
    pub services: Option<Vec<String>>,
    /// Programs that run, by their files' names.
    pub processes: Option<Vec<String>>,
    /// How many modules are seen in this process, and of the kernel's.
    pub modules: Option<(usize, usize)>,
    /// How the processors are powered.
    pub power: Power,
    /// CPUID 0x80000007 EDX bit 8: the time-stamp counter runs at one rate in every state.
    pub invariant_tsc: Option<bool>,
}

/// How the processors are powered; `None` where Windows does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Power {
    /// Whether they run on a battery.
    pub battery: Option<bool>,
    /// The highest speed and the one they are held at, in MHz, of the processor held lowest.
    pub held: Option<(u32, u32)>,
}

/// CODEINTEGRITY_OPTION_TESTSIGN, _DEBUGMODE_ENABLED and _HVCI_KMCI_ENABLED (winternl.h).
const TEST_SIGNING: u32 = 0x02;
const DEBUG_MODE: u32 = 0x80;
const MEMORY_INTEGRITY: u32 = 0x400;

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
            "CurrentBuild and UBR of Windows NT\\CurrentVersion",
            result,
        )
    };
    match system.build {
        Some((build, revision)) if build >= OLDEST_BUILD => {
            check(format!("build {build}.{revision}"))
        }
        Some((build, revision)) => check(format!("build {build}.{revision}")).problem(
            "The driver does not load: it needs KMDF 1.31.",
            "Update to Windows 10 version 2004 (build 19041) or later.",
        ),
        None => check("its build is not told".to_owned()).unknown(
            "The driver needs build 19041 or later.",
            "`winver` shows the build.",
        ),
    }
}

fn permission(system: &System, runs: bool) -> Check {
    let check = |result: &str| {
        Check::new(
            "permission",
            "the elevation of this process's token",
            result,
        )
    };
    let elevate = "Run it from an elevated prompt (Run as administrator).";
    match system.elevated {
        Some(true) => check("elevated"),
        _ if runs => check("not elevated, and the device opens all the same"),
        Some(false) => check("not elevated")
            .problem("The device opens for administrators only.", elevate)
            .code("access-denied"),
        None => check("not told").unknown("The device opens for administrators only.", elevate),
    }
}

/// Whether Windows loads what this driver is signed with.
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
        Some(Signature::None) => "the driver's file has no signature of its own",
        None => "no driver's file was found to look at",
    };
    let Some(options) = system.code_integrity else {
        return check(format!("whether test signing is on is not told; {signed}")).unknown(
            "A driver with a test certificate loads with test signing only.",
            "`bcdedit` shows testsigning.",
        );
    };
    let testing = options & TEST_SIGNING != 0;
    let debugged = options & DEBUG_MODE != 0;
    let state = match (testing, debugged) {
        (true, _) => "test signing is on",
        (false, true) => "test signing is off, a kernel debugger is allowed",
        (false, false) => "test signing is off",
    };
    let check = check(format!("{state}; {signed}"));
    if testing || runs || system.signature == Some(Signature::Microsoft) {
        return check;
    }
    let remedy = "Turn Secure Boot off in the firmware's setup, run `bcdedit /set testsigning on` from an elevated prompt and restart.";
    if system.signature == Some(Signature::Other) && !debugged {
        return check
            .problem("Windows does not load the driver.", remedy)
            .code("not-signed");
    }
    check.unknown(
        "Windows loads only a driver that Microsoft has signed.",
        remedy,
    )
}

fn secure_boot(system: &System, runs: bool) -> Check {
    let check = |result: &str| {
        Check::new(
            "secure-boot",
            "UEFISecureBootEnabled of Control\\SecureBoot\\State",
            result,
        )
    };
    let remedy = "Turn it off in the firmware's setup (Hyper-V: Set-VMFirmware -VMName NAME -EnableSecureBoot Off, on the host, with the machine off). Where BitLocker protects the disk, have its recovery key at hand.";
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
                "Test signing cannot be turned on, and without it the driver does not load.",
                remedy,
            )
            .code("not-signed"),
        Some(true) => {
            check("on").warning("A driver with a test certificate does not load.", remedy)
        }
        None => check("not told").unknown(
            "With it on, test signing cannot be turned on.",
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
            "The driver is built for it, but has not been seen to load under it yet; and the hypervisor that it needs may hide the counters.",
            "Should the driver not load, turn it off in Windows Security, Device security, Core isolation, and restart.",
        ),
        None => check("not told").unknown(
            "The driver is built for it, but has not been seen to load under it yet.",
            "Windows Security, Device security, Core isolation shows it.",
        ),
    }
}

fn others(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "other-tools",
            "services and programs that run, by the names of known profilers",
            result,
        )
    };
    let (Some(services), Some(processes)) = (&system.services, &system.processes) else {
        return check("what runs is not told".to_owned()).unknown(
            "Another profiler may own the counters or change them.",
            "Look for other profilers in Task Manager.",
        );
    };
    let running = tools::running(services, processes);
    if running.is_empty() {
        return check("none that is known".to_owned());
    }
    let found: Vec<String> = running.iter().map(tools::Running::text).collect();
    let remedies: Vec<String> = running
        .iter()
        .map(|one| format!("{}: {}", one.tool, one.remedy))
        .collect();
    check(found.join(", ")).warning(
        "It may own the counters, so that measuring is refused, or change them, so that counts are wrong.",
        format!("{}.", remedies.join("; ")),
    )
}

fn modules(system: &System) -> Check {
    let check = |result: String| {
        Check::new(
            "modules",
            "a tool help snapshot of this process, and K32EnumDeviceDrivers",
            result,
        )
    };
    let text = |own, kernel| format!("{own} seen in this process, {kernel} of the kernel's");
    match system.modules {
        Some((own @ 1.., kernel @ 1..)) => check(text(own, kernel)),
        Some((own @ 1.., kernel)) => check(text(own, kernel)).warning(
            "Samples from the kernel have addresses, but no names: Windows tells where its modules are only to who may debug programs.",
            "Run it from an elevated prompt.",
        ),
        Some((own, kernel)) => check(text(own, kernel)).warning(
            "Samples have addresses, but no names: what is loaded in programs is not seen.",
            "Run it from an elevated prompt; where that does not help, look for software that guards processes.",
        ),
        None => check("not told".to_owned()).unknown(
            "Where it is not seen what is loaded, samples have addresses, but no names.",
            "Run it from an elevated prompt.",
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
        (Some((most, limit)), _) if limit < most => check(format!("held at {limit} of {most} MHz"))
            .warning(
                "Times differ from those at full speed, and so do cycles of code that waits for memory; instructions do not.",
                "Plug it in, choose the power plan High performance, and let it cool.",
            ),
        (_, Some(true)) => check("on battery".to_owned()).warning(
            "The processors' speed changes: times differ from one run to the next; instructions do not.",
            "Plug it in.",
        ),
        (Some((most, _)), _) => check(format!("up to {most} MHz, not held below")),
        (None, Some(false)) => check("not on battery".to_owned()),
        (None, None) => check("not told".to_owned()).unknown(
            "A processor that is slowed down gives other times.",
            "`powercfg /getactivescheme` shows the power plan.",
        ),
    }
}
