//! Checks what halprof is built from: crates of crates.io, under licences that ask for no more than to be
//! shown, in versions without a known fault, that need no newer Rust than the workspace promises.
//!
//! The check downloads only what every build needs: the advisories that matter are listed in a file here.

use anyhow::{Context, Result, ensure};
use semver::{Version, VersionReq};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};
use xshell::{Shell, cmd};

const ADVISORIES: &str = include_str!("dependencies/advisories.csv");
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that any part of halprof may have.
const PERMISSIVE: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates with other licences, which are in no product: the emulator that runs halprof.sys in tests, and
/// what writes the header of the C library.
const OF_TESTS: [&str; 3] = ["cbindgen", "unicorn-engine", "unicorn-engine-sys"];

/// Crates of the driver alone, which promises a newer Rust than the rest.
const OF_DRIVER: [&str; 2] = ["halprof-driver", "wdk-build"];

/// What is shipped.
const PRODUCTS: [&str; 3] = ["halprof", "halprof-c", "halprof-driver"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Version,
    license: Option<String>,
    /// `None` for those of this repository.
    source: Option<String>,
    /// The oldest Rust that builds it, if it says so.
    rust_version: Option<String>,
}

/// A row of the list.
#[derive(Deserialize)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    name: String,
    /// Requirements of Cargo, `|` between alternatives.
    unaffected: String,
    what: String,
    #[serde(rename = "kept because")]
    kept_because: String,
}

