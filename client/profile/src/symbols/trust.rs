//! Which of the files that a recording, an image or debug information names may be opened.
//!
//! Their paths are untrusted: a path may lead to another machine, which would be given the user's
//! credentials, or to a device. So a path is opened only if it lies below a folder that the user
//! named, or is where the holder of this key recorded that a module was loaded, with no link on the
//! way; and never if it is a UNC or a device path.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Names that Windows opens as devices, whatever their folder or extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// The path as this system opens it, if it names a file of this machine: absolute, without `..`,
/// and neither a UNC nor a device path.
pub(super) fn local(named: &str) -> Option<PathBuf> {
    // What the Windows kernel puts before a drive, and what a canonical path begins with.
    let native = [r"\??\", r"\\?\"]
        .into_iter()
        .find_map(|prefix| named.strip_prefix(prefix))
        .unwrap_or(named);
    if native.contains('\0') || native.starts_with(r"\\") || native.starts_with("//") {
        return None;
    }
    let parts: Vec<&str> = native.split(['/', '\\']).collect();
    let outside = |part: &&str| matches!(*part, "." | "..") || is_device(part);
    if parts.iter().any(outside) {
        return None;
    }
    let path = PathBuf::from(native);
    let plain = |part: Component<'_>| match part {
        Component::Prefix(prefix) => matches!(prefix.kind(), std::path::Prefix::Disk(_)),
        Component::ParentDir | Component::CurDir => false,
        Component::RootDir | Component::Normal(_) => true,
    };
    (path.is_absolute() && path.components().all(plain)).then_some(path)
}

/// Whether Windows opens a device, not a file, for the last component of a path.
pub(super) fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    // Superscript digits make a device too (Microsoft, "Naming Files, Paths, and Namespaces").
    let numbered = |prefix: &str| {
        let rest = stem.get(..3).zip(stem.get(3..));
        rest.is_some_and(|(start, rest)| {
            let mut digits = rest.chars();
            let digit = digits.next().filter(|_| digits.next().is_none());
            start.eq_ignore_ascii_case(prefix)
                && digit.is_some_and(|digit| matches!(digit, '0'..='9' | '¹' | '²' | '³'))
        })
    };
    let mut devices = DEVICES.iter();
    devices.any(|device| device.eq_ignore_ascii_case(stem)) || numbered("COM") || numbered("LPT")
}

/// Whether a part of the path is a link, which whoever can write its folder may have put there since
/// the module was loaded: the paths of loaded modules have none. On Windows a link may lead to another
/// machine.
pub(super) fn has_links(path: &Path) -> bool {
    let is_link =
        |part: &Path| fs::symlink_metadata(part).is_ok_and(|metadata| leads_away(&metadata));
    path.ancestors().any(is_link)
}

#[cfg(windows)]
fn leads_away(metadata: &fs::Metadata) -> bool {
    use std::os::windows::fs::MetadataExt;
    const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
    metadata.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0
}

#[cfg(not(windows))]
fn leads_away(metadata: &fs::Metadata) -> bool {
    metadata.is_symlink()
}

/// A path that lies below a folder by its name, with that folder as this system names it; `None` if it
/// is elsewhere. Nothing is accessed.
pub(super) fn moved_below(path: &Path, folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    let mut parts = path.components();
    let named = folder.components().all(|part| {
        let (a, b) = (parts.next(), part.as_os_str());
        a.is_some_and(|a| a.as_os_str().eq_ignore_ascii_case(b))
    });
    named.then(|| folder.join(parts.as_path()))
}

/// Whether a path lies below a folder, both by its name and after resolving links.
pub(super) fn is_below(path: &Path, folder: &Path) -> bool {
    // A path that is elsewhere by its name is not even accessed.
    let really = || Some(path.canonicalize().ok()?.starts_with(folder.canonicalize().ok()?));
    moved_below(path, folder).is_some() && really().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_anywhere_on_the_way_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a folder");
        fs::create_dir(folder.join("real")).expect("a folder");
        fs::write(folder.join("real/a"), "").expect("written");
        std::os::unix::fs::symlink("real", folder.join("link")).expect("a link");
        for (path, links) in
            [("real/a", false), ("real/none", false), ("link/a", true), ("link", true)]
        {
            assert_eq!(has_links(&folder.join(path)), links, "{path}");
        }
    }

    #[test]
    fn a_path_of_another_machine_or_of_a_device_is_never_local() {
        for named in [
            r"\\host\share\a.pdb",
            r"//host/share/a.pdb",
            r"\\?\UNC\host\share\a.pdb",
            r"\\.\PhysicalDrive0",
            r"\??\UNC\host\share\a.pdb",
            r"\??\\\host\share",
            r"\\?\\\host\share",
            r"\\?\GLOBALROOT\Device\Mup\host\share\a.pdb",
            r"\Device\Mup\host\share\a.pdb",
            r"\Device\HarddiskVolume1\a.pdb",
            "a.pdb",
            "../a.pdb",
            "/tmp/../etc/a",
            "/tmp/./a",
            "/tmp/NUL",
            "/tmp/com1.pdb",
            "/tmp/a\0b",
            "",
        ] {
            assert_eq!(local(named), None, "{named}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn a_drive_is_local_however_its_path_begins() {
        for named in [r"C:\a.pdb", r"\??\C:\a.pdb", r"\\?\C:\a.pdb"] {
            assert_eq!(local(named), Some(PathBuf::from(r"C:\a.pdb")), "{named}");
        }
    }

    #[test]
    fn devices_of_windows_are_known_by_any_name() {
        for name in ["CON", "nul.pdb", "Com1", "lpt9.txt", "aux .x", "COM¹", "conin$"] {
            assert!(is_device(name), "{name}");
        }
        for name in ["console.pdb", "com.pdb", "com10", "lpt", "nullable", ""] {
            assert!(!is_device(name), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_a_folder_is_not_below_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = tempfile::tempdir().expect("a folder");
        let (inside, outside) = (folder.path().join("in"), other.path().join("out"));
        fs::write(&inside, "").expect("written");
        fs::write(&outside, "").expect("written");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).expect("a link");
        assert!(is_below(&inside, folder.path()));
        assert!(!is_below(&link, folder.path()));
        assert!(!is_below(&outside, folder.path()));
        assert!(!is_below(&folder.path().join("gone"), folder.path()));
    }
}
