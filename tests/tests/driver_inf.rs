//! What does an independent implementation of SetupAPI, Wine's, make of halprof.inf?

use crate::wine::{Wine, printed};
use halprof_tests::package;
use shared_types::device;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// wine/setup.c, beside the package.
struct Setup {
    wine: Wine,
    inf: PathBuf,
}

impl Setup {
    fn new() -> Option<Self> {
        let package = package::folder()?;
        let wine = Wine::new("setup.c", &["-lsetupapi", "-lnewdev"])?;
        for name in ["halprof.inf", "halprof.sys", "halprof.cat"] {
            std::fs::copy(package.join(name), wine.folder().join(name)).expect("a copy");
        }
        Some(Self { inf: wine.folder().join("halprof.inf"), wine })
    }

    /// What setup.c prints, and whether it succeeds.
    fn run(&self, verb: &str) -> (String, bool) {
        let output = self.wine.run(&[verb, "halprof.inf"]);
        (printed(&output), output.status.success())
    }

    fn change(&self, from: &str, to: &str) {
        let inf = std::fs::read_to_string(&self.inf).expect("the copy");
        assert!(inf.contains(from), "{from}");
        std::fs::write(&self.inf, inf.replace(from, to)).expect("the copy");
    }

    /// Every section's lines, as `key|field|field`.
    fn sections(&self) -> BTreeMap<String, Vec<String>> {
        let (text, success) = self.run("lines");
        assert!(success, "{text}");
        let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut current = "";
        for line in text.lines() {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => current = name,
                None => sections.entry(current.to_owned()).or_default().push(line.to_owned()),
            }
        }
        sections
    }
}

#[test]
fn every_line_reads_as_meant() {
    let Some(setup) = Setup::new() else {
        return;
    };
    let mut sections = setup.sections();
    let (date, version) = driver_ver(&sections["Version"]);
    let numbers: Vec<usize> = date.split('/').map(|part| part.parse().expect("a number")).collect();
    assert!(matches!(numbers[..], [1..=12, 1..=31, 2020..=2099]), "{date}");
    assert_eq!(version, format!("{}.0", env!("CARGO_PKG_VERSION")));

    let version = sections.get_mut("Version").expect("a version");
    version.retain(|line| !line.starts_with("DriverVer|"));
    let service_binary = sections["halprof_Service"][4].clone();
    assert!(service_binary.ends_with(r"\halprof.sys"), "{service_binary}");
    assert_eq!(sections, meant(&service_binary));

    setup.change("(A;;GA;;;BA)", "(A;;GA;;;BA)(A;;GA;;;WD)");
    let wrong = setup.sections();
    assert_ne!(wrong["halprof_Device_Security"], sections["halprof_Device_Security"]);
}

fn driver_ver(version: &[String]) -> (String, String) {
    let line = version.iter().find_map(|line| line.strip_prefix("DriverVer|"));
    let (date, version) = line.and_then(|line| line.split_once('|')).expect("a date and a version");
    (date.to_owned(), version.to_owned())
}

