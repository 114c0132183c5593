//! Does halprof.exe install the driver, start and stop it, and remove all of it again, as far as
//! Wine can show?
//!
//! The device nodes, the registry and the services are Wine's; replacements for what Wine lacks are
//! beside this file.

use crate::wine::prefix::Wine;
use serde_json::{Value, json};

fn assert_nothing(removed: &Value, why: &str) {
    let left = (&removed["devices"], &removed["packages"], &removed["service"]);
    let nothing = json!([]);
    assert_eq!(left, (&nothing, &nothing, &json!(false)), "{why}");
}

fn uninstall(wine: &Wine) -> Value {
    let (status, value) = wine.halprof(&["uninstall"], &[]);
    assert_eq!(status, 0, "{value}");
    value
}

const RESTART: &[(&str, &str)] = &[("FAKE_RESTART", "1")];

#[test]
fn it_installs_switches_and_removes_the_driver() {
    let Some(wine) = Wine::new() else {
        return;
    };
    what_is_installed_is_removed_again(&wine);
    what_is_installed_is_stopped_and_started(&wine);
}

fn what_is_installed_is_removed_again(wine: &Wine) {
    assert_nothing(&uninstall(wine), "nothing is there yet");
    assert_eq!(wine.refused(&["info"], &[]), (3, "no-driver".to_owned()));

    // If Windows refuses, no device is left behind.
    for (error, code) in
        [("E0000242", "not-signed"), ("E0000248", "driver-blocked"), ("57", "install-failed")]
    {
        let refused = wine.refused(&["install"], &[("FAKE_ERROR", error)]);
        assert_eq!(refused, (4, code.to_owned()), "{error}");
        assert_nothing(&uninstall(wine), &format!("{error} left something"));
    }
    assert_eq!(wine.refused(&["install", "other.inf"], &[]), (5, "bad-file".to_owned()));
    assert_eq!(wine.refused(&["install", "none.inf"], &[]), (5, "file".to_owned()));

    // Wine does not start a driver for a device: if no restart is pending, that is reported.
    assert_eq!(wine.refused(&["install"], &[]), (4, "driver-failed".to_owned()));
    for _ in 0..2 {
        let (status, installed) = wine.halprof(&["install", "halprof.inf"], RESTART);
        assert_eq!(status, 0, "{installed}");
        assert_eq!(installed["device"], r"ROOT\HALPROF\0000");
        assert_eq!(installed["created"], false);
        assert_eq!(installed["restart"], true);
    }
    let (_, refused) = wine.halprof(&["info"], &[]);
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("it is installed, but"), "{message}");

    // Wine 8 only removes a package by force, as is done before a restart.
    let (status, removed) = wine.halprof(&["uninstall"], RESTART);
    assert_eq!(status, 0, "{removed}");
    assert_eq!(removed["devices"], json!([r"ROOT\HALPROF\0000"]));
    assert_eq!(removed["packages"], json!(["oem7.inf"]));
    assert_eq!(removed["service"], true);
    assert_nothing(&uninstall(wine), "something was left");
    let (_, installed) = wine.halprof(&["install"], RESTART);
    assert_eq!(installed["created"], true);
    let (status, removed) = wine.halprof(&["uninstall"], RESTART);
    assert_eq!(status, 0, "{removed}");
}

/// Wine's own cfgmgr32.dll reports a device's state, but cannot switch a device.
const SWITCHES: (&str, &str) = ("WINEDLLOVERRIDES", "newdev,cfgmgr32=n;mscoree=;mshtml=");

fn what_is_installed_is_stopped_and_started(wine: &Wine) {
    for command in ["start", "stop"] {
        let refused = wine.refused(&[command], &[SWITCHES]);
        assert_eq!(refused, (3, "no-driver".to_owned()), "{command}");
    }
    let (status, installed) = wine.halprof(&["install"], RESTART);
    assert_eq!(status, 0, "{installed}");
    for (command, changed) in
        [("start", false), ("stop", true), ("stop", false), ("start", true), ("start", false)]
    {
        let (status, switched) = wine.halprof(&[command], &[SWITCHES]);
        assert_eq!(status, 0, "{switched}");
        assert_eq!(switched["devices"], json!([r"ROOT\HALPROF\0000"]));
        assert_eq!(switched["changed"], changed, "{command}");
        assert_eq!(switched["restart"], false);
        if command == "stop" {
            let (status, refused) = wine.halprof(&["info"], &[SWITCHES]);
            let told = &refused["error"];
            assert_eq!((status, &told["code"]), (3, &json!("no-driver")));
            assert!(told["message"].as_str().is_some_and(|text| text.contains("disabled")));
            assert!(told["hint"].as_str().is_some_and(|text| text.contains("halprof start")));
        }
    }
    for (answer, status, code) in
        [("17", 4, "busy"), ("33", 4, "access-denied"), ("13", 4, "install-failed")]
    {
        let refused = wine.refused(&["stop"], &[SWITCHES, ("FAKE_ANSWER", answer)]);
        assert_eq!(refused, (status, code.to_owned()));
    }
    let (_, later) = wine.halprof(&["stop"], &[SWITCHES, ("FAKE_ANSWER", "22")]);
    assert_eq!(later["restart"], true);
    uninstall(wine);
}
