//! Converts paths in the form of the Windows kernel to paths that programs can open.

/// A drive, such as `C:`, and the device behind it, such as `\Device\HarddiskVolume3`.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The drive, without a separator at its end.
    pub drive: String,
    /// The device, without one either.
    pub device: String,
}

/// Prefixes of a path that stand for the Windows folder.
const ROOTS: [&str; 2] = ["\\SystemRoot\\", "%SystemRoot%\\"];

/// The path in a form that programs can open. A relative path is below `windows`, the Windows
/// folder; a path on none of the volumes is unchanged.
pub fn on_disk(native: &str, windows: &str, volumes: &[Volume]) -> String {
    // What follows may also be `UNC\` or a volume's GUID, which do not open without their prefix.
    if let Some(rest) = behind(native, "\\??\\").filter(|rest| has_drive(rest)) {
        return rest.to_owned();
    }
    if let Some(rest) = ROOTS.iter().find_map(|root| behind(native, root)) {
        return format!("{windows}\\{rest}");
    }
    let of_volume = |volume: &Volume| {
        let rest = behind(native, &volume.device)?;
        // HarddiskVolume1 is also how HarddiskVolume12 begins.
        rest.starts_with('\\').then(|| format!("{}{rest}", volume.drive))
    };
    if let Some(path) = volumes.iter().find_map(of_volume) {
        return path;
    }
    let is_relative = !native.is_empty() && !native.starts_with('\\') && !has_drive(native);
    if is_relative {
        return format!("{windows}\\{native}");
    }
    native.to_owned()
}

/// The rest of a path after a prefix, which matches in any case.
fn behind<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = path.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn has_drive(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_path_becomes_one_that_opens() {
        let volume = |drive: &str, device: &str| Volume {
            drive: drive.to_owned(),
            device: device.to_owned(),
        };
        let volumes =
            [volume("C:", r"\Device\HarddiskVolume1"), volume("D:", r"\Device\HarddiskVolume12")];
        for (native, path) in [
            (r"\SystemRoot\System32\ntoskrnl.exe", r"E:\Win\System32\ntoskrnl.exe"),
            (r"\systemroot\a.sys", r"E:\Win\a.sys"),
            (r"%SystemRoot%\a.sys", r"E:\Win\a.sys"),
            (r"System32\drivers\a.sys", r"E:\Win\System32\drivers\a.sys"),
            (r"\??\C:\a\b.sys", r"C:\a\b.sys"),
            (r"\Device\HarddiskVolume1\a.sys", r"C:\a.sys"),
            (r"\DEVICE\harddiskvolume12\a.sys", r"D:\a.sys"),
            (r"C:\a.sys", r"C:\a.sys"),
            // A path that is on no drive is unchanged: nothing will open it.
            (r"\Device\HarddiskVolume3\a.sys", r"\Device\HarddiskVolume3\a.sys"),
            (r"\Device\Mup\host\share\a.sys", r"\Device\Mup\host\share\a.sys"),
            (r"\??\UNC\host\share\a.sys", r"\??\UNC\host\share\a.sys"),
            (r"\??\Volume{1}\a.sys", r"\??\Volume{1}\a.sys"),
            ("", ""),
            ("é", r"E:\Win\é"),
        ] {
            assert_eq!(on_disk(native, r"E:\Win", &volumes), path, "{native}");
        }
    }
}
