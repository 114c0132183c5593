//! Complete dumps, and dumps broken in every way.

use super::*;
use proptest::prelude::*;

const INTEL: &str = "CPUID 00000000: 00000001-756E6547-6C65746E-49656E69\n";
const AMD: &str = "CPUID 00000000: 00000001-68747541-444D4163-69746E65\n";

fn leaf1(apic_id: u8) -> String {
    format!("CPUID 00000001: 000506E3-{apic_id:02X}100800-7FFAFBFF-BFEBFBFF\n")
}

fn processors(text: &str) -> Result<usize, DumpError> {
    parse(text.as_bytes()).map(|machine| machine.len())
}

#[test]
fn blocks_make_processors() {
    let one = format!("{INTEL}{}", leaf1(0));
    let two = leaf1(2);
    for (text, expected) in [
        (one.clone(), 1),
        (format!("{one}\n{one}"), 2),
        (format!("CPU#000 AffMask: 1\n{one}\nCPU#001 AffMask: 2\n{one}"), 2),
        (format!("CPU#000\n{one}CPU#000\n{one}"), 1),
        (format!("CPU#000\n{one}CPU#000\n{INTEL}{two}"), 2),
        (format!("CPU#000\n{one}{INTEL}{two}"), 2),
        (
            format!(
                "CPU#000\n{one}CPU#001\n{INTEL}{two}------[ MSR Registers / Logical CPU #0 ]------\n"
            ),
            2,
        ),
        (format!("CPU 0:\n{one}CPU 0:\nCPUID 40000000: 40000006-7263694D-666F736F-76482074\n"), 1),
    ] {
        assert_eq!(processors(&text), Ok(expected), "{text}");
    }
}

#[test]
fn a_second_section_adds_what_was_missing() {
    let text = format!(
        "CPU#000\n{INTEL}{}CPU#000\nCPUID 40000001: 31237648-00000000-00000000-00000000\n",
        leaf1(0)
    );
    let machine = parse(text.as_bytes()).expect("a dump");
    assert_eq!(machine[0].get(0x40000001, 0).eax, 0x31237648);
}

#[test]
fn unmarked_subleaves_are_counted() {
    let text = format!(
        "{INTEL}{}CPUID 00000004: 1C004121-01C0003F-0000003F-00000000\n\
         CPUID 00000004: 1C004122-00C0003F-0000007F-00000000\n\
         CPUID 00000007: 00000000-029C67AF-00000000-00000000\n",
        leaf1(0)
    );
    let machine = parse(text.as_bytes()).expect("a dump");
    assert_eq!(machine[0].get(4, 0).eax, 0x1C004121);
    assert_eq!(machine[0].get(4, 1).eax, 0x1C004122);
    assert_eq!(machine[0].get(7, 1).ebx, 0, "sub-leaf 0 does not answer for sub-leaf 1");
}

#[test]
fn the_raw_form() {
    let text = "CPU 0:\n   \
        0x00000000 0x00: eax=0x0000000a ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69\n   \
        0x00000001 0x00: eax=0x000506e3 ebx=0x00100800 ecx=0x7ffafbff edx=0xbfebfbff\n   \
        0x0000000a 0x00: eax=0x07300804 ebx=0x00000000 ecx=0x00000000 edx=0x00000603\n";
    let machine = parse(text.as_bytes()).expect("a dump");
    assert_eq!(machine.len(), 1);
    assert_eq!(machine[0].get(0xA, 0).edx, 0x603);
    assert_eq!(machine[0].get(0, 0).ecx, 0x6C65746E);
    let cut = format!("{text}   0x0000000b 0x");
    assert_eq!(processors(&cut), Err(DumpError::Truncated(5)));
}

#[test]
fn encodings_and_line_ends_do_not_matter() {
    let text =
        format!("{INTEL}{}CPU#001 \u{b5}\n{INTEL}{}", leaf1(0), leaf1(2)).replace('\n', "\r\n");
    let latin1: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let le = |mark: &[u8]| {
        [mark.to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat()
    };
    let be = |mark: &[u8]| {
        [mark.to_vec(), text.encode_utf16().flat_map(u16::to_be_bytes).collect()].concat()
    };
    let utf8 = [b"\xEF\xBB\xBF".to_vec(), text.clone().into_bytes()].concat();
    for bytes in [latin1.clone(), utf8, le(b"\xFF\xFE"), le(b""), be(b"\xFE\xFF"), be(b"")] {
        assert_eq!(parse(&bytes), parse(&latin1));
        assert_eq!(parse(&bytes).map(|machine| machine.len()), Ok(2));
    }
}

#[test]
fn broken_dumps_say_where() {
    let one = leaf1(0);
    let many = format!("{INTEL}{one}").repeat(2049);
    for (text, expected) in [
        (String::new(), DumpError::Empty),
        (" \r\n\t".into(), DumpError::Empty),
        ("\u{7f}ELF\0\0\u{1}".into(), DumpError::Binary),
        ("hello\n".into(), DumpError::NoCpuidLine),
        ("\nCPU#000 AffMask\n".into(), DumpError::NoProcessor(2)),
        (
            format!("{INTEL}CPUID 00000001: 000506E3-00100800-7FFAFBFF\n{one}"),
            DumpError::Malformed(2),
        ),
        (format!("{INTEL}CPUID 00000001: 000506E3-0010"), DumpError::Truncated(2)),
        (one.clone(), DumpError::MissingLeaf { line: 1, processor: 0, leaf: 0 }),
        (
            format!("CPU#000\n{INTEL}{one}CPU#001\n{one}"),
            DumpError::MissingLeaf { line: 4, processor: 1, leaf: 0 },
        ),
        (format!("{INTEL}{one}{INTEL}"), DumpError::MissingLeaf { line: 3, processor: 1, leaf: 1 }),
        (
            format!("{INTEL}{one}CPUID 0000000A: 07300804-0-0-0\n")
                .replace("-0-0-0", "-00000000-00000000-00000603")
                + "CPUID 0000000A: 07300404-00000000-00000000-00000603\n",
            DumpError::Contradiction { line: 4, first: 3, leaf: 0xA, subleaf: 0 },
        ),
        (many, DumpError::TooManyProcessors(4097)),
        (format!("{INTEL}{one}{AMD}{one}"), DumpError::Vendors { line: 3, processor: 1 }),
    ] {
        assert_eq!(processors(&text), Err(expected));
        assert!(!expected.hint().is_empty());
    }
}

#[test]
fn what_changes_from_call_to_call_is_no_contradiction() {
    let text = format!("{INTEL}{}{}", leaf1(0), leaf1(6));
    assert_eq!(processors(&text), Ok(1));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn damaged_dumps_never_panic(at in 0_usize..120, byte in any::<u8>(), cut in 0_usize..240) {
        let mut bytes = format!("CPU#000\n{INTEL}{}CPU 1:\n{INTEL}{}", leaf1(0), leaf1(1)).into_bytes();
        bytes[at] = byte;
        bytes.truncate(cut);
        let _ = parse(&bytes);
    }
}
