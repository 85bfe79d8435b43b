//! Files that are replaced in one step.

use crate::failure::{Failure, Outcome};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// All users, whatever the file mode mask is: a collector of another user reads it.
    All,
    /// Those that the file mode mask allows.
    Mask,
}

/// A file that may be replaced, or made.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was given.
    shown: PathBuf,
    /// Behind all links.
    path: PathBuf,
}

impl Target {
    /// The file at `path`, behind links. It refuses what a new file must not take the place of:
    /// devices, pipes and sockets, folders, and links to nothing.
    ///
    /// # Errors
    ///
    /// Wrong usage, with `remedy`: how to get the bytes elsewhere. A path that cannot be
    /// looked at is a failure.
    pub(crate) fn new(path: &Path, remedy: &str) -> Outcome<Self> {
        let shown = path.display();
        if path == Path::new("-") {
            return Err(Failure::usage(format!(
                "'-' is not a file: name one, such as ./-; {remedy}"
            )));
        }
        let refused = |what: &str| {
            Failure::usage(format!(
                "{shown} is {what}, which a file must not replace: name a regular file or a new \
                 one; {remedy}"
            ))
        };
        let target = match fs::metadata(path) {
            Ok(meta) if meta.is_file() => {
                fs::canonicalize(path).map_err(|error| failed(path, error))?
            }
            Ok(meta) if meta.is_dir() => return Err(refused("a folder")),
            Ok(_) => return Err(refused("a device, a pipe or a socket")),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(path, error));
            }
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                return Err(refused("a link to nothing"));
            }
            Err(_) => path.to_owned(),
        };
        Ok(Self {
            shown: path.to_owned(),
            path: target,
        })
    }

    /// Puts `bytes` in its place in one step: a reader sees the old ones or the new ones.
    ///
    /// # Errors
    ///
    /// If its folder cannot be written. The old file stays.
    pub(crate) fn replace(&self, bytes: &[u8], readers: Readers) -> Outcome {
        self.write(bytes, readers)
            .map_err(|error| failed(&self.shown, without_path(error)))
    }

    fn write(&self, bytes: &[u8], readers: Readers) -> io::Result<()> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".olivine-")
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        if readers == Readers::All {
            file.as_file()
                .set_permissions(Permissions::from_mode(0o644))?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// The system's error, without the path of the temporary file, which tempfile adds to its text.
fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause),
        None => error,
    }
}

fn failed(path: &Path, error: io::Error) -> Failure {
    Failure::Failed(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn replace(path: &Path, bytes: &[u8]) -> Outcome {
        Target::new(path, "print it")?.replace(bytes, Readers::All)
    }

    #[test]
    fn file_is_replaced_at_once_readable_by_others_and_kept_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("olivine.prom");
        replace(&path, b"old").unwrap_or_else(|error| panic!("{error:?}"));
        replace(&path, b"new").unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{mode:o}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let path = folder.path().join("none/x");
        let Err(Failure::Failed(error)) = replace(&path, b"x") else {
            panic!("a file in a folder that is missing");
        };
        let said = format!("{error:#}");
        let cause = "No such file or directory (os error 2)";
        assert_eq!(said, format!("cannot write {}: {cause}", path.display()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn link_stays_and_the_file_behind_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap_or_else(|error| panic!("{error:?}"));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("nowhere");
        symlink(folder.path().join("none"), &nowhere).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [Path::new("/dev/null"), folder.path(), &nowhere, &socket] {
            match replace(path, b"x") {
                Err(Failure::Usage(error)) => {
                    let said = error.to_string();
                    assert!(
                        said.contains("regular file") && said.ends_with("print it"),
                        "{said}"
                    );
                }
                other => panic!("{}: {other:?}", path.display()),
            }
        }
        assert!(matches!(
            replace(Path::new("-"), b"x"),
            Err(Failure::Usage(_))
        ));
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
