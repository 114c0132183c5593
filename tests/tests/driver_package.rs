//! Is the driver's package what it claims to be: signed, complete, and from a single build?

use halprof_tests::package;
use object::pe::ImageSectionHeader;
use object::read::pe::PeFile64;
use pdb2::PDB;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use zip::ZipArchive;

/// What the zip holds besides the documents: what Windows installs and, in folders, the scripts and
/// what debuggers load.
const FILES: [&str; 17] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "SHA256SUMS",
    "c/halprof.h",
    "c/halprof_c.dll",
    "c/halprof_c.lib",
    "driver/windbg/halprof.js",
    "driver/windbg/halprof.natvis",
    "halprof-test.cer",
    "halprof.cat",
    "halprof.exe",
    "halprof.inf",
    "halprof.pdb",
    "halprof.spdx.json",
    "halprof.sys",
    "tests/windows/run.ps1",
    "tests/windows/windows.cs",
];

/// The package, and osslsigncode with the package's own certificate as the only root.
struct Judge {
    package: PathBuf,
    osslsigncode: PathBuf,
    root: PathBuf,
    scratch: TempDir,
}

impl Judge {
    fn new() -> Option<Self> {
        let package = package::folder()?;
        let osslsigncode = package::tool("osslsigncode", "osslsigncode")?;
        let scratch = tempfile::tempdir().expect("a folder");
        let root = scratch.path().join("root.pem");
        let certificate = package.join("halprof-test.cer");
        let mut openssl = Command::new(package::tool("openssl", "openssl")?);
        openssl.args(["x509", "-inform", "DER", "-in"]);
        let _ = package::output(openssl.arg(certificate).arg("-out").arg(&root));
        Some(Self { package, osslsigncode, root, scratch })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.package.join(name)
    }

    /// Whether osslsigncode accepts a file, by its own signature or by a catalog.
    fn accepts(&self, file: &Path, catalog: Option<&Path>, root: Option<&Path>) -> bool {
        let mut verify = Command::new(&self.osslsigncode);
        verify.arg("verify").arg("-in").arg(file);
        for (option, value) in [("-catalog", catalog), ("-CAfile", root)] {
            if let Some(value) = value {
                verify.arg(option).arg(value);
            }
        }
        verify.output().expect("osslsigncode runs").status.success()
    }

    fn trusts(&self, file: &Path, catalog: Option<&Path>) -> bool {
        self.accepts(file, catalog, Some(&self.root))
    }

    /// A copy of a file with the byte at `offset` changed.
    fn changed(&self, name: &str, offset: usize) -> PathBuf {
        let mut bytes = package::read(&self.file(name));
        bytes[offset] ^= 1;
        let copy = self.scratch.path().join(name);
        std::fs::write(&copy, bytes).expect("a changed copy");
        copy
    }
}

#[test]
fn the_driver_carries_a_signature_and_a_changed_byte_breaks_it() {
    let Some(judge) = Judge::new() else {
        return;
    };
    let sys = judge.file("halprof.sys");
    assert!(judge.trusts(&sys, None));
    for section in sections(&package::read(&sys)) {
        let changed = judge.changed("halprof.sys", section);
        assert!(!judge.trusts(&changed, None), "byte {section:#x}");
    }
}

#[test]
fn the_catalog_vouches_for_the_driver_and_for_no_other() {
    let Some(judge) = Judge::new() else {
        return;
    };
    let (sys, cat) = (judge.file("halprof.sys"), judge.file("halprof.cat"));
    assert!(judge.trusts(&cat, None));
    assert!(judge.trusts(&sys, Some(&cat)));
    let first_section = sections(&package::read(&sys))[0];
    let other = judge.changed("halprof.sys", first_section);
    assert!(!judge.trusts(&other, Some(&cat)));
}

#[test]
fn a_changed_catalog_is_refused() {
    let Some(judge) = Judge::new() else {
        return;
    };
    let catalog = package::read(&judge.file("halprof.cat"));
    for name in ["halprof.sys", "halprof.inf"] {
        let name_in_list = utf16(name);
        let offset = catalog
            .windows(name_in_list.len())
            .position(|window| window == name_in_list)
            .expect("the name in the catalog");
        let changed = judge.changed("halprof.cat", offset);
        assert!(!judge.trusts(&changed, None));
        assert!(!judge.trusts(&judge.file("halprof.sys"), Some(&changed)));
    }
}

#[test]
fn nobody_trusts_the_test_certificate_unasked() {
    let Some(judge) = Judge::new() else {
        return;
    };
    for name in ["halprof.sys", "halprof.cat"] {
        assert!(!judge.accepts(&judge.file(name), None, None), "{name}");
    }
}

/// osslsigncode does not read .inf files, so openssl lists the catalog and the test looks for the
/// hash in it.
#[test]
fn the_catalog_lists_the_inf_by_the_hash_of_every_byte() {
    let Some(folder) = package::folder() else {
        return;
    };
    let Some(openssl) = package::tool("openssl", "openssl") else {
        return;
    };
    let mut asn1parse = Command::new(openssl);
    asn1parse.args(["asn1parse", "-inform", "DER", "-in"]);
    let list = package::output(asn1parse.arg(folder.join("halprof.cat")));
    let strings: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split_once("[HEX DUMP]:").map(|(_, hex)| hex))
        .collect();
    let inf = package::read(&folder.join("halprof.inf"));
    assert!(lists(&strings, "halprof.inf", &inf));
    assert!(!lists(&strings, "halprof.sys", &inf));
    for offset in [0, inf.len() / 2, inf.len() - 1] {
        let mut changed = inf.clone();
        changed[offset] ^= 1;
        assert!(!lists(&strings, "halprof.inf", &changed), "byte {offset}");
    }
}

