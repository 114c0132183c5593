//! Is nothing answered but what shall be?

use super::*;

const LOCAL: Host = Host(true);

fn page() -> Page {
    let told = Told {
        modelled: true,
        machine: "a machine".to_owned(),
    };
    Page::new(&told, "counts\n# EOF\n".to_owned())
}

/// The response to the whole of a request, as text; empty where more is waited for.
fn response(request: &str, host: Host) -> String {
    let response = answer(request.as_bytes(), &page(), host);
    let bytes = response.map(|response| response.bytes());
    String::from_utf8(bytes.unwrap_or_default()).expect("UTF-8")
}

fn get(target: &str) -> String {
    response(
        &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        LOCAL,
    )
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn two_paths_are_there_and_no_other() {
    let metrics = get("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains(
        "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
    ));
    assert!(metrics.contains("\r\nContent-Length: 13\r\n"));
    assert!(metrics.ends_with("\r\n\r\ncounts\n# EOF\n"));
    assert!(get("/").contains("modelled machine, not silicon: a machine"));
    assert_eq!(status(&get("/metrics?name[]=x")), "200");
    for target in [
        "/metric",
        "/metrics/",
        "/../metrics",
        "//metrics",
        "*",
        "http://localhost/",
    ] {
        assert_eq!(status(&get(target)), "404", "{target}");
    }
}

#[test]
fn only_get_and_head_do_anything() {
    let with = |method| {
        response(
            &format!("{method} /metrics HTTP/1.1\r\nHost: [::1]:9\r\n\r\n"),
            LOCAL,
        )
    };
    for method in [
        "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "X",
    ] {
        let refused = with(method);
        assert_eq!(status(&refused), "405", "{method}");
        assert!(refused.contains("\r\nAllow: GET, HEAD\r\n"));
    }
    let (head, whole) = (with("HEAD"), with("GET"));
    assert_eq!(
        head,
        whole.strip_suffix("counts\n# EOF\n").expect("the body")
    );
}

#[test]
fn an_incomplete_head_is_waited_for_and_a_large_one_is_refused() {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for length in 0..request.len() {
        assert_eq!(response(&request[..length], LOCAL), "", "{length}");
    }
    let line = "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n";
    let large = request.trim_end().to_owned() + "\r\n" + &line.repeat(60);
    assert!(large.len() > HEAD_BYTES_MAX);
    assert_eq!(status(&response(&large, LOCAL)), "431");
    assert_eq!(status(&response(&(large + "\r\n"), LOCAL)), "431");
    let many = request.trim_end().to_owned() + "\r\n" + &"X:\r\n".repeat(64) + "\r\n";
    assert_eq!(status(&response(&many, LOCAL)), "431");
}

#[test]
fn what_is_no_http_is_refused() {
    for request in [
        "\u{0}\u{1}\u{2}",
        "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
    ] {
        assert_eq!(status(&response(request, LOCAL)), "400", "{request:?}");
    }
    // HTTP/1.0 names no host.
    assert_eq!(status(&response("GET / HTTP/1.0\r\n\r\n", LOCAL)), "200");
}

/// DNS rebinding: a name of the web that resolves to this machine.
#[test]
fn a_local_server_answers_to_no_other_name() {
    let with = |name: &str, host| {
        let request = format!("GET /metrics HTTP/1.1\r\nhOST: {name}\r\n\r\n");
        status(&response(&request, host)).to_owned()
    };
    for name in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1",
        "127.9.9.9:9464",
        "[::1]",
        "[::1]:1",
    ] {
        assert_eq!(with(name, LOCAL), "200", "{name}");
    }
    for name in [
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "192.168.1.1:9464",
        "0.0.0.0",
        "localhost:x",
        "",
        "[::1",
        "\u{e9}",
    ] {
        assert_eq!(with(name, LOCAL), "421", "{name}");
        assert_eq!(with(name, Host(false)), "200", "{name}");
    }
}
