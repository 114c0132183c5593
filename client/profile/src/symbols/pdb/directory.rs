//! The directory of a PDB: which pages of the file each of its streams has.

use super::fields::Fields;
use std::io::{self, Read, Seek, SeekFrom};

/// How a file of MSF 7 begins (LLVM, "The MSF File Format"). Files of the format before, of 1998, have
/// no GUID, so they are of no build that is recorded.
const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1ADS\0\0\0";

/// The stream with the directory before this one. Nobody reads it, and its pages may have been used
/// again.
const OLD_DIRECTORY: usize = 0;

/// The most streams: their numbers have 16 bits wherever one is named.
const STREAMS_MAX: usize = 1 << 16;

/// The lengths of the streams. A stream is copied when it is read, so all together must not be longer
/// than the file; they are not if no page is named twice.
#[derive(Debug)]
pub(super) struct Directory {
    lengths: Vec<u32>,
}

impl Directory {
    /// Reads and checks it.
    ///
    /// # Errors
    /// A message, if the file is no PDB, or its streams have more pages than the file.
    pub(super) fn read(file: &mut (impl Read + Seek), length: u64) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let damaged = || "it is damaged: its directory is not whole".to_owned();
        let mut header = [0; 52];
        file.rewind().map_err(text)?;
        file.read_exact(&mut header).map_err(|_| "it is no PDB".to_owned())?;
        let rest = header.strip_prefix(MAGIC).ok_or("it is no PDB")?;
        let mut fields = Fields(rest);
        let mut next = || fields.u32().map(u64::from).unwrap_or_default();
        let (page, _free, _pages, directory) = (next(), next(), next(), next());
        if !page.is_power_of_two() || !(0x100..=1 << 23).contains(&page) {
            return Err("it is damaged: its pages have an impossible length".to_owned());
        }
        let mut pages = Pages { page, used: vec![false; length.div_ceil(page) as usize] };
        // The numbers of the pages that have the numbers of the directory's pages follow the header.
        let numbers = directory.div_ceil(page) * 4;
        let mut list = vec![0; numbers.div_ceil(page) as usize * 4];
        if list.len() as u64 > page {
            return Err(damaged());
        }
        file.read_exact(&mut list).map_err(text)?;
        let list = pages.read(file, &list, numbers)?;
        let contents = pages.read(file, &list, directory)?;
        let mut fields = Fields(&contents);
        let count = fields.u32().ok_or_else(damaged)? as usize;
        if count > STREAMS_MAX {
            return Err("it is damaged: it has more streams than there are numbers".to_owned());
        }
        let mut lengths = Vec::with_capacity(count);
        for _ in 0..count {
            // The number of a stream that does not exist is as good as one without bytes.
            let length = fields.u32().ok_or_else(damaged)?;
            lengths.push(if length == u32::MAX { 0 } else { length });
        }
        for (stream, &length) in lengths.iter().enumerate() {
            for _ in 0..u64::from(length).div_ceil(page) {
                let number = fields.u32().ok_or_else(damaged)?;
                if stream != OLD_DIRECTORY {
                    pages.take(number)?;
                }
            }
        }
        file.rewind().map_err(text)?;
        Ok(Self { lengths })
    }

    /// The length of a stream; 0 if there is none.
    pub(super) fn length(&self, stream: u16) -> u32 {
        self.lengths.get(usize::from(stream)).copied().unwrap_or(0)
    }
}

/// The pages of a file, and which of them are taken.
struct Pages {
    page: u64,
    used: Vec<bool>,
}

impl Pages {
    fn take(&mut self, number: u32) -> Result<(), String> {
        let used = self.used.get_mut(number as usize);
        let used = used.ok_or("it is damaged: it is shorter than its streams are together")?;
        if std::mem::replace(used, true) {
            return Err("it is damaged: its streams share pages".to_owned());
        }
        Ok(())
    }

    /// Reads `length` bytes from the pages with these numbers, of four bytes each.
    fn read(
        &mut self,
        file: &mut (impl Read + Seek),
        numbers: &[u8],
        length: u64,
    ) -> Result<Vec<u8>, String> {
        let text = |error: io::Error| error.to_string();
        let (numbers, _) = numbers.as_chunks::<4>();
        let mut contents = Vec::new();
        for number in numbers.iter().map(|number| u32::from_le_bytes(*number)) {
            self.take(number)?;
            file.seek(SeekFrom::Start(u64::from(number) * self.page)).map_err(text)?;
            let left = length.saturating_sub(contents.len() as u64);
            file.take(left.min(self.page)).read_to_end(&mut contents).map_err(text)?;
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A file of pages of 256 bytes: the header, the list of the directory's pages, the directory, and
    /// three pages of streams.
    fn read(streams: &[(u32, &[u32])]) -> Result<Directory, String> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut directory = vec![streams.len() as u32];
        directory.extend(streams.iter().map(|(length, _)| *length));
        directory.extend(streams.iter().flat_map(|(_, pages)| pages.iter()));
        let directory: Vec<u8> = words(&directory);
        let mut pages = vec![vec![0; 256]; 6];
        pages[0] = [&MAGIC[..], &words(&[256, 1, 6, directory.len() as u32, 0, 1])].concat();
        pages[1] = words(&[2]);
        pages[2] = directory;
        for page in &mut pages {
            page.resize(256, 0);
        }
        let file = pages.concat();
        Directory::read(&mut Cursor::new(&file), file.len() as u64)
    }

    #[test]
    fn a_page_is_of_one_stream() {
        let whole = read(&[(9, &[3]), (300, &[3, 4]), (u32::MAX, &[]), (256, &[5])]);
        let whole = whole.expect("the directory before may have any pages");
        assert_eq!([0, 1, 2, 3, 4].map(|stream| whole.length(stream)), [9, 300, 0, 256, 0]);
        for (streams, why) in [
            (&[(0, &[][..]), (300, &[3, 3])][..], "share"),
            (&[(0, &[]), (300, &[3, 4]), (1, &[4])], "share"),
            (&[(0, &[]), (1, &[2])], "share"),
            (&[(0, &[]), (1, &[6])], "shorter"),
            (&[(0, &[]), (u32::MAX - 1, &[3, 4, 5])], "whole"),
        ] {
            let error = read(streams).expect_err("refused");
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_pdb_is_refused() {
        for file in [&b""[..], MAGIC, &[0; 4096], &[&MAGIC[..], &[0xFF; 200]].concat()] {
            assert!(Directory::read(&mut Cursor::new(file), file.len() as u64).is_err());
        }
    }
}
