//! Does Makefile.toml still fit the tasks of wdk-build that it modifies?

use halprof_tests::{driver, package};
use std::path::PathBuf;
use toml::{Table, Value};

const OURS: &str = include_str!("../../Makefile.toml");

/// wdk-build's tasks, in the version that the driver is built with, as unpacked by `cargo xtask
/// sys`.
fn upstream() -> Option<Table> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let makefile = root.join("../target/driver/work/wdk-build/rust-driver-makefile.toml");
    if !makefile.is_file() {
        driver::skip(&format!("{} is absent: run `cargo xtask sys`", makefile.display()));
        return None;
    }
    let text = package::read(&makefile);
    let text = String::from_utf8(text).expect("text");
    Some(text.parse().expect("wdk-build's makefile"))
}

fn ours() -> Table {
    OURS.parse().expect("Makefile.toml")
}

/// Our value and upstream's for a key that both give to a task.
fn both<'a>(ours: &'a Table, upstream: &'a Table, task: &str, key: &str) -> [&'a Value; 2] {
    [ours, upstream].map(|makefile| {
        let value = makefile["tasks"].get(task).and_then(|task| task.get(key));
        value.unwrap_or_else(|| panic!("{task}.{key}"))
    })
}

/// The tasks that our file modifies and upstream does not have.
fn unknown(ours: &Table, upstream: &Table) -> Vec<String> {
    let tasks = ours["tasks"].as_table().expect("tasks");
    tasks.keys().filter(|task| upstream["tasks"].get(task.as_str()).is_none()).cloned().collect()
}

#[test]
fn every_task_that_changes_exists() {
    let Some(upstream) = upstream() else {
        return;
    };
    assert_eq!(unknown(&ours(), &upstream), Vec::<String>::new());
    let renamed: Table =
        OURS.replace("[tasks.copy-pdb-", "[tasks.copy-symbols-").parse().expect("TOML");
    assert_eq!(unknown(&renamed, &upstream), ["copy-symbols-to-package"]);
}

#[test]
fn what_is_written_again_is_upstreams() {
    let Some(upstream) = upstream() else {
        return;
    };
    let ours = ours();
    let [here, there] = both(&ours, &upstream, "generate-driver-binary-file", "dependencies");
    assert_eq!(here, there);

    let [here, there] = both(&ours, &upstream, "stampinf", "args").map(|value| {
        let mut arguments = value.as_array().expect("arguments").clone();
        let version =
            1 + arguments.iter().position(|argument| argument.as_str() == Some("-v")).expect("-v");
        arguments.remove(version);
        arguments
    });
    assert_eq!(here, there);

    let [here, there] = both(&ours, &upstream, "stampinf", "env").map(|value| {
        let names = value.as_table().expect("variables").keys();
        names.cloned().collect::<Vec<_>>()
    });
    assert_eq!(here, there);
}

#[test]
fn the_tasks_still_take_the_packages_name_from_the_variable_that_is_set() {
    let Some(upstream) = upstream() else {
        return;
    };
    assert!(ours()["env"].get("CARGO_MAKE_CRATE_FS_NAME").is_some());
    let image =
        upstream["tasks"]["sign-driver-binary"]["env"]["WDK_BUILD_SIGNTOOL_SIGN_INPUT_FILE"]
            .as_str();
    assert_eq!(
        image,
        Some(
            "${WDK_BUILD_OUTPUT_DIRECTORY}/${CARGO_MAKE_CRATE_FS_NAME}_package/${CARGO_MAKE_CRATE_FS_NAME}.${WDK_BUILD_DRIVER_EXTENSION}"
        )
    );
}

#[test]
fn the_tasks_are_loaded_from_the_wdk_build_that_builds_the_driver() {
    let driver: Table = include_str!("../../driver/Cargo.toml").parse().expect("TOML");
    let version = driver["build-dependencies"]["wdk-build"].as_str().expect("a version");
    let script = ours()["config"]["load_script"].as_str().expect("a script").to_owned();
    assert!(script.contains(&format!("wdk-build = \"{version}\"")), "{script}");
}
