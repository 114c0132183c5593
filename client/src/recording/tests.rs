//! Does a recording come back as it was written, and is a damaged one refused?

use super::*;
use proptest::prelude::*;

fn sample(ip: u64) -> Sample {
    Sample {
        ip,
        period: 1000,
        process: 4,
        ..Sample::default()
    }
}

fn recording(samples: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.rec");
    let metadata = Metadata {
        machine: "a model".to_owned(),
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, &metadata).expect("created");
    for ip in 0..samples {
        writer.samples(&[sample(ip)]).expect("written");
    }
    assert!(!path.exists(), "half a recording stands under its name");
    writer
        .finish(&Ending {
            samples,
            ..Ending::default()
        })
        .expect("finished");
    std::fs::read(&path).expect("read")
}

fn reread(bytes: &[u8]) -> (std::result::Result<(Metadata, Ending), Damage>, Vec<u64>) {
    let mut ips = Vec::new();
    let result = read_from(bytes, &mut |_: &Metadata, sample: &Sample| {
        ips.push(sample.ip);
    });
    (result, ips)
}

#[test]
fn what_is_written_is_read() {
    let (result, ips) = reread(&recording(3));
    let (metadata, ending) = result.expect("whole");
    assert_eq!(
        (metadata.machine.as_str(), ending.samples, ips),
        ("a model", 3, vec![0, 1, 2])
    );
}

#[test]
fn a_recording_cut_at_any_byte_is_refused_and_says_what_was_whole() {
    let whole = recording(3);
    let mut most = 0;
    for length in 0..whole.len() {
        let (result, ips) = reread(&whole[..length]);
        match result.expect_err("cut") {
            Damage::Foreign => assert!(length < 8),
            Damage::At { samples, .. } => assert_eq!(samples, ips.len() as u64),
            other => panic!("{other:?} at {length}"),
        }
        most = most.max(ips.len());
    }
    assert_eq!(most, 3);
}

#[test]
fn a_flip_of_any_bit_is_found() {
    let whole = recording(2);
    for byte in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x10;
        assert!(reread(&bytes).0.is_err(), "byte {byte}");
    }
}

#[test]
fn a_hostile_length_allocates_nothing() {
    for length in [PAYLOAD_MAX, PAYLOAD_MAX + 1, u32::MAX] {
        let mut bytes = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &META].concat();
        bytes.extend(length.to_le_bytes());
        bytes.extend([0; 40]);
        assert!(reread(&bytes).0.is_err());
    }
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let path = Path::new("x");
    let (result, _) = reread(b"MZ\x90\x00 something else");
    assert!(
        result
            .expect_err("foreign")
            .of(path)
            .to_string()
            .contains("no recording")
    );
    let mut bytes = recording(0);
    bytes[8] = 2;
    let error = reread(&bytes).0.expect_err("version 2").of(path);
    assert!(error.to_string().contains("version 2") && error.to_string().contains("version 1"));
    assert_eq!(error.exit_status(), 5);
    let mut bytes = recording(1);
    bytes.push(0);
    assert!(reread(&bytes).0.is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (result, _) = reread(&[MAGIC.as_slice(), &VERSION.to_le_bytes(), &bytes].concat());
        prop_assert!(result.is_err());
    }
}
