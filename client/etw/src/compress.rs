//! Compressed buffers: plain LZ77 of the Xpress Compression Algorithm (\[MS-XCA\], 2.4).

use crate::bytes::{Fields, PointerSize};

/// The compressed bytes, with what the format keeps beside them.
struct Input<'a> {
    rest: Fields<'a>,
    /// The byte whose high half is the next length of four bits.
    half: Option<u8>,
}

impl Input<'_> {
    /// A length of four bits: two of them share a byte, the later one its high half.
    fn nibble(&mut self) -> Option<u8> {
        if let Some(byte) = self.half.take() {
            return Some(byte >> 4);
        }
        let byte = self.rest.u8()?;
        self.half = Some(byte);
        Some(byte & 15)
    }

    /// The distance and length of a match.
    fn reference(&mut self) -> Option<(usize, usize)> {
        let word = usize::from(self.rest.u16()?);
        let mut length = word & 7;
        if length == 7 {
            length += self.long_length()?;
        }
        Some(((word >> 3) + 1, length + 3))
    }

    fn long_length(&mut self) -> Option<usize> {
        let short = self.nibble()?;
        if short < 15 {
            return Some(usize::from(short));
        }
        let byte = self.rest.u8()?;
        if byte < 255 {
            return Some(15 + usize::from(byte));
        }
        let length = match self.rest.u16()? {
            0 => self.rest.u32()? as usize,
            length => usize::from(length),
        };
        // The long forms include the 7 and the 15 that the short ones reached before.
        length.checked_sub(7 + 15).map(|length| length + 15)
    }
}

/// Decompresses up to `length` bytes to the end of `output`, and returns whether they are all there.
/// What precedes a damaged or missing byte is kept.
pub fn xpress(input: &[u8], length: usize, output: &mut Vec<u8>) -> bool {
    let begin = output.len();
    let end = begin + length;
    let mut input = Input { rest: Fields::new(input, PointerSize::Eight), half: None };
    while output.len() < end {
        let Some(flags) = input.rest.u32() else {
            return false;
        };
        for bit in (0..32).rev() {
            if output.len() >= end {
                break;
            }
            let is_match = flags >> bit & 1 != 0;
            let step = if is_match {
                copy(&mut input, output, begin, end)
            } else {
                input.rest.u8().map(|byte| output.push(byte))
            };
            if step.is_none() {
                return false;
            }
        }
    }
    true
}

fn copy(input: &mut Input<'_>, output: &mut Vec<u8>, begin: usize, end: usize) -> Option<()> {
    let (distance, length) = input.reference()?;
    let from = output.len().checked_sub(distance).filter(|&from| from >= begin)?;
    let length = length.min(end - output.len());
    if distance >= length {
        output.extend_from_within(from..from + length);
    } else {
        // The match repeats bytes that it makes.
        for at in from..from + length {
            output.push(output[at]);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two examples of \[MS-XCA\], 3.1.
    #[test]
    fn the_documents_examples_are_decompressed() {
        let mut alphabet = vec![0x3F, 0, 0, 0];
        alphabet.extend(b"abcdefghijklmnopqrstuvwxyz");
        let mut output = Vec::new();
        assert!(xpress(&alphabet, 26, &mut output));
        assert_eq!(output, b"abcdefghijklmnopqrstuvwxyz");

        let repeated =
            [0xFF, 0xFF, 0xFF, 0x1F, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0F, 0xFF, 0x26, 0x01];
        let mut output = b"before".to_vec();
        assert!(xpress(&repeated, 300, &mut output));
        assert_eq!(output[6..], b"abc".repeat(100));
    }

    #[test]
    fn damage_ends_it_with_what_came_before() {
        let mut output = b"before".to_vec();
        // Two literals, then a match that reaches back four bytes.
        let input = [0, 0, 0, 0x20, b'a', b'b', 0x18, 0];
        assert!(!xpress(&input, 10, &mut output));
        assert_eq!(output, b"beforeab");
        for cut in 0..input.len() {
            output.clear();
            assert!(!xpress(&input[..cut], 10, &mut output));
        }
    }

    #[test]
    fn a_match_is_no_longer_than_what_was_announced() {
        // A literal, then a match of 0xFFFFFFFF bytes at distance 1.
        let input = [0xFF, 0xFF, 0xFF, 0x7F, b'a', 7, 0, 15, 255, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        let mut output = Vec::new();
        assert!(xpress(&input, 100, &mut output));
        assert_eq!(output, [b'a'; 100]);
    }
}
