//! Is the driver's binary what may enter the kernel? Judged from `halprof.sys` and its PDB alone.
//!
//! Every check answers what it refuses, and is seen refusing a copy of the image in which the
//! bytes are changed that it is about.
//!
//! | module | asks |
//! |---|---|
//! | `headers` | subsystem, protections, sections, guarded functions, no path of the build machine |
//! | `imports` | is every import on the list, and every export? |
//! | `instructions` | which privileged instructions are there, is every indirect branch guarded? |
//! | `linked` | checksum, security cookie, the symbols' name, no path in them |
//! | `reach` | what can the code reach that Windows calls at a raised IRQL? |
//! | `registers` | which numbers can RDMSR and WRMSR be given? |
//! | `stack` | how deep does each entry go at most? |

mod code;
mod entries;
mod headers;
mod image;
mod imports;
mod instructions;
mod linked;
mod reach;
mod registers;
mod stack;

use halprof_tests::driver;
use image::Image;

/// What a check refuses, in words.
type Refusals = Vec<String>;

/// The driver's image, where it is built.
fn image() -> Option<Image> {
    let folder = driver::folder()?;
    Some(Image::read(
        &folder.join("halprof.sys"),
        &folder.join("halprof.pdb"),
    ))
}

fn accepted(check: impl Fn(&Image) -> Refusals) {
    let Some(image) = image() else {
        return;
    };
    let refusals = check(&image);
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
}

/// The check must refuse a changed copy, with these words.
fn refused(
    check: impl Fn(&Image) -> Refusals,
    words: &str,
    change: impl FnOnce(&Image, &mut Vec<u8>),
) {
    let Some(image) = image() else {
        return;
    };
    let refusals = check(&image.changed(change));
    let found = refusals.iter().any(|refusal| refusal.contains(words));
    assert!(found, "nothing says `{words}`:\n{}", refusals.join("\n"));
}

/// Writes `bytes` over what the loader puts at `address`.
fn overwrite(image: &Image, file: &mut [u8], address: u32, bytes: &[u8]) {
    let at = image.offset(address);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
