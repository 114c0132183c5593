//! Every error code, once: the exit status, what it means, what causes it and what to do.

/// The exit status of a command whose recording is incomplete: what is in it was used.
pub(crate) const INCOMPLETE: u32 = 5;

/// What each exit status means.
pub(crate) const STATUSES: [(u8, &str); 7] = [
    (0, "done; with `-- PROGRAM`, the program's own status"),
    (1, "a bug in halprof, please report it"),
    (2, "bad usage"),
    (3, "no driver or machine to measure on"),
    (4, "refused: not supported, does not fit, busy"),
    (5, "a file could not be read or written, or is not what it should be"),
    (6, "the driver has a different version"),
];

/// What an error code means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// `error.code`.
    pub(crate) name: &'static str,
    /// The exit status.
    pub(crate) status: u8,
    /// What to do, as shown with the error; empty if the errors say it themselves.
    pub(crate) hint: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// What can cause it.
    pub(crate) causes: &'static [&'static str],
    /// What else can be done.
    pub(crate) remedy: &'static str,
}

const fn code(
    code: &'static str,
    status: u8,
    hint: &'static str,
    meaning: &'static str,
    causes: &'static [&'static str],
    remedy: &'static str,
) -> Code {
    Code { name: code, status, hint, meaning, causes, remedy }
}

/// A code that no command of the tool ends with, unless the two sides do not match: only the status
/// and what to do are of use to its user.
const fn wire(name: &'static str, status: u8, hint: &'static str) -> Code {
    code(name, status, hint, "", &[], "")
}

/// What to do about a client's mistake.
const REPORT: &str =
    "This is a defect in the client program. Please report it with the command line.";

/// What to do if the two sides do not match.
const SAME_RELEASE: &str = "Install halprof.exe and halprof.sys of the same release.";
const MIXED: &str = "halprof.exe and halprof.sys of different releases";

impl Code {
    /// Whether it concerns only authors of other clients.
    pub(crate) const fn is_for_clients(&self) -> bool {
        self.meaning.is_empty()
    }

    /// The codes that a user of the tool can meet.
    pub(crate) fn explained() -> impl Iterator<Item = &'static Self> {
        CODES.iter().filter(|code| !code.is_for_clients())
    }
}

