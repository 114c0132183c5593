//! The key that seals recordings: a program opens the files that a recording names only if the key
//! shows that halprof recorded them here.
//!
//! It is 32 random bytes, made at first use. Administrators (root) share one that nobody else can
//! read; every other user has one.

#[cfg(unix)]
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// What to do without a key.
pub(crate) const UNSEALED: &str = "no key could be read or made to seal the recording: \
    reports open only those of its modules that are in the folders of `--symbol-path`";

const BYTES: usize = 32;

/// The key, if there is one or one can be made.
#[cfg(windows)]
pub(crate) fn key() -> Option<Vec<u8>> {
    let mut new = [0; BYTES];
    getrandom::fill(&mut new).ok()?;
    halprof_setup::windows::key::kept(&new).map(Vec::from)
}

/// The key, if there is one or one can be made.
#[cfg(unix)]
pub(crate) fn key() -> Option<Vec<u8>> {
    let own = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let own = own.filter(|folder| folder.is_absolute());
    let own = own.or_else(|| Some(std::env::home_dir()?.join(".local/state")));
    let folders = [Some(PathBuf::from("/var/lib")), own];
    let mut folders = folders.into_iter().flatten();
    folders.find_map(|folder| kept(&folder.join("halprof")).ok())
}

#[cfg(unix)]
fn kept(folder: &Path) -> io::Result<Vec<u8>> {
    let path = folder.join("key");
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Its mode is 0600 from the start.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut new = [0; BYTES];
    getrandom::fill(&mut new).map_err(io::Error::other)?;
    file.write_all(&new)?;
    match file.persist_noclobber(&path) {
        // Another process was first.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        persisted => drop(persisted?),
    }
    read(&path)
}

/// A key that others can read, or that somebody else has put there, is none.
#[cfg(unix)]
fn read(path: &Path) -> io::Result<Vec<u8>> {
    const OTHERS: u32 = 0o077;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let own = fs::metadata("/proc/self")?.uid();
    let only_ours = metadata.uid() == own && metadata.mode() & OTHERS == 0;
    let mut key = Vec::new();
    file.take(BYTES as u64 + 1).read_to_end(&mut key)?;
    if metadata.is_file() && only_ours && key.len() == BYTES {
        Ok(key)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_only_its_user_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("state/halprof");
        let keys = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(|| kept(&below).expect("a key")));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(keys[0].len(), BYTES);
        assert!(keys[0].iter().any(|&byte| byte != keys[0][0]), "random");
        let modes = [&below.join("key"), &below]
            .map(|path| fs::metadata(path).expect("it is there").mode() & 0o777);
        assert_eq!(modes, [0o600, 0o700]);
        assert_eq!(fs::read_dir(&below).expect("a folder").count(), 1);
        let another = tempfile::tempdir().expect("a folder");
        assert_ne!(kept(another.path()).expect("a key"), keys[0]);
    }

    #[test]
    fn a_key_that_others_know_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        for (bytes, mode) in [(BYTES, 0o644), (BYTES, 0o640), (BYTES - 1, 0o600), (0, 0o600)] {
            fs::write(&path, vec![7; bytes]).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            assert!(kept(folder.path()).is_err(), "{bytes} bytes, {mode:o}");
        }
    }
}
