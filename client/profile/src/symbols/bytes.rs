//! The bytes of a file, as far as they are needed.
//!
//! A file is read, not mapped: a mapped file that somebody shortens ends the process. Whoever reads a
//! table of symbols keeps these bytes for the names in it, so that a name takes no memory of its own,
//! however many symbols have it.

use crate::budget::{self, NAME};
use object::read::{ReadCache, ReadCacheOps, ReadRef};
use std::cell::Cell;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Strings are looked for in blocks of this length, of which each is read once.
const BLOCK: u64 = 1 << 18;

/// What was read of a file.
#[derive(Debug)]
pub(super) struct Bytes {
    cache: ReadCache<Counted>,
    length: u64,
    clear: Cell<Clear>,
}

/// Where no string ends: tables may have the same long string, or its end, for each of their symbols.
#[derive(Clone, Copy, Debug, Default)]
struct Clear {
    delimiter: u8,
    start: u64,
    end: u64,
}

/// A file of which no more is read than it may cost. Sections that share bytes are each read.
#[derive(Debug)]
struct Counted {
    file: File,
    left: u64,
}

impl Bytes {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = open(path)?;
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        let cache = ReadCache::new(Counted { file, left: budget::read(length) });
        Ok(Self { cache, length, clear: Cell::default() })
    }

    /// The length of the file.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// A few bytes of it, which are read with those around them.
    pub(super) fn piece(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let rest = self.block(offset).ok()?;
        rest.get(..usize::try_from(length).ok()?)
    }

    /// The bytes from an offset on, as many as a name may have, and maybe more.
    fn block(&self, offset: u64) -> Result<&[u8], ()> {
        let start = offset / BLOCK * BLOCK;
        let end = start.saturating_add(BLOCK + NAME as u64).min(self.length);
        let block = self.read_bytes_at(start, end.saturating_sub(start))?;
        block.get(usize::try_from(offset - start).map_err(drop)?..).ok_or(())
    }
}

/// Opens a file. A folder, a pipe or a device is refused without being opened: opening a pipe may
/// take for ever, and opening a device may set something off.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let text = |error: io::Error| error.to_string();
    let is_file = |metadata: Metadata| {
        let refused = || "it is not a regular file".to_owned();
        metadata.is_file().then_some(()).ok_or_else(refused)
    };
    is_file(fs::metadata(path).map_err(text)?)?;
    let file = File::open(path).map_err(text)?;
    // It may have been replaced in the meantime.
    is_file(file.metadata().map_err(text)?)?;
    Ok(file)
}

impl<'a> ReadRef<'a> for &'a Bytes {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.cache.read_bytes_at(offset, size)
    }

    /// Returns a string that is longer than any name cut, and none that has no end.
    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let rest = self.block(range.start)?;
        let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(drop)?;
        let rest = rest.get(..length).unwrap_or(rest);
        let name = rest.get(..NAME).unwrap_or(rest);
        let clear = self.clear.get();
        let is_known =
            clear.delimiter == delimiter && (clear.start..=clear.end).contains(&range.start);
        let Clear { start, end, .. } = if is_known {
            clear
        } else {
            Clear { delimiter, start: range.start, end: range.start }
        };
        let known = usize::try_from(end - range.start).map_err(drop)?.min(name.len());
        let found = memchr::memchr(delimiter, name.get(known..).unwrap_or_default());
        let length = found.map_or(name.len(), |found| known + found);
        let end = end.max(range.start + length as u64);
        self.clear.set(Clear { delimiter, start, end });
        if found.is_none() && length < NAME {
            return Err(());
        }
        name.get(..length).ok_or(())
    }
}

impl ReadCacheOps for Counted {
    fn len(&mut self) -> Result<u64, ()> {
        ReadCacheOps::len(&mut self.file)
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        ReadCacheOps::seek(&mut self.file, position)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(())?;
        ReadCacheOps::read(&mut self.file, bytes)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), ()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(())?;
        ReadCacheOps::read_exact(&mut self.file, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_found_across_blocks_and_cut_where_no_name_is_longer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let mut contents = vec![b'a'; 3 * BLOCK as usize];
        let length = contents.len() as u64;
        for end in [10, BLOCK as usize + 100, contents.len() - 50] {
            contents[end] = 0;
        }
        fs::write(&path, &contents).expect("written");
        let bytes = Bytes::open(&path).expect("opened");
        let found =
            |start: u64, end: u64| (&bytes).read_bytes_at_until(start..end, 0).map(<[u8]>::len);
        assert_eq!(found(0, length), Ok(10));
        assert_eq!(found(10, length), Ok(0));
        assert_eq!(found(BLOCK - 100, length), Ok(200));
        assert_eq!(found(11, length), Ok(NAME));
        for (start, end) in
            [(0, 5), (length - 49, length), (length, length), (length + 1, u64::MAX)]
        {
            assert_eq!(found(start, end), Err(()), "{start} {end}");
        }
    }

    #[test]
    fn a_file_is_not_read_again_and_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, vec![7; 1 << 20]).expect("written");
        let bytes = Bytes::open(&path).expect("opened");
        let reads = |from: u64| {
            (0..1 << 10).filter(move |n| {
                let bytes = &bytes;
                bytes.read_bytes_at(from + n, 1 << 19).is_ok()
            })
        };
        assert_eq!(reads(0).count(), 128);
    }

    /// Opening a pipe would wait for a writer.
    #[cfg(unix)]
    #[test]
    fn only_a_regular_file_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        for path in [&pipe, folder.path(), Path::new("/dev/zero")] {
            assert!(open(path).is_err(), "{}", path.display());
        }
    }
}