/// Sorted by exit status.
#[rustfmt::skip]
pub(crate) const CODES: &[Code] = &[
    code("internal", 1, "This is a defect in halprof. Please report it with the command line and, if you used one, the CPUID dump.", "Internal error: the model faulted, or a result could not be formatted.",
        &["a defect in halprof"],
        ""),

    code("usage", 2, "", "The command line is not valid.",
        &["an unknown option, or an option without its value", "a malformed list: a `{` without its `}`, an empty name, an unknown filter", "a number out of range"],
        "The message names the part that was not understood; `halprof help COMMAND` shows every option."),

    code("no-driver", 3, "", "The driver could not be opened, so there is nothing to measure on.",
        &["it is not installed", "it is installed but not running: disabled, not signed, or blocked by a policy", "the prompt is not elevated: only administrators can open the device", "this is not Windows"],
        "`halprof doctor` finds out which. To try halprof without the driver, measure on a model: `--machine NAME`."),
    code("no-machine", 3, "`halprof machines` lists the built-in models; or give the path of a CPUID dump.", "The name after `--machine` is neither a built-in model nor a file.",
        &["a misspelt name", "a file in another folder"],
        "A path that contains a slash is always taken as a file."),
    code("no-tracing", 3, "", "Windows' own tracing was refused, so there is nothing to measure on.",
        &["the prompt is not elevated: the kernel's events belong to administrators", "a policy has taken the right to profile the system from the account", "this is not Windows"],
        "`halprof doctor` finds out which; the driver is the other way to measure."),
    code("device-failed", 3, "`halprof doctor` shows the state of the driver.", "The device was open, and a request failed.",
        &["the driver was stopped, removed or updated in the meantime", "a request timed out and was cancelled"],
        "Try again. If it keeps failing, run `halprof stop` and `halprof start`."),

    code("source-unknown", 4, "`halprof list --all` shows every source.", "This machine has no source with this name or number.",
        &["a misspelt name", "a source of another vendor or interface: Intel and AMD use different names", "a hypervisor that hides the counters: then ProfileTime is the only source"],
        "`halprof info` shows which interface is in use, and why."),
    code("source-not-supported", 4, "`halprof list --all -v` says why; `halprof list` shows what can be counted.", "The source is known, but this processor cannot count it.",
        &["CPUID reports the event as unavailable (leaf 0x0A EBX, leaf 0x23)", "the processor lacks the fixed counter", "the event belongs to the northbridge, whose counters are shared by all cores of a node", "no counters are in use: the interface is Default"],
        "`halprof explain SOURCE` gives the reason on this processor."),
    code("source-approximate", 4, "Add `--approximate` to count it anyway; `halprof list -v --approximate` shows what it counts.", "The event on this processor is not what the source's name says.",
        &["an AMD Zen, where the HAL's K8 select counts another event", "an old processor (Pentium, P6, NetBurst), whose events do not match the HAL's names"],
        "`halprof explain SOURCE` shows what is counted instead."),
    code("source-duplicate", 4, "List it once, or with different filters (`:u`, `:k`).", "The source is listed twice with the same filter.",
        &["the same name twice", "two names for one source, such as `TotalIssues` and `0x2`"],
        ""),
    code("does-not-fit", 4, "Split the group: sources that are not in a group take turns on the counters.", "Sources that must run together cannot: there are not enough counters, or the free ones cannot count these events.",
        &["a group, `{A,B}` or `-g A,B`, with more sources than counters", "events that only certain counters can count (P6 floating point, Pentium pairs, NetBurst, AMD family 15h)", "a fixed counter that another source of the group needs"],
        "`halprof check -e LIST` shows which source does not fit."),
    code("raw-refused", 4, "You can set event, unit mask, edge, invert and counter mask; use `:u` or `:k` for user and kernel mode.", "A raw event select sets bits that are not allowed.",
        &["enable, interrupt, any-thread or pin-control bits", "bits that the processor reserves", "a northbridge event on AMD, or an undocumented event on NetBurst"],
        "The message shows the bits."),
    code("processor-unknown", 4, "`halprof info` lists the processors, starting from 0.", "The machine has no processor with this number.",
        &["a number after `-C`, or in `processors=` of a workload, that is too high; numbers run from 0 over all groups"],
        ""),
    code("sampling-unavailable", 4, "Count it instead with `halprof stat`.", "The source can be counted here, but not sampled.",
        &["a Pentium, whose counters raise no interrupt", "no local APIC to deliver the interrupt (CPUID leaf 1 EDX bit 9)", "the interface Default: a timer callback has no address"],
        "`halprof info` shows how overflows arrive."),
    code("no-reference-cycles", 4, "Sample another source; `halprof list -v` shows which can be sampled.", "Time is sampled by counting cycles, and no counter of this processor can count cycles for samples.",
        &["ProfileTime in `record` on a processor without a usable cycle counter"],
        ""),
    code("busy", 4, "Wait until it ends, or end it; `halprof info` shows which process it is.", "Another halprof session holds the counters.",
        &["another halprof session is measuring: only one can use the counters at a time", "the driver is to be stopped while a program has its device open"],
        "A measurement that was killed holds nothing: its session ends with its handle."),
    code("counters-reserved", 4, "Stop other profilers and virtual machines that use the counters; `halprof doctor` lists candidates.", "Another driver has reserved the counters. Windows does not say which.",
        &["VTune, uProf, PCM or another profiler is measuring, or has left its driver loaded", "Windows itself is sampling the counters (WPR, xperf)", "a hypervisor or another driver has reserved them permanently"],
        ""),
    code("interrupt-taken", 4, "End the profiler that uses it, such as VTune, uProf or WindowsPerf (`halprof doctor` names those that run here); or count with `halprof stat`, which needs no interrupt.", "The overflow interrupt is in use by another driver; Windows has one handler for it and does not say whose.",
        &["VTune, uProf, WindowsPerf or another profiler is sampling, or has left its driver loaded", "Cheat Engine or another tool with a driver that traces code by this interrupt", "this version of Windows does not let a driver use it"],
        "Counting does not need the interrupt."),
    code("handler-stuck", 4, "Try again, which asks Windows again; or count with `halprof stat`, which needs no handler. Restarting Windows ends it.", "halprof's own overflow handler is left of an earlier session, because Windows did not remove it; no other driver has it.",
        &["Windows refused to remove the handler when sampling ended"],
        "The counters stay reserved, and the driver stays loaded."),
    code("counters-dead", 4, "In a virtual machine, enable a virtual PMU (Hyper-V: Set-VMProcessor -Perfmon; VMware: virtualize CPU performance counters).", "The counters were allocated but do not count, as the self-test at the start of a session found.",
        &["a virtual machine that advertises a PMU in CPUID and does not emulate it", "a hypervisor that was started after the counters were reserved"],
        ""),
    code("interrupts-dead", 4, "Count instead with `halprof stat`; `halprof doctor` looks for the cause.", "The counters count, but no overflow interrupt arrived in the self-test at the start of a session.",
        &["a hypervisor that lets counters count and does not deliver their interrupt", "LVTPC is masked, or has another vector than Windows'"],
        ""),
    code("interrupt-storm", 4, "End any other profiler, which may have left an overflow pending; then start again.", "Interrupts kept arriving although no counter of the session had overflowed, so the session was ended.",
        &["a status bit that another profiler left set", "an interrupt line that stays active"],
        "That processor's interrupt stays masked until a later start finds the status clear; `halprof info` shows it."),
    code("kernel-addresses-not-granted", 4, "Add `:u` to sample user mode only, or run from an account with that privilege.", "Samples of kernel mode reveal kernel addresses, and the caller lacks SeDebugPrivilege.",
        &["a policy that removed the privilege from the account", "a service that runs with fewer privileges"],
        "Sampling user mode (`:u`) and counting kernel mode do not need it."),
    code("fixed-counter-taken", 4, "End the profiler that uses it, or count another event; `halprof info` shows the counter.", "The source needs a fixed counter that somebody else has enabled.",
        &["another profiler", "firmware that uses the counter"],
        "halprof leaves a fixed counter that it finds enabled to its owner."),
    code("hypervisor", 4, "Turn off Hyper-V and virtualization-based security, or count by thread profiling, which does not need RDPMC.", "RDPMC in user mode needs a bit of CR4 set, and halprof does not write CR4 under a hypervisor.",
        &["a virtual machine", "Hyper-V or virtualization-based security on this machine: Windows itself then runs under a hypervisor"],
        "A hypervisor may refuse the write, and a refused write of CR4 is a bug check."),
    code("rdpmc-refused", 4, "Use thread profiling, which does not need RDPMC.", "CR4.PCE was set on a processor and did not stay set.",
        &["another driver that guards CR4", "a hypervisor that hides itself"],
        "Every processor has been left as it was found."),
    code("threads-owned", 4, "End the other profiler, and programs that profile their own threads.", "Windows' thread profiling is in use; only one driver can configure it, and only while no thread profiles itself.",
        &["another driver has configured it (KeSetHardwareCounterConfiguration)", "a thread has called EnableThreadProfiling and not yet DisableThreadProfiling"],
        "Windows does not say which program it is."),
    code("threads-unavailable", 4, "Count whole processors instead.", "Windows refused the counters for thread profiling.",
        &["this version of Windows does not support hardware counters in thread profiling"],
        "The message has the NTSTATUS."),
    code("threads-kept", 4, "End the program that still profiles its threads; `halprof info` shows whether Windows has given the counters back.", "A session that counted by thread has ended, and a thread still profiles itself, so Windows has not given the counters back.",
        &["a program, of any user, that called EnableThreadProfiling while the session ran and has not called DisableThreadProfiling"],
        "The counters are stopped and stay reserved; the next start, and `halprof info`, ask Windows again."),
    code("not-by-thread", 4, "Choose another event, or count whole processors with `halprof stat`.", "The source cannot be counted by thread.",
        &["ProfileTime, which takes no counter", "an event that only a fixed counter counts: Windows documents no index for those", "a hybrid processor whose cores count the event on different counters", "a processor of another kind was added after the session was configured, which refuses or ends it"],
        "Counting by thread needs the same general counter on every processor."),
    code("branches-unavailable", 4, "Sample without branches; `halprof info` shows which processors record them.", "A processor cannot record branches, for the reason in the message.",
        &["a processor other than Intel from Skylake on or AMD from Zen 4 on", "a virtual machine, or Windows under Hyper-V or virtualization-based security: the hypervisor keeps the branch records to itself"],
        "In a Hyper-V guest, `Set-VMProcessor -Perfmon @(\"pmu\",\"lbr\")` offers them."),
    code("branch-depth", 4, "Ask for fewer branches.", "A processor does not record as many branches as were asked for.",
        &["AMD, which records 16", "a hybrid processor whose cores differ"],
        "`halprof info` shows how many each processor records."),
    code("branches-need-samples", 4, "Sample, or ask for no branches.", "Branches are recorded only with samples.",
        &["a client that counts and does not sample"],
        ""),
    code("branches-taken", 4, "End the other recording, or sample without branches.", "Another program records branches on this machine; Windows does not arbitrate who may.",
        &["ETW records them (xperf `-LastBranch`, TraceConfigureLastBranchRecord)", "a debugger that steps from branch to branch", "another profiler, or one that was killed"],
        "Restarting Windows ends a recording that nobody owns any more."),
    code("branches-changed", 4, "End the other recording; then start again.", "Another program began or ended a recording of branches while the session ran, so the session was ended.",
        &["ETW, a debugger or another profiler that was started meanwhile"],
        "Samples up to then are kept. The other program's recording has been left as it is."),
    code("branches-kernel-not-granted", 4, "Record branches of user mode only, or run from an account with SeDebugPrivilege.", "Branches of kernel mode have kernel addresses, and the caller may not see those.",
        &["a policy that removed the privilege from the account", "a session that was opened for user mode"],
        ""),
    wire("no-events", 4, "Configure the session with the flag for system events."),
    code("suspended", 4, "Try again when the machine is awake.", "The machine is going to sleep, or has not woken up yet.",
        &["a request during a power transition"],
        ""),
    wire("no-sources", 4, "Name at least one, for example `-e TotalIssues`."),
    code("too-many-sources", 4, "Count fewer at a time.", "One session has a limited number of sources.",
        &["a very long list"],
        "Measure in several runs."),
    wire("bad-filter", 4, "Use `:u`, `:k` or `:uk`."),
    code("bad-value", 4, "`halprof list -v` shows the limits of each source.", "A field of the request has an invalid value.",
        &["an interval, time slice or period that no source accepts"],
        ""),
    wire("kernel-not-granted", 4, "Add `:u` to count user mode only."),
    code("no-memory", 4, "Sample less often, or on fewer processors with `-C`.", "Not enough memory for the sample buffers.",
        &["many processors: each has its own buffer", "the buffers of other sessions, which share one limit (`ring_bytes_max` of `info --json`)"],
        ""),
    code("too-many-sessions", 4, "End another measurement first.", "All of the driver's sessions are in use.", &["many clients at once"], ""),
    wire("unknown-session", 4, REPORT),
    wire("running", 4, REPORT),
    wire("not-running", 4, REPORT),
    wire("not-configured", 4, REPORT),
    wire("not-sampling", 4, REPORT),
    wire("source-not-in-session", 4, "Name it with `-e`."),
    code("unavailable", 4, "", "This is not available here, whatever rights the user has.",
        &["a program after `--` on a modelled machine, which runs workloads only", "a workload on silicon", "`install`, `start`, `stop` or `uninstall` on a system other than Windows"],
        "The hint beside the error says what to do instead."),
    code("access-denied", 4, "Run it from an elevated prompt (Run as administrator).", "Measuring requires administrator rights.",
        &["a prompt that is not elevated"],
        ""),
    code("not-signed", 4, "", "Windows does not accept the signature of the driver or of its package.",
        &["test signing is off, or Secure Boot keeps it off", "the package's certificate is not in the Root and TrustedPublisher stores", "a file of the package was changed, or belongs to another package"],
        "`halprof doctor` shows test signing, Secure Boot and who signed the driver."),
    code("driver-blocked", 4, "", "A policy, or Windows' list of vulnerable drivers, blocks the driver.",
        &["Windows Defender Application Control, or Smart App Control", "device installation restrictions in a group policy", "Memory integrity"],
        "Event Viewer, Applications and Services Logs, Microsoft, Windows, CodeIntegrity, Operational shows which rule it was."),
    code("driver-failed", 4, "", "The driver is installed but does not run.",
        &["it could not be loaded, or refused the device", "its installation is damaged"],
        "The message has Windows' own code and, if there is one, the NTSTATUS behind it. `halprof uninstall` and `halprof install` start over."),
    code("driver-disabled", 4, "", "The device or its service is disabled.",
        &["`halprof stop`, or somebody in Device Manager"],
        "Run `halprof start`."),
    code("restart-needed", 4, "", "Windows must be restarted first.",
        &["an earlier copy of the driver is still in memory", "the device is being removed"],
        "Restart, then try again."),
    code("install-failed", 4, "", "A step of installing, starting, stopping or removing the driver failed.",
        &["the cause that Windows' own error number stands for"],
        "%SystemRoot%\\INF\\setupapi.dev.log has the details."),

    code("file", 5, "Check that the path exists and that you have access to it.", "A file could not be read or written, or a program could not be started.",
        &["it does not exist, or access is denied", "the disk is full", "the program after `--` is not on the path"],
        ""),
    code("bad-file", 5, "", "A file is not in the expected format.",
        &["a recording that is damaged, of another version or something else altogether", "a CPUID dump that cannot be parsed", "an install file of another driver"],
        "The message says where the problem is."),
    code("output", 5, "Check where standard output goes.", "Standard output could not be written.",
        &["it goes to a file on a full disk"],
        ""),

    code("version-mismatch", 6, SAME_RELEASE, "halprof.exe and halprof.sys are of different releases.",
        &["one of them was updated alone"],
        "`halprof install` from the package that has both."),
    wire("wrong-size", 6, SAME_RELEASE),
    wire("reply-too-small", 6, SAME_RELEASE),
    wire("unknown-flags", 6, SAME_RELEASE),
    wire("reserved-not-zero", 6, SAME_RELEASE),
    wire("protocol", 6, SAME_RELEASE),
    code("request-failed", 6, SAME_RELEASE, "Windows or the driver failed a request without an answer.",
        &[MIXED, "another driver behind the device's name"],
        ""),
];

