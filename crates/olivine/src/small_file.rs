//! Files that a user names and that are read as a whole: settings, secrets, certificates, results.
//!
//! | most bytes | files |
//! |---|---|
//! | 4 KiB, [`WORD_FILE_MAX`] | `@PATH` of `token=`, `user=`, `password=`, `nkey=`; `$NATS_NKEY` |
//! | 1 MiB, [`SETTINGS_FILE_MAX`] | `tls_cert=`, `tls_key=`, `tls_ca=`, `creds=`; `$NATS_CERT` … |
//! | 1 MiB, [`SETTINGS_FILE_MAX`] | jobs of `olivine bench sweep`, lists of `bridge --config` |
//! | 64 MiB | results of `olivine bench` |

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Largest file that holds one word: a token, a user name, a password, the seed of an NKey.
pub const WORD_FILE_MAX: u64 = 4 << 10;
/// Largest file of credentials, PEM file, job file or list of bridges, in bytes.
pub const SETTINGS_FILE_MAX: u64 = 1 << 20;

/// The bytes of a regular file of at most `max` bytes. A device or a pipe may have no end: it is
/// refused.
///
/// # Errors
///
/// The error of the system. `InvalidInput` if it is not a regular file. `FileTooLarge` with the
/// size and the limit.
pub fn read_bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    // NONBLOCK: opening a pipe would wait for its other end. NOCTTY: a terminal must not become
    // ours.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let problem = "it is not a regular file: name one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut bytes = Vec::new();
    if metadata.len() <= max {
        file.take(max + 1).read_to_end(&mut bytes)?;
    }
    let size = metadata.len().max(bytes.len() as u64);
    if size > max {
        let problem = format!("it has {size} bytes, where at most {max} are allowed");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

/// As [`read_bytes`], as text.
///
/// # Errors
///
/// As [`read_bytes`]; `InvalidData` if it is not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(path, max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let problem = format!("it is not UTF-8 text from byte {at} on");
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(read_text(&path, 100).unwrap().len(), 100);
        let error = read_text(&path, 99).unwrap_err().to_string();
        assert_eq!(error, "it has 100 bytes, where at most 99 are allowed");
        std::fs::write(&path, [b'x', 0xff]).unwrap();
        let error = read_text(&path, 99).unwrap_err().to_string();
        assert_eq!(error, "it is not UTF-8 text from byte 1 on");
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        for path in [&fifo, Path::new("/dev/zero"), folder.path()] {
            let error = read_bytes(path, 99).unwrap_err().to_string();
            assert_eq!(error, "it is not a regular file: name one", "{path:?}");
        }
    }

    /// A file of the system that states no size is limited by the bytes that are read.
    #[test]
    fn file_without_size_is_limited() {
        let error = read_bytes(Path::new("/proc/self/maps"), 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