/// The whole file as it is meant; `service_binary` is the location of directory 13 on this Windows.
fn meant(service_binary: &str) -> BTreeMap<String, Vec<String>> {
    let models =
        format!("halprof hardware performance counters|halprof_Device|{}", device::HARDWARE_ID);
    let security = format!("|HKR||Security||{}", device::SECURITY);
    let kmdf = format!("KmdfLibraryVersion|{}", minimum_kmdf());
    let sections: [(&str, &[&str]); 15] = [
        (
            "Version",
            &[
                "Signature|$WINDOWS NT$",
                "Class|System",
                "ClassGuid|{4d36e97d-e325-11ce-bfc1-08002be10318}",
                "Provider|halprof",
                "CatalogFile|halprof.cat",
                "PnpLockdown|1",
            ],
        ),
        ("DestinationDirs", &["DefaultDestDir|13"]),
        ("SourceDisksNames", &["1|halprof driver disk"]),
        ("SourceDisksFiles", &["halprof.sys|1"]),
        ("Manufacturer", &["halprof|Standard|NTamd64.10.0...19041"]),
        ("Standard.NTamd64.10.0...19041", &[&models]),
        ("halprof_Device.NT", &["CopyFiles|halprof_Files"]),
        ("halprof_Files", &["halprof.sys|halprof.sys"]),
        ("halprof_Device.NT.HW", &["AddReg|halprof_Device_Security"]),
        ("halprof_Device_Security", &[&security]),
        ("halprof_Device.NT.Services", &["AddService|halprof|0x00000002|halprof_Service"]),
        (
            "halprof_Service",
            &[
                "DisplayName|halprof hardware performance counters driver",
                "ServiceType|1",
                "StartType|3",
                "ErrorControl|1",
                service_binary,
            ],
        ),
        ("halprof_Device.NT.Wdf", &["KmdfService|halprof|halprof_Wdf"]),
        ("halprof_Wdf", &[&kmdf]),
        (
            "Strings",
            &[
                "Provider|halprof",
                "Device|halprof hardware performance counters",
                "Service|halprof hardware performance counters driver",
                "Disk|halprof driver disk",
            ],
        ),
    ];
    sections
        .into_iter()
        .map(|(name, lines)| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            (name.to_owned(), lines)
        })
        .collect()
}

/// The minimum KMDF version that the driver's package requires.
fn minimum_kmdf() -> String {
    let number = |key: &str| {
        let lines = include_str!("../../driver/Cargo.toml").lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        values.next().expect("a number in driver/Cargo.toml").to_owned()
    };
    let major = number("kmdf-version-major");
    let minor = number("minimum-kmdf-version-minor");
    format!("{major}.{minor}")
}

#[test]
fn it_installs_a_driver_that_starts_on_demand_for_administrators_only() {
    let Some(setup) = Setup::new() else {
        return;
    };
    // Wine 8 does not compare Windows versions in the name of a models section.
    setup.change(".10.0...19041", "");
    setup.change("[halprof_Device.NT.", "[halprof_Other.NT.");
    let (wrong, _) = setup.run("install");
    assert!(wrong.contains("|Security|absent"), "{wrong}");
    assert!(wrong.contains("|Start|absent"), "{wrong}");

    setup.change("[halprof_Other.NT.", "[halprof_Device.NT.");
    let (registered, success) = setup.run("install");
    assert!(success, "{registered}");
    let parameters =
        format!(r"Enum\ROOT\HALPROF\0000\Device Parameters|Security|{}", device::SECURITY);
    let meant = [
        r"Enum\ROOT\HALPROF\0000|Class|System",
        r"Enum\ROOT\HALPROF\0000|DeviceDesc|halprof hardware performance counters",
        r"Enum\ROOT\HALPROF\0000|Service|halprof",
        &parameters,
        r"Services\halprof|DisplayName|halprof hardware performance counters driver",
        r"Services\halprof|Type|1",
        r"Services\halprof|Start|3",
        r"Services\halprof|ErrorControl|1",
    ];
    let mut lines: Vec<&str> = registered.lines().collect();
    let image = lines.pop().expect("the image path");
    assert_eq!(lines, meant);
    assert!(image.starts_with(r"Services\halprof|ImagePath|"), "{image}");
    assert!(image.ends_with(r"\halprof.sys"), "{image}");
}

/// Windows' own store is directory 13; Wine has none, so the text itself is checked.
#[test]
fn nothing_is_copied_out_of_the_driver_store() {
    let inx = include_str!("../../driver.inx");
    let directories: Vec<&str> = inx.split('%').filter(|part| is_number(part)).collect();
    assert_eq!(directories, ["13"]);
    assert!(inx.contains(r"ServiceBinary = %13%\halprof.sys"));
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