impl Code {
    /// The row of a code that the tool itself uses; each of them has one.
    #[must_use]
    pub(crate) fn of(code: &str) -> &'static Self {
        Self::find(code).unwrap_or(&CODES[0])
    }

    /// The row of a code.
    #[must_use]
    pub(crate) fn find(code: &str) -> Option<&'static Self> {
        CODES.iter().find(|row| row.name == code)
    }

    /// What to do: the hint shown with the error, and more.
    #[must_use]
    pub(crate) fn what_to_do(&self) -> String {
        match (self.hint, self.remedy) {
            ("", remedy) => remedy.to_owned(),
            (hint, "") => hint.to_owned(),
            (hint, remedy) => format!("{hint} {remedy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::error::Error;
    use halprof_measure::{Error as Measure, Refusal};
    use shared_types::ErrorCode;
    use std::collections::BTreeSet;

    /// The texts in quotation marks in a function of a source file.
    fn quoted(source: &'static str, function: &str) -> BTreeSet<&'static str> {
        let (_, body) = source.split_once(function).expect("the function");
        let (body, _) = body.split_once("\n    }\n").expect("its end");
        let arms = body.lines().filter_map(|line| line.split_once("=> "));
        arms.filter_map(|(_, value)| value.trim().strip_prefix('"')?.split('"').next()).collect()
    }

    #[test]
    fn every_code_of_the_driver_the_tool_and_the_installation_is_explained() {
        let mut own = quoted(include_str!("../../../measure/src/error.rs"), "pub fn code(&self)");
        own.extend(quoted(include_str!("error.rs"), "pub fn code(&self)"));
        assert!(own.len() >= 10, "{own:?}");
        let wire = ErrorCode::ALL.iter().map(|code| code.code());
        let wanted: BTreeSet<&str> =
            own.into_iter().chain(wire).chain(halprof_setup::installation::codes()).collect();
        let explained: BTreeSet<&str> = CODES.iter().map(|row| row.name).collect();
        assert_eq!(explained, wanted);
        assert_eq!(explained.len(), CODES.len(), "a code stands twice");
    }

    #[test]
    fn statuses_are_those_that_the_tool_ends_with() {
        for code in ErrorCode::ALL {
            let refusal = Refusal { code: *code, subject: 0, detail: 0, source: None };
            let row = Code::find(code.code()).expect("it");
            assert_eq!(u32::from(row.status), Error::from(refusal).exit_status(), "{}", row.name);
        }
        let statuses: Vec<u8> = CODES.iter().map(|row| row.status).collect();
        assert!(statuses.is_sorted() && statuses.last() == Some(&6));
        for (error, code) in [
            (Measure::NoMachine(String::new()), "no-machine"),
            (Measure::Internal(String::new()), "internal"),
            (Measure::usage("", ""), "usage"),
            (Measure::Status(shared_types::NtStatus::ACCESS_DENIED), "access-denied"),
            (Measure::Status(shared_types::NtStatus(1)), "request-failed"),
        ] {
            let error = Error::from(error);
            let row = Code::find(code).expect("it");
            assert_eq!((row.name, u32::from(row.status)), (error.code(), error.exit_status()));
        }
    }

    #[test]
    fn each_has_causes_and_something_to_do() {
        for row in Code::explained() {
            assert!(row.meaning.ends_with('.') && row.meaning.len() > 20, "{}", row.name);
            assert!(!row.causes.is_empty(), "{}", row.name);
            let what = row.what_to_do();
            assert!(what.ends_with('.') || what.ends_with(")."), "{}: {what}", row.name);
        }
    }

    #[test]
    fn the_document_of_exit_statuses_has_them_where_they_are() {
        let text = include_str!("../../../../docs/cli.md");
        for row in text.lines().filter(|line| line.starts_with("| ")) {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let Some(status) = cells.next().and_then(|cell| cell.parse::<u8>().ok()) else {
                continue;
            };
            assert!(STATUSES.contains(&(status, cells.next().unwrap_or_default())), "{row}");
            let examples = cells.next().unwrap_or_default();
            for code in examples.split('`').skip(1).step_by(2).filter(|text| text.contains('-')) {
                assert_eq!(Code::find(code).map(|row| row.status), Some(status), "{code}");
            }
        }
    }
}
