//! Columns of numbers in the page's data. The page's script `data.js` reads them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};

/// A column of numbers, one for each row.
#[derive(Debug, Default)]
pub(super) struct Column(Vec<u64>);

impl FromIterator<u64> for Column {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

/// One number if all are equal; else LEB128 (seven bits a byte, the lowest first) in base64.
impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = self.0.first().copied().unwrap_or(0);
        if self.0.iter().all(|&number| number == first) {
            return serializer.serialize_u64(first);
        }
        let mut bytes = Vec::with_capacity(self.0.len() * 2);
        for &number in &self.0 {
            let mut rest = number;
            while rest > 0x7F {
                bytes.push((rest & 0x7F) as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_one_and_others_have_as_many_bytes_as_they_need() {
        for (numbers, json) in [
            (vec![], "0".to_owned()),
            (vec![7, 7], "7".to_owned()),
            (
                vec![1, 127, 128, 300],
                format!("\"{}\"", BASE64_STANDARD.encode([1, 127, 128, 1, 172, 2])),
            ),
        ] {
            let column: Column = numbers.into_iter().collect();
            assert_eq!(serde_json::to_string(&column).expect("JSON"), json);
        }
    }
}
