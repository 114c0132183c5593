//! Does the server answer what a scraper asks, exactly, and nobody else anything?

use crate::cli::support::{foreign_python, refused, schema, violations};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Instructions in every cycle of 1 GHz, a branch in every fourth.
const WORKLOAD: &str = "instructions=1000000,cycles=1000000,branches=250000,processors=all";
const LIST: &str = "TotalIssues,BranchInstructions:u";

/// What is waited for comes at once, and on a busy machine within this.
const SOON: Duration = Duration::from_secs(60);

/// A server that runs.
pub(crate) struct Served {
    child: Child,
    /// What it said when it began.
    pub(crate) told: Value,
}

impl Served {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_halprof"))
            .args(["--json", "serve", "--listen", "127.0.0.1:0", "-I", "20"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdout = child.stdout.take().expect("a pipe");
        let mut objects = serde_json::Deserializer::from_reader(stdout).into_iter();
        let told = objects.next().expect("an object").expect("JSON");
        Self { child, told }
    }

    fn address(&self) -> &str {
        self.told["address"].as_str().expect("an address")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("it listens");
        let patience = Some(SOON);
        stream.set_read_timeout(patience).expect("a timeout");
        stream
    }

    /// The whole response to a request.
    fn response(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    /// The text of the counts.
    fn metrics(&self) -> String {
        let response = self.response("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        body.to_owned()
    }

    /// Waits until it has read the counters so often.
    fn metrics_after(&self, readings: u64) -> String {
        let end = Instant::now() + SOON;
        loop {
            let metrics = self.metrics();
            if whole(&metrics, "halprof_readings_total{modelled=\"true\"}") >= readings {
                return metrics;
            }
            assert!(Instant::now() < end, "{metrics}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C; answers the exit status, and what went to standard error.
    #[cfg(unix)]
    fn interrupted(mut self) -> (Option<i32>, String) {
        let process = self.child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &process]).status();
        assert!(killed.expect("kill").success());
        let status = self.child.wait().expect("it ends");
        let mut stderr = String::new();
        let pipe = self.child.stderr.as_mut().expect("a pipe");
        pipe.read_to_string(&mut stderr).expect("UTF-8");
        (status.code(), stderr)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value behind a name with its labels, as it is printed.
fn printed<'a>(metrics: &'a str, name: &str) -> &'a str {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}: {metrics}"))
}

fn whole(metrics: &str, name: &str) -> u64 {
    printed(metrics, name).parse().expect("a whole number")
}

fn cell(family: &str, source: &str, processor: u32) -> String {
    format!("halprof_{family}{{modelled=\"true\",source=\"{source}\",processor=\"{processor}\"}}")
}

fn serving() -> Served {
    let machine = ["--machine", "skylake,processors=4"];
    let what = ["-e", LIST, "-C", "1-2", "--workload", WORKLOAD];
    Served::new(&[machine.as_slice(), &what].concat())
}

#[test]
fn it_says_where_it_listens() {
    let served = serving();
    assert_eq!(served.told["schema"], "halprof/serve/1");
    let errors = violations(&schema("serve"), &served.told);
    assert!(errors.is_empty(), "{errors:?}");
    let url = format!("http://{}/metrics", served.address());
    assert_eq!(served.told["url"], url.as_str());
}

#[test]
fn counts_are_exactly_what_happened_in_the_time_they_took() {
    let served = serving();
    let mut before = 0;
    for _ in 0..3 {
        let metrics = served.metrics_after(before + 2);
        before = whole(&metrics, "halprof_readings_total{modelled=\"true\"}");
        for processor in [1, 2] {
            let issues = whole(&metrics, &cell("events_total", "TotalIssues", processor));
            let seconds = printed(
                &metrics,
                &cell("enabled_seconds_total", "TotalIssues", processor),
            );
            // One in a nanosecond, and nanoseconds are what modelled time is told in.
            let nanoseconds = seconds.parse::<f64>().expect("a number") * 1e9;
            assert_eq!(format!("{nanoseconds:.0}"), issues.to_string());
            let rate = cell("events_per_second", "TotalIssues", processor);
            assert_eq!(printed(&metrics, &rate), "1000000000.0");
            let branches = cell("events_total", "BranchInstructions:u", processor);
            assert_eq!(whole(&metrics, &branches), issues / 4);
        }
        assert!(!metrics.contains("processor=\"0\"") && !metrics.contains("processor=\"3\""));
        assert!(metrics.ends_with("\n# EOF\n"));
    }
}

/// Sources that take turns: an error bound, and less time running than enabled.
#[test]
fn the_parser_of_prometheus_reads_it_all() {
    let Some(python) = foreign_python("prometheus_client") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let list = "TotalIssues,CacheMisses,r01C4,r02C4,r04C4,r08C4,r10C4,r20C4,r40C4";
    let served = Served::new(&["--machine", &strange(folder.path()), "-e", list]);
    let text = served.metrics_after(50);
    let families = parsed(&python, &text);
    let family = |name: &str| {
        let mut families = families.as_array().expect("a list").iter();
        let family = families.find(|family| family["name"] == name);
        family.unwrap_or_else(|| panic!("no {name}: {families:?}"))
    };
    for (name, kind, unit, samples) in [
        ("halprof_machine", "info", "", 1),
        ("halprof_processor", "info", "", 1),
        ("halprof_events", "counter", "", 9),
        ("halprof_enabled_seconds", "counter", "seconds", 9),
        ("halprof_running_seconds", "counter", "seconds", 9),
        ("halprof_readings", "counter", "", 1),
        ("halprof_missed_readings", "counter", "", 1),
        ("halprof_read_timestamp_seconds", "gauge", "seconds", 1),
    ] {
        let family = family(name);
        let found = family["samples"].as_array().expect("a list");
        assert_eq!(
            (&family["type"], &family["unit"], found.len()),
            (&kind.into(), &unit.into(), samples),
            "{name}"
        );
        assert!(
            found
                .iter()
                .all(|sample| sample["labels"]["modelled"] == "true")
        );
    }
    // What a file is called comes through quotes, backslashes and line ends.
    let about = &family("halprof_machine")["samples"][0]["labels"];
    assert_eq!(about["machine"], served.told["machine"]);
    assert_eq!(about["interface"], "Emon");
    let value = |name: &str| {
        let samples = family(name)["samples"].as_array().expect("a list");
        let issues = samples
            .iter()
            .find(|sample| sample["labels"]["source"] == "TotalIssues");
        issues.expect("a sample")["value"]
            .as_f64()
            .expect("a number")
    };
    let part = value("halprof_running_seconds") / value("halprof_enabled_seconds");
    assert!(part > 0.1 && part < 0.9, "{part}");
    // By the rule of the help text: 100 million instructions in 150 ms.
    let estimate = value("halprof_events") / value("halprof_running_seconds");
    assert!((estimate / (1e9 / 1.5) - 1.0).abs() < 0.05, "{estimate}");
}

/// A dump of one processor, in a file with a name that is hard to write down.
fn strange(folder: &Path) -> String {
    let path = folder.join("a \"dump\" \\ of\none.txt");
    let dump = "CPUID 00000000: 00000016-756E6547-6C65746E-49656E69\n\
        CPUID 00000001: 000506E3-00100800-7FFAFBBF-BFEBFBFF\n\
        CPUID 0000000A: 07300804-00000000-00000000-00000603\n";
    std::fs::write(&path, dump).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn parsed(python: &Path, text: &str) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/openmetrics.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "it does not parse: {text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn nothing_else_is_answered() {
    let served = serving();
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /metrics HTTP/1.1\r\nHost: example.com\r\n\r\n", "421"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let response = served.response(request);
        assert_eq!(response.split(' ').nth(1), Some(status), "{request}");
    }
    // More than is read of it, all at once: the refusal comes through all the same.
    let large = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(100_000));
    let response = served.response(&large);
    assert_eq!(response.split(' ').nth(1), Some("431"));
    let head = served.response("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"));
}

/// Clients that ask slowly, or not at all, keep others waiting for seconds and not for ever.
#[test]
fn who_dawdles_is_left() {
    let served = serving();
    let mut slow: Vec<TcpStream> = (0..12).map(|_| served.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /metrics HT").expect("sent");
    }
    let began = Instant::now();
    served.metrics();
    assert!(began.elapsed() < Duration::from_secs(15));
    for stream in &mut slow {
        let mut nothing = Vec::new();
        // Closed, and nothing was said.
        let _ = stream.read_to_end(&mut nothing);
        assert!(nothing.is_empty());
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_it_well() {
    let served = serving();
    served.metrics_after(3);
    let (status, stderr) = served.interrupted();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stderr.contains("modelled machine, not silicon: "),
        "{stderr}"
    );
}

#[test]
fn where_it_cannot_listen_it_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refused(&["serve", "--listen", &address], 4, "unavailable");
    // An address of no machine (RFC 5737).
    let nowhere = ["serve", "--allow-remote", "--listen", "192.0.2.1:9464"];
    refused(&nowhere, 4, "unavailable");
    for arguments in [
        &["--listen", "0.0.0.0:0"][..],
        &["--listen", "[::]:0"],
        &["--listen", "192.168.1.1:9464"],
        &["--listen", "9464"],
        &["--listen", "127.0.0.1:99999"],
        &["-I", "9"],
        &["-I", "3600001"],
        &["-I", "nan"],
        &["--rotate", "0"],
        &["--workload", "nonsense=1"],
    ] {
        refused(&[&["serve"], arguments].concat(), 2, "usage");
    }
    refused(&["serve", "-e", "Nonsense"], 4, "source-unknown");
}