impl Advisory {
    fn is_about(&self, package: &Package) -> Result<bool> {
        if package.name != self.name || !self.kept_because.is_empty() {
            return Ok(false);
        }
        for one in self.unaffected.split('|').filter(|one| !one.is_empty()) {
            let one: VersionReq = one.parse().with_context(|| self.id.clone())?;
            if one.matches(&package.version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Checks all packages of Cargo.lock.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let metadata = cmd!(shell, "cargo metadata --format-version 1 --locked").quiet().read()?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let products = PRODUCTS.iter().flat_map(|package| ["--package", package]);
    let tree = cmd!(shell, "cargo tree --locked --target all --prefix none --edges normal")
        .args(["--format", "{p}"])
        .args(products)
        .quiet()
        .read()?;
    let shipped: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let mut wrong = wrong(&metadata.packages, &shipped, &advisories(ADVISORIES)?)?;
    wrong.extend(too_new(&metadata.packages)?);
    ensure!(wrong.is_empty(), "what halprof is built from:\n{}", wrong.join("\n"));
    Ok(())
}

/// What is wrong with packages, of which those with some names are shipped.
fn wrong(packages: &[Package], shipped: &[&str], advisories: &[Advisory]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for package in packages {
        let Package { name, version, license, source, .. } = package;
        let license = license.as_deref().unwrap_or("none");
        let is_of_tests = OF_TESTS.contains(&&**name) && !shipped.contains(&&**name);
        if !is_permissive(license) && !is_of_tests {
            wrong.push(format!("{name} {version}: its licence is {license}"));
        }
        if source.as_deref().is_some_and(|source| source != CRATES_IO) {
            wrong.push(format!("{name} {version}: it is not from crates.io"));
        }
        for advisory in advisories {
            if advisory.is_about(package)? {
                wrong.push(format!("{name} {version}: {} ({})", advisory.what, advisory.id));
            }
        }
    }
    Ok(wrong)
}

/// Packages that need a newer Rust than the workspace's `rust-version`, the tool's.
fn too_new(packages: &[Package]) -> Result<Vec<String>> {
    let tool = packages.iter().find(|package| package.name == "halprof").context("no tool")?;
    let promised = tool.rust_version.as_deref().context("halprof promises no Rust")?;
    let most = numbers(promised);
    let needs = |package: &Package| {
        let needed = package.rust_version.as_deref()?;
        let is_too_new = numbers(needed) > most && !OF_DRIVER.contains(&&*package.name);
        is_too_new.then(|| {
            let Package { name, version, .. } = package;
            format!(
                "{name} {version}: it needs Rust {needed}, and `rust-version` promises {promised}"
            )
        })
    };
    Ok(packages.iter().filter_map(needs).collect())
}

/// The numbers of a version, which may lack its last ones.
fn numbers(version: &str) -> [u64; 3] {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

fn advisories(text: &str) -> Result<Vec<Advisory>> {
    let mut rows = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    rows.deserialize().collect::<csv::Result<_>>().context("dependencies/advisories.csv")
}

/// Whether one can choose licences that are all permissive. Before SPDX, Cargo wrote `/` for `OR`.
fn is_permissive(expression: &str) -> bool {
    let expression = Expression::parse_mode(expression, ParseMode::LAX);
    let is_listed = |one: &LicenseReq| PERMISSIVE.contains(&&*one.to_string());
    expression.is_ok_and(|expression| expression.evaluate(is_listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: version.parse().unwrap(),
            license: Some(license.to_owned()),
            source: Some(CRATES_IO.to_owned()),
            rust_version: None,
        }
    }

    #[test]
    fn a_licence_is_permissive_if_one_can_choose_so() {
        for (expression, permissive) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
            ("GPL-2.0-only OR Apache-2.0", true),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT OR Zlib AND GPL-3.0", true),
            ("(MIT OR Zlib) AND GPL-3.0", false),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("MPL-2.0", false),
            ("MIT Zlib", false),
            ("(MIT", false),
            ("none", false),
            ("", false),
        ] {
            assert_eq!(is_permissive(expression), permissive, "{expression}");
        }
    }

    #[test]
    fn a_package_is_refused_for_its_licence_its_source_or_a_known_fault() {
        let list = "# a comment\nid,crate,unaffected,what,kept because\n\
                    A-1,a,>=1.2|<1.0,burns,\nA-2,b,,nobody has it,only a test has it\nA-3,c,,rots,\n";
        let advisories = advisories(list).unwrap();
        let foreign =
            Package { source: Some("git+https://a".to_owned()), ..package("g", "1.0.0", "MIT") };
        for (package, shipped, word) in [
            (package("a", "1.2.0", "MIT"), "", None),
            (package("a", "0.9.9", "MIT"), "", None),
            (package("a", "1.1.9", "MIT"), "", Some("A-1")),
            (package("b", "1.0.0", "MIT"), "b", None),
            (package("c", "1.0.0", "MIT"), "", Some("A-3")),
            (package("d", "1.0.0", "GPL-3.0"), "", Some("GPL-3.0")),
            (package("cbindgen", "1.0.0", "MPL-2.0"), "", None),
            (package("cbindgen", "1.0.0", "MPL-2.0"), "cbindgen", Some("MPL-2.0")),
            (foreign, "", Some("crates.io")),
        ] {
            let name = package.name.clone();
            let wrong = wrong(&[package], &[shipped], &advisories).unwrap();
            assert_eq!(wrong.len(), usize::from(word.is_some()), "{name}: {wrong:?}");
            assert!(word.is_none_or(|word| wrong[0].contains(word)), "{wrong:?}");
        }
    }

    #[test]
    fn a_package_that_needs_a_newer_rust_is_refused() {
        let needing = |name: &str, rust_version: Option<&str>| Package {
            rust_version: rust_version.map(str::to_owned),
            ..package(name, "1.0.0", "MIT")
        };
        let tool = || needing("halprof", Some("1.88"));
        for (name, rust_version, is_refused) in [
            ("a", None, false),
            ("a", Some("1.9"), false),
            ("a", Some("1.88"), false),
            ("a", Some("1.88.0"), false),
            ("a", Some("1.88.1"), true),
            ("a", Some("1.89"), true),
            ("a", Some("2.0"), true),
            ("wdk-build", Some("1.91"), false),
        ] {
            let wrong = too_new(&[tool(), needing(name, rust_version)]).unwrap();
            assert_eq!(!wrong.is_empty(), is_refused, "{name} {rust_version:?}");
        }
        assert!(too_new(&[needing("halprof", None)]).is_err());
    }

    #[test]
    fn the_list_can_be_read() {
        let advisories = advisories(ADVISORIES).unwrap();
        assert!(
            advisories.iter().all(|one| one.id.starts_with("RUSTSEC-2") && !one.what.is_empty())
        );
    }
}
