//! Is the driver's binary fit to enter the kernel? Judged only from `halprof.sys` and its PDB.
//!
//! Every check returns what it refuses, and is seen to refuse a copy of the image in which the
//! relevant bytes are changed.
//!
//! | module | asks |
//! |---|---|
//! | `headers` | subsystem, protections, sections, guarded functions, no build-machine path |
//! | `imports` | is every import on the list, and every export? |
//! | `instructions` | which instructions are privileged, and is every indirect branch guarded? |
//! | `linked` | checksum, security cookie, the symbols' name, no path in them |
//! | `reach` | what can code reach that Windows calls at a raised IRQL? |
//! | `registers` | which register numbers can reach RDMSR and WRMSR? |
//! | `stack` | how deep can each entry's stack get? |

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

/// The findings of a check, in words.
type Refusals = Vec<String>;

/// The driver's image, if it has been built.
fn image() -> Option<Image> {
    let folder = driver::folder()?;
    Some(Image::read(&folder.join("halprof.sys"), &folder.join("halprof.pdb")))
}

fn accepted(check: impl Fn(&Image) -> Refusals) {
    let Some(image) = image() else {
        return;
    };
    let refusals = check(&image);
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
}

/// The check must refuse a changed copy, with a message that contains these words.
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

/// Writes `bytes` over what the loader places at `address`.
fn overwrite(image: &Image, file: &mut [u8], address: u32, bytes: &[u8]) {
    let at = image.offset(address);
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
