//! Proves that a recording was made on this machine by this user, and that its list of loaded files
//! is unaltered.

use super::{Identity, Metadata, Module};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The length of SHA-256's blocks.
const BLOCK: usize = 64;

/// The mark of the key with which a recording was made. Only somebody with the key can produce it,
/// and it does not reveal the key.
pub fn origin(key: &[u8], metadata: &Metadata) -> String {
    let began = metadata.began.to_le_bytes();
    let command = metadata.command.iter().map(String::as_bytes);
    sealed(key, "halprof recording", [&began[..]].into_iter().chain(command))
}

/// The seal of a file that was loaded. Nobody without the key can write it for another file, for
/// another build or into another recording.
pub fn seal(key: &[u8], origin: &str, module: &Module) -> String {
    let identity = module.identity.as_ref();
    let (kind, file, build) = match identity {
        None => ("", "", String::new()),
        Some(Identity::Pdb { file, guid, age }) => ("pdb", file.as_str(), format!("{guid} {age}")),
        Some(Identity::BuildId(id)) => ("build-id", "", id.clone()),
    };
    let path = module.path.as_deref().unwrap_or_default();
    let parts = [origin, &module.name, path, kind, file, &build];
    sealed(key, "halprof module", parts.map(str::as_bytes))
}

/// HMAC-SHA-256 of a list, in hexadecimal digits.
fn sealed<'a>(key: &[u8], what: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut message = Vec::new();
    for part in [what.as_bytes()].into_iter().chain(parts) {
        // Each part follows its length, so that two different lists of parts never make the same
        // text.
        message.extend((part.len() as u64).to_le_bytes());
        message.extend(part);
    }
    hmac(key, &message).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let short = (key.len() > BLOCK).then(|| Sha256::digest(key));
    let key = short.as_deref().unwrap_or(key);
    let padded = |pad| {
        let mut block = [pad; BLOCK];
        block.iter_mut().zip(key).for_each(|(pad, byte)| *pad ^= byte);
        Sha256::new_with_prefix(block)
    };
    let inner = padded(0x36).chain_update(message).finalize();
    padded(0x5C).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, sections 4.3 (a short key) and 4.7 (one longer than a block).
    #[test]
    fn the_seal_is_the_standard_s() {
        let hexadecimal = |bytes: [u8; 32]| bytes.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hexadecimal(hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            hexadecimal(hmac(&[0xAA; 131], long)),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn an_origin_is_of_one_key_and_one_recording() {
        let metadata = Metadata {
            began: 1,
            command: vec!["a".to_owned(), "b".to_owned()],
            ..Metadata::default()
        };
        let ours = origin(b"secret", &metadata);
        assert_eq!(ours.len(), 64);
        assert_ne!(ours, origin(b"another", &metadata));
        let mut later = metadata.clone();
        later.began = 2;
        assert_ne!(ours, origin(b"secret", &later));
        later = metadata;
        later.command = vec!["ab".to_owned()];
        assert_ne!(ours, origin(b"secret", &later));
    }
}
