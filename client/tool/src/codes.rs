//! Every error code, once: the exit status, what it means, what causes it and what to do.

/// What an error code means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// `error.code`.
    pub(crate) name: &'static str,
    /// The exit status.
    pub(crate) status: u8,
    /// What to do, as it stands beside the error; empty where each error says it itself.
    pub(crate) hint: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// What leads to it.
    pub(crate) causes: &'static [&'static str],
    /// What else there is to do.
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
    Code {
        name: code,
        status,
        hint,
        meaning,
        causes,
        remedy,
    }
}

/// By exit status.
#[rustfmt::skip]
pub(crate) const CODES: &[Code] = &[
    code("internal", 1, "This is a defect of halprof; please report it with the command line and the dump.", "halprof itself went wrong: a modelled machine met what silicon would have stopped for, or a result could not be put into words.",
        &["a defect of halprof"],
        "Report it with the command line and, where one was used, the CPUID dump."),

    code("usage", 2, "", "The command line makes no sense.",
        &["an option that does not exist, or without its value", "a list that cannot be read: a `{` without its `}`, an empty name, an unknown filter", "a number outside its range"],
        "`halprof help COMMAND` shows every option; the message names the part that was not understood."),

    code("no-driver", 3, "", "The driver could not be opened, so there is nothing to measure on.",
        &["it is not installed", "it is installed and does not run: disabled, not signed as this Windows wants it, blocked by a policy", "the prompt is not elevated: the device opens for administrators only", "this is not Windows"],
        "`halprof doctor` tells which of these it is; elsewhere than on Windows, or to try things out, measure a model: `--machine NAME`."),
    code("no-machine", 3, "`halprof machines` lists the built-in models; or give the path of a CPUID dump.", "What `--machine` names is neither a built-in model nor a file.",
        &["a name that is misspelt", "a file that is elsewhere"],
        "`halprof machines` lists the models; a path with a slash in it is always taken for a file."),
    code("device-failed", 3, "`halprof doctor` tells what state the driver is in.", "The device was there and failed a request.",
        &["the driver was stopped, removed or updated meanwhile", "a request was not answered in time and was taken back"],
        "Run it again; if it stays, `halprof doctor`, and `halprof stop` and `halprof start`."),

    code("source-unknown", 4, "`halprof list --all` shows every source.", "No table of this machine has a source of this name or number.",
        &["a name that is misspelt", "a source of another vendor or interface: the names differ between Intel and AMD", "a machine that has fewer sources than one expects, because a hypervisor hides its counters: then there is ProfileTime alone"],
        "`halprof info` tells which interface is in use, and why."),
    code("source-not-supported", 4, "`halprof list --all -v` says why; `halprof list` shows what can be counted.", "The source is listed, and this processor cannot count it.",
        &["CPUID says that the event is not available (leaf 0x0A EBX, leaf 0x23)", "the processor lacks the fixed-function counter", "the event is the northbridge's: one set of counters serves all cores of a node", "no counter is in use at all: the interface is Default"],
        "`halprof explain SOURCE` gives the reason on this processor."),
    code("source-approximate", 4, "Say `--approximate` to count it all the same; `halprof list -v --approximate` tells what it counts.", "The event of this processor that comes nearest to the name counts something a little different.",
        &["an old processor (Pentium, P6, NetBurst), whose events do not match the HAL's names"],
        "`halprof explain SOURCE` tells what is counted in its place."),
    code("source-duplicate", 4, "Name it once, or with different filters (`:u`, `:k`).", "The source stands twice in one session with the same filter.",
        &["the same name twice", "two names of one number, such as `TotalIssues` and `0x2`"],
        ""),
    code("does-not-fit", 4, "Take the group apart: sources outside a group take turns on the counters.", "Sources that must run together cannot: there are not counters enough, or the ones that are free cannot count these events.",
        &["a group, `{A,B}` or `-g A,B`, that is larger than the set of counters", "events that only certain counters can count (P6 floating point, Pentium pairs, NetBurst, AMD family 15h)", "fixed-function counters that another source of the group has"],
        "`halprof check -e LIST` shows which source finds no counter."),
    code("raw-refused", 4, "Event, unit mask, edge, invert and counter mask may be set; user and kernel bits are the filter.", "A raw select has bits that a user may not set.",
        &["enable, interrupt, any-thread or pin-control bits", "bits that the processor reserves", "on AMD an event of the northbridge, on NetBurst an event that is not documented"],
        "The message names the bits."),
    code("processor-unknown", 4, "`halprof info` lists the processors, from 0.", "The machine has no processor of this number.",
        &["`-C`, or `processors=` of a workload, with too high a number: they count from 0 over all groups"],
        ""),
    code("sampling-unavailable", 4, "Count it instead, with `halprof stat`.", "The source can be counted here and not sampled.",
        &["a Pentium: its counters raise no interrupt", "no local APIC to carry the interrupt (CPUID leaf 1 EDX bit 9)", "the interface Default: a timer's callback has no address"],
        "`halprof explain sampling` tells what sampling needs."),
    code("no-reference-cycles", 4, "Sample another source, e.g. cycles; `halprof list` shows which can be sampled.", "Time is sampled by cycles, and no counter of this processor counts them for samples.",
        &["ProfileTime in `record` where neither fixed-function counter 2 nor an event of cycles can be used"],
        ""),
    code("busy", 4, "Wait until it ends, or end it; `halprof info` shows who it is.", "Somebody of ours has what was asked for.",
        &["another halprof session holds the counters, which one session has at a time", "the driver is to be stopped, and a program has its device open"],
        "A measurement that was killed holds nothing: its handle's end ends the session."),
    code("counters-reserved", 4, "Stop other profilers and virtual machines that use the counters; `halprof doctor` lists candidates.", "Windows does not give the counters: another driver has reserved them. Windows does not say which.",
        &["VTune, uProf, PCM or another profiler measures, or has left its driver loaded", "Windows' own sampling of counters (WPR, xperf) runs", "a hypervisor's host or another driver has reserved them for good"],
        "`halprof doctor` lists what runs here and may be the owner. End one, try again."),
    code("interrupt-taken", 4, "End the profiler that has it, or sample without addresses: `record --no-address`.", "The overflow interrupt could not be had.",
        &["another profiler samples", "this Windows does not let a driver have it"],
        "Counting needs no interrupt and works all the same."),
    code("counters-dead", 4, "In a virtual machine, give it a virtual PMU (Hyper-V: Set-VMProcessor -Perfmon; VMware: virtualize CPU performance counters).", "The counters were given and do not count: the self-test at the start of a session found it.",
        &["a virtual machine that shows a PMU in CPUID and does not emulate it", "a hypervisor that was started after the counters were reserved"],
        ""),
    code("interrupts-dead", 4, "Count instead, with `halprof stat`, or try `record --no-address`; `halprof doctor` looks for the cause.", "The counters count, and no overflow interrupt came in the self-test at the start of a session.",
        &["a hypervisor that lets counters count and does not deliver their interrupt", "LVTPC is masked or has another vector than Windows'"],
        "Counting works all the same. Sampling may work by the HAL's callback: `record --no-address`."),
    code("interrupt-storm", 4, "Another profiler may have left an overflow pending: end it, then start again.", "Interrupts came one after the other although no counter of the session had overflowed, and the session was ended.",
        &["a status bit that another profiler left set", "an interrupt line that stays active"],
        "That processor's interrupt stays masked until a later start finds the status clear; `halprof info` shows it."),
    code("kernel-addresses-not-granted", 4, "Add `:u` to sample user mode only, or run from an account that has the privilege.", "Samples of kernel mode show kernel addresses, and the client lacks the privilege SeDebugPrivilege.",
        &["an account from which a policy has taken the privilege", "a service that runs with fewer privileges"],
        "Sampling user mode (`:u`) and counting kernel mode do not need it."),
    code("fixed-counter-taken", 4, "End the profiler that uses it, or count another event; `halprof info` shows the counter.", "Only a fixed counter counts the source, and somebody else has it enabled.",
        &["another profiler", "firmware that uses the counter"],
        "A fixed counter that is found enabled is left to whoever enabled it."),
    code("suspended", 4, "Try again when it is awake.", "The machine is going to sleep, or has not woken up yet.",
        &["a request in the moment of a power transition"],
        ""),
    code("no-sources", 4, "Name at least one, e.g. `-e TotalIssues`.", "The request names nothing to count.", &["a client that is not this tool"], ""),
    code("too-many-sources", 4, "Count fewer at a time.", "One session has a limited number of sources.",
        &["a very long list"],
        "Measure in several runs."),
    code("bad-filter", 4, "Use `:u`, `:k` or `:uk`.", "A filter is neither user, kernel nor both.", &["a client that is not this tool"], ""),
    code("bad-value", 4, "`halprof list -v` shows the limits of each source.", "A field of the request has a value without a meaning.",
        &["an interval, rotation or period that no source takes"],
        ""),
    code("kernel-not-granted", 4, "Add `:u` to count user mode only.", "Kernel mode was asked for by a session that was opened without it.",
        &["a client that opens a session for user mode and then asks for kernel counts"],
        ""),
    code("no-memory", 4, "Sample less often, or on fewer processors with `-C`.", "There was not memory enough for the samples' rings.",
        &["many processors: each has a ring of its own", "other sessions' rings, which share one limit (`ring_bytes_max` of `info --json`)"],
        ""),
    code("too-many-sessions", 4, "End another measurement first.", "Every session that the driver has is open.", &["many clients at once"], ""),
    code("unknown-session", 4, "This is a defect of the client: please report the command line.", "The handle has no session of this number.", &["a client that uses a session after its end"], ""),
    code("running", 4, "This is a defect of the client: please report the command line.", "The session runs, and this can be done only while it does not.", &["a client's order of requests"], ""),
    code("not-running", 4, "This is a defect of the client: please report the command line.", "The session does not run, and this can be done only while it does.", &["a client's order of requests"], ""),
    code("not-configured", 4, "This is a defect of the client: please report the command line.", "The session has no sources yet.", &["a client's order of requests"], ""),
    code("not-sampling", 4, "This is a defect of the client: please report the command line.", "The session counts and does not sample, so it has no samples to give.", &["a client's order of requests"], ""),
    code("source-not-in-session", 4, "Name it with `-e`.", "The source is none of the session's.", &["a client that sets the interval of a source that it does not measure"], ""),
    code("unavailable", 4, "", "What was asked for cannot be had here, whoever asks.",
        &["a program behind `--` on a modelled machine, which runs workloads only", "a workload on silicon", "`install`, `start`, `stop` or `uninstall` elsewhere than on Windows"],
        "The hint beside the error tells what there is in its place."),
    code("access-denied", 4, "Run it from an elevated prompt: measuring needs the rights of an administrator.", "The rights of an administrator are missing.",
        &["a prompt that is not elevated"],
        "Start it with \"Run as administrator\"."),
    code("not-signed", 4, "", "Windows does not accept the signature of the driver, or of its package.",
        &["test signing is off, or Secure Boot keeps it off", "the package's certificate is not in the stores Root and TrustedPublisher", "a file of the package was changed, or is of another package"],
        "`halprof doctor` shows test signing, Secure Boot and who signed the driver."),
    code("driver-blocked", 4, "", "A policy, or Windows' list of vulnerable drivers, blocks the driver.",
        &["Windows Defender Application Control, or Smart App Control", "device installation restrictions of a group policy", "Memory integrity"],
        "Event Viewer, Applications and Services Logs, Microsoft, Windows, CodeIntegrity, Operational, tells which rule it was."),
    code("driver-failed", 4, "", "The driver is installed, and does not run.",
        &["it could not be loaded, or refused the device", "its installation is damaged"],
        "The message has Windows' own code and, where there is one, the NTSTATUS behind it. `halprof uninstall` and `halprof install` begin anew."),
    code("driver-disabled", 4, "", "The device or its service is disabled.",
        &["`halprof stop`, or somebody in Device Manager"],
        "`halprof start`."),
    code("restart-needed", 4, "", "Windows has to be restarted first.",
        &["an earlier copy of the driver is in memory still", "the device is being removed"],
        "Restart, then try again."),
    code("install-failed", 4, "", "A step of installing, starting, stopping or removing the driver failed.",
        &["what Windows' own error number says"],
        "%SystemRoot%\\INF\\setupapi.dev.log has what Windows tried."),

    code("file", 5, "Check that the path exists and that you may use it.", "A file could not be read or written, or a program not started.",
        &["it does not exist, or may not be used", "the disk is full", "the program behind `--` is not on the path"],
        ""),
    code("bad-file", 5, "", "A file is not what it should be.",
        &["a recording that is none, is of another version or is damaged", "a CPUID dump that cannot be read", "an install file of another driver"],
        "The message tells where it goes wrong."),
    code("output", 5, "Check where standard output goes.", "Standard output takes no more.",
        &["it goes to a file on a full disk"],
        ""),

    code("version-mismatch", 6, "Install halprof.exe and halprof.sys of the same release.", "halprof.exe and halprof.sys are of different releases.",
        &["one of them was updated alone"],
        "`halprof install` from the package that has both."),
    code("wrong-size", 6, "Install halprof.exe and halprof.sys of the same release.", "A request has a length that the driver does not expect.", &["two releases that do not belong together"], ""),
    code("reply-too-small", 6, "Install halprof.exe and halprof.sys of the same release.", "A reply needs more room than it was given.", &["two releases that do not belong together"], ""),
    code("unknown-flags", 6, "Install halprof.exe and halprof.sys of the same release.", "A request has flags that the driver does not know.", &["two releases that do not belong together"], ""),
    code("reserved-not-zero", 6, "Install halprof.exe and halprof.sys of the same release.", "A reserved field of a request is not 0.", &["two releases that do not belong together"], ""),
    code("protocol", 6, "Install halprof.exe and halprof.sys of the same release.", "A reply is not what this version of the protocol says.", &["two releases that do not belong together"], ""),
    code("request-failed", 6, "Install halprof.exe and halprof.sys of the same release.", "Windows, or the driver, failed a request before there was an answer.",
        &["two releases that do not belong together", "a driver that is not ours behind the device"],
        ""),
];