/// Whether the catalog lists a file: a member is its hash, its Windows versions, its name, and its
/// hash again.
fn lists(strings: &[&str], name: &str, contents: &[u8]) -> bool {
    let hash = format!("{:X}", Sha256::digest(contents));
    let member = [hash.clone(), hex(&utf16("2:10.0\0")), hex(&utf16(&format!("{name}\0"))), hash];
    strings.windows(member.len()).any(|window| window == member)
}

#[test]
fn the_symbols_are_the_drivers_own() {
    let Some(folder) = package::folder() else {
        return;
    };
    let sys = package::read(&folder.join("halprof.sys"));
    let mut pdb =
        PDB::open(File::open(folder.join("halprof.pdb")).expect("the PDB")).expect("a PDB");
    let guid = pdb.pdb_information().expect("a GUID").guid.to_bytes_le();
    let age = pdb.debug_information().expect("a DBI stream").age().expect("an age");
    assert_eq!(symbols_of(&sys), (guid, age, "halprof.pdb".to_owned()));

    let mut other = sys;
    let record = other.windows(4).position(|window| window == b"RSDS").expect("a CodeView record");
    other[record + 4] ^= 1;
    assert_ne!(symbols_of(&other).0, guid);
}

/// The GUID, the age and the name of the PDB that an image refers to.
fn symbols_of(image: &[u8]) -> ([u8; 16], u32, String) {
    use object::Object as _;
    let image = PeFile64::parse(image).expect("an image");
    let view = image.pdb_info().expect("a debug directory").expect("a CodeView record");
    let name = String::from_utf8_lossy(view.path()).into_owned();
    (view.guid(), view.age(), name)
}

#[test]
fn the_zip_holds_the_package_as_listed_and_nothing_else() {
    let Some(folder) = package::folder() else {
        return;
    };
    let zips: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the package")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zip"))
        .collect();
    let [zip] = &zips[..] else {
        panic!("one zip: {zips:?}");
    };
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("halprof-driver-{version}-x64.zip");
    assert_eq!(*zip, folder.join(name));

    let mut files = unpacked(package::read(zip));
    let (documents, top): (Vec<&str>, Vec<&str>) =
        files.keys().map(String::as_str).partition(|name| name.starts_with("docs/"));
    assert_eq!(top, FILES);
    for document in [
        "docs/cli.md",
        "docs/windows.md",
        "docs/hal-sources.csv",
        "docs/man/halprof.1",
        "docs/man/halprof-stat.1",
        "docs/schemas/stat.json",
    ] {
        assert!(documents.contains(&document), "{document}: {documents:?}");
    }
    for name in FILES.into_iter().filter(|name| name.starts_with("halprof")) {
        assert_eq!(files[name], package::read(&folder.join(name)), "{name}");
    }
    for (name, contents) in &files {
        let key = contents.windows(11).any(|window| window == b"PRIVATE KEY");
        assert!(!key, "{name} holds a key");
    }

    let list = files.remove("SHA256SUMS").expect("the list");
    let mut hashes: Vec<String> = files
        .iter()
        .map(|(name, contents)| format!("{:x}  {name}", Sha256::digest(contents)))
        .collect();
    let list = String::from_utf8(list).expect("text");
    let mut listed: Vec<&str> = list.lines().collect();
    hashes.sort();
    listed.sort_unstable();
    assert_eq!(hashes, listed);
}

/// What a C program needs: the DLL exports the functions of the header, and the import library has
/// them all.
#[test]
fn the_c_library_is_whole() {
    use object::Object as _;
    let Some(folder) = package::folder() else {
        return;
    };
    let name = format!("halprof-driver-{}-x64.zip", env!("CARGO_PKG_VERSION"));
    let files = unpacked(package::read(&folder.join(name)));
    let header = String::from_utf8_lossy(&files["c/halprof.h"]);
    let dll = PeFile64::parse(&*files["c/halprof_c.dll"]).expect("a DLL");
    let library = String::from_utf8_lossy(&files["c/halprof_c.lib"]);
    let mut exports = 0;
    for export in dll.exports().expect("exports") {
        let name = std::str::from_utf8(export.name()).expect("a name");
        if name.starts_with("halprof_") {
            exports += 1;
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            let import = format!("{name}\0halprof_c.dll\0");
            assert!(library.contains(&import), "{name} is not in the import library");
        }
    }
    let lines = header.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    assert_eq!(exports, lines.filter(|line| line.contains('(')).count(), "declared in the header");
}

fn unpacked(zip: Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let mut zip = ZipArchive::new(Cursor::new(zip)).expect("a zip");
    (0..zip.len())
        .map(|index| {
            let mut file = zip.by_index(index).expect("a file of the zip");
            let mut contents = Vec::new();
            file.read_to_end(&mut contents).expect("its contents");
            (file.name().expect("a name").into_owned(), contents)
        })
        .collect()
}

/// The file offset of each section's bytes.
fn sections(image: &[u8]) -> Vec<usize> {
    let image = PeFile64::parse(image).expect("an image");
    image
        .section_table()
        .iter()
        .map(ImageSectionHeader::pe_file_range)
        .filter(|(_, size)| *size > 0)
        .map(|(offset, _)| offset as usize)
        .collect()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Bytes as openssl prints them.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02X}").expect("a string takes all");
        text
    })
}
