//! INF files: the name of the package's own, and for which hardware one has a driver.

/// The name of the INF file in the package.
pub const INF: &str = "halprof.inf";

/// Whether an INF file has a driver for this hardware id.
///
/// An INF file is UTF-16 with a byte-order mark, or ANSI. The id is in a models section, after the
/// name of the install section: `%Device% = Install, Root\halprof`.
pub fn serves(inf: &[u8], hardware_id: &str) -> bool {
    let text = text_of(inf);
    text.lines()
        .filter_map(|line| line.split(';').next()?.split_once('='))
        .flat_map(|(_, value)| value.split(',').skip(1))
        .any(|id| id.trim().eq_ignore_ascii_case(hardware_id))
}

fn text_of(inf: &[u8]) -> String {
    let Some(wide) = inf.strip_prefix(&[0xFF, 0xFE]) else {
        return String::from_utf8_lossy(inf).into_owned();
    };
    let units = wide.chunks_exact(2).map(|pair| match pair {
        [low, high] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    });
    char::decode_utf16(units)
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared_types::device::HARDWARE_ID;

    const OURS: &str = "[Version]\r\nSignature=\"$WINDOWS NT$\"\r\nCatalogFile=halprof.cat\r\n\
        [Models.NTamd64.10.0...19041]\r\n%Device% = Install, root\\HALPROF ; a comment\r\n";

    fn utf16(text: &str) -> Vec<u8> {
        [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    }

    #[test]
    fn an_install_file_of_ours_is_known_in_both_encodings() {
        assert!(serves(OURS.as_bytes(), HARDWARE_ID));
        assert!(serves(&utf16(OURS), HARDWARE_ID));
        let second = OURS.replace("root\\HALPROF", "Root\\other, Root\\halprof");
        assert!(serves(second.as_bytes(), HARDWARE_ID));
    }

    #[test]
    fn an_install_file_of_others_is_not() {
        for other in [
            OURS.replace("root\\HALPROF", "Root\\halprof2"),
            OURS.replace("root\\HALPROF", "Root\\Other ; not Root\\halprof"),
            OURS.replace("= Install, root", "; = Install, root"),
            OURS.replace("Install, ", ""),
            String::new(),
        ] {
            assert!(!serves(other.as_bytes(), HARDWARE_ID), "{other}");
            assert!(!serves(&utf16(&other), HARDWARE_ID), "{other}");
        }
        assert!(!serves(&[0xFF, 0xFE, 0x41], HARDWARE_ID));
    }
}