impl Code {
    /// The row of a code that the tool itself gives: each has one.
    #[must_use]
    pub(crate) fn of(code: &str) -> &'static Self {
        Self::find(code).unwrap_or(&CODES[0])
    }

    /// The row of a code.
    #[must_use]
    pub(crate) fn find(code: &str) -> Option<&'static Self> {
        CODES.iter().find(|row| row.name == code)
    }

    /// What to do: what stands beside the error, and more.
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
    use crate::Error;
    use halprof_measure::{Error as Measure, Refusal};
    use shared_types::ErrorCode;
    use std::collections::BTreeSet;

    /// The texts between quotes in a function of a source file.
    fn quoted(source: &'static str, function: &str) -> BTreeSet<&'static str> {
        let (_, body) = source.split_once(function).expect("the function");
        let (body, _) = body.split_once("\n    }\n").expect("its end");
        let arms = body.lines().filter_map(|line| line.split_once("=> "));
        arms.filter_map(|(_, value)| value.trim().strip_prefix('"')?.split('"').next())
            .collect()
    }

    #[test]
    fn every_code_of_the_driver_the_tool_and_the_installation_is_explained() {
        let mut own = quoted(
            include_str!("../../measure/src/error.rs"),
            "pub fn code(&self)",
        );
        own.extend(quoted(include_str!("error.rs"), "pub fn code(&self)"));
        assert!(own.len() >= 10, "{own:?}");
        let wire = ErrorCode::ALL.iter().map(|code| code.code());
        let wanted: BTreeSet<&str> = own
            .into_iter()
            .chain(wire)
            .chain(halprof_setup::installation::codes())
            .collect();
        let explained: BTreeSet<&str> = CODES.iter().map(|row| row.name).collect();
        assert_eq!(explained, wanted);
        assert_eq!(explained.len(), CODES.len(), "a code stands twice");
    }

    #[test]
    fn statuses_are_those_that_the_tool_ends_with() {
        for code in ErrorCode::ALL {
            let refusal = Refusal {
                code: *code,
                subject: 0,
                detail: 0,
                source: None,
            };
            let row = Code::find(code.code()).expect("it");
            assert_eq!(
                row.status,
                Error::refused(refusal).exit_status(),
                "{}",
                row.name
            );
        }
        let statuses: Vec<u8> = CODES.iter().map(|row| row.status).collect();
        assert!(statuses.is_sorted() && statuses.last() == Some(&6));
        for (error, code) in [
            (Measure::NoMachine(String::new()), "no-machine"),
            (Measure::Internal(String::new()), "internal"),
            (Measure::usage("", ""), "usage"),
            (
                Measure::Status(shared_types::NtStatus::ACCESS_DENIED),
                "access-denied",
            ),
            (Measure::Status(shared_types::NtStatus(1)), "request-failed"),
        ] {
            let error = Error::from(error);
            let row = Code::find(code).expect("it");
            assert_eq!((row.name, row.status), (error.code(), error.exit_status()));
        }
    }

    #[test]
    fn each_has_causes_and_something_to_do() {
        for row in CODES {
            assert!(
                row.meaning.ends_with('.') && row.meaning.len() > 20,
                "{}",
                row.name
            );
            assert!(!row.causes.is_empty(), "{}", row.name);
            let what = row.what_to_do();
            assert!(
                what.ends_with('.') || what.ends_with(")."),
                "{}: {what}",
                row.name
            );
        }
    }

    #[test]
    fn the_document_of_exit_statuses_has_them_where_they_are() {
        let text = include_str!("../../../docs/cli.md");
        for row in text.lines().filter(|line| line.starts_with("| ")) {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let Some(status) = cells.next().and_then(|cell| cell.parse::<u8>().ok()) else {
                continue;
            };
            let examples = cells.nth(1).unwrap_or_default();
            for code in examples
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|text| text.contains('-'))
            {
                assert_eq!(
                    Code::find(code).map(|row| row.status),
                    Some(status),
                    "{code}"
                );
            }
        }
    }
}
