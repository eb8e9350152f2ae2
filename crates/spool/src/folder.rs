//! The folder of a spool: its lock, its identity, its segment files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fullcount_io::newfile;

use super::error::SpoolError;

/// Takes the folder, which is made if it is not there. The lock is held as long as the file is open, and ends with the
/// process however that ends.
pub(super) fn lock(folder: &Path) -> Result<File, SpoolError> {
    fs::create_dir_all(folder).map_err(SpoolError::io(folder, "make the folder"))?;
    let path = folder.join("lock");
    let file = newfile::open_own(&path).map_err(SpoolError::io(&path, "open the lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(SpoolError::InUse { folder: folder.into() }),
        Err(fs::TryLockError::Error(cause)) => Err(SpoolError::io(&path, "lock it")(cause)),
    }
}

/// What makes a spool's files its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// Its name: 16 bytes, also in the header of each message that is sent.
    pub spool: [u8; 16],
    /// Part of its checksums and never sent, so that a sender of packets cannot forge a record.
    pub salt: [u8; 8],
}

/// Most bytes of the file `identity`: names of topic and source are far shorter.
const LONGEST: u64 = 64 << 10;
/// First word of the file since it has a checksum.
const FORMAT: &str = "spool-2";

/// Reads the spool's identity, which is drawn when the spool is made; with it the stream that it belongs to.
///
/// The file is one line: `spool-2`, the CRC-32 of the rest, name, salt, stream. Version 1 had name and stream; it gets
/// a salt here. If the file is missing but segments exist, that is damage: their content could not be distinguished
/// from that of others.
pub(super) fn identity(folder: &Path, stream: &str) -> Result<Key, SpoolError> {
    let path = folder.join("identity");
    let damaged = || SpoolError::Identity { folder: folder.into() };
    match newfile::read_own(&path, LONGEST) {
        Ok(bytes) => {
            let (key, there) = parse(&bytes).ok_or_else(damaged)?;
            if there != stream {
                let wanted = stream.to_owned();
                return Err(SpoolError::OtherStream { folder: folder.into(), there, wanted });
            }
            match key {
                (spool, Some(salt)) => Ok(Key { spool, salt }),
                (spool, None) => drawn(&path, spool, stream),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let list = segments(folder).map_err(SpoolError::io(folder, "list it"))?;
            if !list.is_empty() || folder.join("settled").exists() {
                return Err(damaged());
            }
            drawn(&path, random()?, stream)
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Err(damaged()),
        Err(e) => Err(SpoolError::io(&path, "read the identity")(e)),
    }
}

/// Name, salt if there is one, and stream.
type Identity = (([u8; 16], Option<[u8; 8]>), String);

fn parse(bytes: &[u8]) -> Option<Identity> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (first, rest) = line.split_once(' ')?;
    if first != FORMAT {
        let digits = first.len() == 32;
        let spool = u128::from_str_radix(first, 16).ok().filter(|_| digits)?;
        return Some(((spool.to_be_bytes(), None), rest.to_owned()));
    }
    let (check, rest) = rest.split_once(' ')?;
    if check != format!("{:08x}", crc32fast::hash(rest.as_bytes())) {
        return None;
    }
    let (spool, rest) = rest.split_once(' ')?;
    let (salt, stream) = rest.split_once(' ')?;
    let spool = u128::from_str_radix(spool, 16).ok()?.to_be_bytes();
    let salt = u64::from_str_radix(salt, 16).ok()?.to_be_bytes();
    Some(((spool, Some(salt)), stream.to_owned()))
}

/// Draws a salt and writes the identity, for good.
fn drawn(path: &Path, spool: [u8; 16], stream: &str) -> Result<Key, SpoolError> {
    let key = Key { spool, salt: random()? };
    let (name, salt) = (u128::from_be_bytes(spool), u64::from_be_bytes(key.salt));
    let rest = format!("{name:032x} {salt:016x} {stream}");
    let check = crc32fast::hash(rest.as_bytes());
    newfile::replace_for_good(path, format!("{FORMAT} {check:08x} {rest}\n").as_bytes())
        .map_err(SpoolError::io(path, "write the identity"))?;
    Ok(key)
}

/// Segment files by number.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "seg") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Makes new and removed names of a folder last.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn random<const N: usize>() -> Result<[u8; N], SpoolError> {
    let mut bytes = [0; N];
    let source = Path::new("/dev/urandom");
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(SpoolError::io(source, "draw an identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path) -> Result<Key, SpoolError> {
        identity(folder, "events sonde")
    }

    #[test]
    fn an_identity_is_read_back_and_a_flipped_or_missing_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let key = read(folder.path()).unwrap();
        assert_eq!(read(folder.path()).unwrap(), key);
        let path = folder.path().join("identity");
        let whole = fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(read(folder.path()).is_err(), "{bit}");
        }
        fs::remove_file(&path).unwrap();
        fs::write(folder.path().join("00000000000000000001.seg"), "").unwrap();
        assert!(matches!(read(folder.path()), Err(SpoolError::Identity { .. })));
        fs::remove_file(folder.path().join("00000000000000000001.seg")).unwrap();
        assert_ne!(read(folder.path()).unwrap().spool, key.spool, "nothing is here: a new one");
    }

    #[test]
    fn the_version_before_keeps_its_name_and_gets_a_salt_once() {
        let folder = tempfile::tempdir().unwrap();
        let old = format!("{:032x} events sonde\n", 7);
        fs::write(folder.path().join("identity"), old).unwrap();
        let key = read(folder.path()).unwrap();
        assert_eq!(key.spool, 7_u128.to_be_bytes());
        assert_eq!(read(folder.path()).unwrap(), key);
    }

    #[test]
    fn links_at_its_names_are_not_followed() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = elsewhere.path().join("made");
        for name in ["lock", "identity"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(&made, &link).unwrap();
            assert!(lock(folder.path()).and_then(|_| read(folder.path())).is_err(), "{name}");
            assert!(!made.exists(), "{name}");
            fs::remove_file(&link).unwrap();
        }
    }
}
