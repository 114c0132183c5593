//! The list of what is in a zip, in SPDX 2.3: its files, and the crates that are compiled into them.

use super::archive::File;
use anyhow::Result;
use der::DateTime;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use xshell::{Shell, cmd};

/// What is known of neither a file nor a crate.
const UNKNOWN: &str = "NOASSERTION";
const ZIP: &str = "SPDXRef-zip";

/// The document about a zip of `files` that has programs of `packages`.
pub(super) fn document(
    shell: &Shell,
    name: &str,
    date: DateTime,
    packages: &[&str],
    files: &[File],
) -> Result<File> {
    let files: Vec<Value> = files.iter().map(file).collect();
    let mut crates = crates(shell, packages)?;
    let relation = |from: &str, kind: &str, to: &Value| {
        let to = &to["SPDXID"];
        json!({"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
    };
    let mut zip = package(ZIP, name, env!("CARGO_PKG_VERSION"), "MIT OR Apache-2.0");
    zip["filesAnalyzed"] = true.into();
    zip["packageVerificationCode"] = json!({"packageVerificationCodeValue": verification(&files)});
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", &zip)];
    relations.extend(files.iter().map(|file| relation(ZIP, "CONTAINS", file)));
    relations.extend(crates.iter().map(|one| relation(ZIP, "DEPENDS_ON", one)));
    crates.insert(0, zip);
    let mut document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "creationInfo": {"created": date.to_string(), "creators": ["Tool: halprof-xtask"]},
        "packages": crates,
        "files": files,
        "relationships": relations,
    });
    // Another document has another name.
    let hash = Sha1::digest(document.to_string());
    document["documentNamespace"] = format!("urn:sha1:{hash:x}").into();
    Ok(File {
        name: "halprof.spdx.json".to_owned(),
        contents: format!("{document:#}\n").into_bytes(),
    })
}

fn file(file: &File) -> Value {
    let sha1 = format!("{:x}", Sha1::digest(&file.contents));
    json!({
        "SPDXID": format!("SPDXRef-file-{}", identifier(&file.name)),
        "fileName": format!("./{}", file.name),
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": sha1},
            {"algorithm": "SHA256", "checksumValue": file.sha256()},
        ],
        "licenseConcluded": UNKNOWN,
        "copyrightText": UNKNOWN,
    })
}

/// The hash of all hashes (SPDX 2.3, 7.9).
fn verification(files: &[Value]) -> String {
    let hash = |file: &Value| file["checksums"][0]["checksumValue"].as_str().map(str::to_owned);
    let mut hashes: Vec<String> = files.iter().filter_map(hash).collect();
    hashes.sort_unstable();
    format!("{:x}", Sha1::digest(hashes.concat()))
}

fn package(id: &str, name: &str, version: &str, license: &str) -> Value {
    json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": false,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": license,
        "copyrightText": UNKNOWN,
    })
}

/// What cargo compiles into these packages for Windows, but for the standard library.
fn crates(shell: &Shell, packages: &[&str]) -> Result<Vec<Value>> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let tree = cmd!(shell, "cargo tree --locked --target x86_64-pc-windows-gnu --prefix none")
        .args(["--edges", "normal,no-proc-macro", "--format", "{p}|{l}"])
        .args(packages)
        .quiet()
        .read()?;
    let mut lines: Vec<&str> = tree.lines().filter_map(|line| line.split(" (*)").next()).collect();
    lines.sort_unstable();
    lines.dedup();
    let package = |line: &str| {
        let (package, license) = line.split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let id = format!("SPDXRef-crate-{}", identifier(&format!("{name}-{version}")));
        // cargo's older form of an alternative.
        let mut value = self::package(&id, name, version, &license.replace('/', " OR "));
        let locator = format!("pkg:cargo/{name}@{version}");
        value["externalRefs"] = json!([{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": locator,
        }]);
        Some(value)
    };
    Ok(lines.into_iter().filter_map(package).collect())
}

/// What an identifier may have: letters, digits, `.` and `-`.
fn identifier(name: &str) -> String {
    name.replace(|one: char| !one.is_ascii_alphanumeric() && one != '.', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spdx_rs::models::SPDX;
    use std::time::Duration;

    #[test]
    fn the_files_and_the_crates_of_a_zip_are_listed() {
        let shell = Shell::new().unwrap();
        let date = DateTime::from_unix_duration(Duration::from_secs(1_000_000_000)).unwrap();
        let contents = b"abc".to_vec();
        let files = [File { name: "c/halprof.h".to_owned(), contents }];
        let packages = ["halprof", "halprof-c"];
        let document = document(&shell, "halprof-x64", date, &packages, &files).unwrap();
        let document: SPDX = serde_json::from_slice(&document.contents).unwrap();
        assert_eq!(document.document_creation_information.spdx_version, "SPDX-2.3");
        // FIPS 180's example of each hash.
        let [header] = &document.file_information[..] else { panic!() };
        assert_eq!(header.file_name, "./c/halprof.h");
        let sums: Vec<&str> = header.file_checksum.iter().map(|sum| sum.value.as_str()).collect();
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sums, ["a9993e364706816aba3e25717850c26c9cd0d89d", sha256]);

        let crates = &document.package_information;
        let names: Vec<&str> = crates.iter().map(|one| one.package_name.as_str()).collect();
        for linked in ["halprof-x64", "halprof-events", "clap", "windows-sys"] {
            assert!(names.contains(&linked), "{linked}: {names:?}");
        }
        for not_linked in ["trycmd", "serde_derive", "signal-hook", "xtask"] {
            assert!(!names.contains(&not_linked), "{not_linked}");
        }
        for package in crates {
            let name = &package.package_name;
            assert!(package.declared_license.is_some(), "{name} has a licence in SPDX's syntax");
        }
        let (all, relations) = (crates.len() + 1, document.relationships.len());
        assert_eq!(relations, all, "each crate, the zip and its file");
    }
}
