//! The manifests from which winget and Scoop install the tool alone: templates in
//! `client/tool/packaging`, with the version and the hash of its zip filled in.

use super::archive::File;
use anyhow::Result;
use xshell::Shell;

const FOLDER: &str = "client/tool/packaging";
const TEMPLATES: [&str; 4] = [
    "winget/halprof.yaml",
    "winget/halprof.locale.en-US.yaml",
    "winget/halprof.installer.yaml",
    "scoop/halprof.json",
];

/// The manifests; who publishes them, and where, is left open.
pub(super) fn filled(shell: &Shell, version: &str, sha256: &str) -> Result<Vec<File>> {
    let fill = |name: &&str| {
        let text = shell.read_file(format!("{FOLDER}/{name}"))?;
        let contents = text.replace("SHA256", sha256).replace("VERSION", version);
        Ok(File { name: (*name).to_owned(), contents: contents.into_bytes() })
    };
    TEMPLATES.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use yaml_rust2::{Yaml, YamlLoader};

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn manifests() -> [String; 4] {
        let shell = Shell::new().unwrap();
        shell.change_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let files = filled(&shell, "1.2.3", HASH).unwrap();
        let texts = files.into_iter().map(|file| String::from_utf8(file.contents).unwrap());
        texts.collect::<Vec<_>>().try_into().unwrap()
    }

    /// The required fields of winget's schemas for a portable program in a zip.
    #[test]
    fn wingets_manifests_have_what_its_schemas_require() {
        let [version, locale, installer, _] = manifests();
        let parsed = [version, locale, installer].map(|text| {
            assert!(text.lines().next().unwrap().contains("has not been run"), "{text}");
            YamlLoader::load_from_str(&text).unwrap().remove(0)
        });
        let required: [&[&str]; 3] = [
            &["DefaultLocale"],
            &["PackageLocale", "Publisher", "PackageName", "License", "ShortDescription"],
            &["Installers"],
        ];
        let types = ["version", "defaultLocale", "installer"];
        for ((manifest, required), kind) in parsed.iter().zip(required).zip(types) {
            assert_eq!(manifest["PackageVersion"], Yaml::String("1.2.3".to_owned()));
            assert_eq!(manifest["ManifestType"], Yaml::String(kind.to_owned()));
            assert_eq!(manifest["PackageIdentifier"], parsed[0]["PackageIdentifier"]);
            assert!(required.iter().all(|field| !manifest[*field].is_badvalue()), "{manifest:?}");
        }
        let installer = &parsed[2];
        assert_eq!(installer["Scope"].as_str(), Some("user"));
        let tool = &installer["Installers"][0];
        for (field, value) in [
            ("Architecture", "x64"),
            ("InstallerType", "zip"),
            ("NestedInstallerType", "portable"),
            ("InstallerUrl", "ORIGIN/halprof-1.2.3-x64.zip"),
            ("InstallerSha256", HASH),
        ] {
            assert_eq!(tool[field].as_str(), Some(value));
        }
        let nested = &tool["NestedInstallerFiles"][0];
        assert_eq!(nested["RelativeFilePath"].as_str(), Some("halprof.exe"));
        assert_eq!(nested["PortableCommandAlias"].as_str(), Some("halprof"));
        assert_eq!(installer["Dependencies"], Yaml::BadValue, "no driver");
    }

    #[test]
    fn scoops_manifest_has_what_its_schema_requires() {
        let [.., text] = manifests();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        assert!(manifest["##"].as_str().unwrap().contains("has not been run"));
        assert_eq!(manifest["version"], "1.2.3");
        assert_eq!(manifest["bin"], "halprof.exe");
        assert!(manifest["homepage"].is_string() && manifest["license"].is_string());
        let program = &manifest["architecture"]["64bit"];
        assert_eq!(program["url"], "ORIGIN/halprof-1.2.3-x64.zip");
        assert_eq!(program["hash"], HASH);
    }
}
