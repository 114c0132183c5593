//! How a machine knows its own recordings, and that nobody has changed which files they say were
//! loaded.

use super::{Identity, Metadata, Module};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The mark of the machine on which a recording was made. Only a machine with the secret can
/// produce it, and it does not reveal the secret.
#[must_use]
pub fn origin(secret: &[u8], metadata: &Metadata) -> String {
    let mut hash = Sha256::new();
    hash.update(b"halprof recording\0");
    part(&mut hash, secret);
    hash.update(metadata.began.to_le_bytes());
    for argument in &metadata.command {
        part(&mut hash, argument.as_bytes());
    }
    hexadecimal(hash)
}

/// What a recording says of a file that was loaded: nobody without the machine's secret can write it
/// for another file, for another build or into another recording.
#[must_use]
pub fn seal(secret: &[u8], origin: &str, module: &Module) -> String {
    let identity = module.identity.as_ref();
    let (kind, file, build) = match identity {
        None => ("", "", String::new()),
        Some(Identity::Pdb { file, guid, age }) => ("pdb", file.as_str(), format!("{guid} {age}")),
        Some(Identity::BuildId(id)) => ("build-id", "", id.clone()),
    };
    let path = module.path.as_deref().unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(b"halprof module\0");
    part(&mut hash, secret);
    for text in [origin, &module.name, path, kind, file, &build] {
        part(&mut hash, text.as_bytes());
    }
    hexadecimal(hash)
}

/// With its length: no two lists of parts are one text.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn hexadecimal(hash: Sha256) -> String {
    let digest = hash.finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_of_one_machine_and_one_recording() {
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
