//! The fields of CodeView's records.

/// What is left of a record, of which each field is taken from the start, the lowest byte first. A
/// field that is not whole is `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// A text that ends with a zero, or with the record.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let length = memchr::memchr(0, self.0).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest.get(1..).unwrap_or_default();
        text
    }

    /// A number that is not negative, of two bytes, or of as many as its first two say (`LF_NUMERIC`,
    /// cvinfo.h).
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.u16()? {
            short @ 0..0x8000 => Some(short.into()),
            0x8000 => self.u8().map(u64::from),
            0x8001 | 0x8002 => self.u16().map(u64::from),
            0x8003 | 0x8004 => self.u32().map(u64::from),
            0x8009 | 0x800A => {
                let (low, high) = (self.u32()?, self.u32()?);
                Some(u64::from(high) << 32 | u64::from(low))
            }
            _ => None,
        }
    }

    /// A number of one to four bytes, as the first bits say (`CVUncompressData`, cvinfo.h).
    pub(super) fn compressed(&mut self) -> Option<u32> {
        let first = u32::from(self.u8()?);
        if first & 0x80 == 0 {
            return Some(first);
        }
        let mut value = if first & 0x40 == 0 { first & 0x3F } else { first & 0x1F };
        let more = match first & 0xE0 {
            0x80 | 0xA0 => 1,
            0xC0 => 3,
            _ => return None,
        };
        for _ in 0..more {
            value = value << 8 | u32::from(self.u8()?);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_length_that_they_say() {
        for (bytes, number) in [
            (&[0xFF, 0x7F][..], Some(0x7FFF)),
            (&[2, 0x80, 0xFF, 0xFF], Some(0xFFFF)),
            (&[4, 0x80, 1, 2, 3, 4], Some(0x0403_0201)),
            (&[10, 0x80, 1, 0, 0, 0, 2, 0, 0, 0], Some(0x2_0000_0001)),
            (&[4, 0x80, 1, 2, 3], None),
            (&[0x1B, 0x80, 1, 2, 3], None),
            (&[0], None),
        ] {
            assert_eq!(Fields(bytes).number(), number, "{bytes:x?}");
        }
        for (bytes, number) in [
            (&[0x7F][..], Some(0x7F)),
            (&[0x81, 0x02], Some(0x102)),
            (&[0xC1, 2, 3, 4], Some(0x0102_0304)),
            (&[0xC1, 2, 3], None),
            (&[0xE0, 0, 0, 0, 0], None),
        ] {
            assert_eq!(Fields(bytes).compressed(), number, "{bytes:x?}");
        }
        let mut fields = Fields(b"ab\0cd");
        assert_eq!(
            (fields.text(), fields.text(), fields.text()),
            (&b"ab"[..], &b"cd"[..], &b""[..])
        );
    }
}
