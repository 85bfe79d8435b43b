//! What the checks look at: files under a root folder, and values that only system calls give.
//!
//! Every file is read on demand and at most once 1 MiB of it. Nothing is written. Tests give a
//! folder with planted `/proc` and `/sys`.

use olivine::Config;
use rustix::thread::membarrier_query;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Most bytes read of one file.
const FILE_MAX: u64 = 1 << 20;
/// Switches membarrier off in the library.
const NO_MEMBARRIER: &str = "OLIVINE_NO_MEMBARRIER";

/// Size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) size_bytes: u64,
    /// What a user without privileges may take.
    pub(crate) free_bytes: u64,
}

/// Values of this process and of its folder of channels.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) user_id: u32,
    pub(crate) folder: PathBuf,
    /// Why the library refuses the folder.
    pub(crate) folder_error: Option<String>,
    /// Of the file system that holds the folder.
    pub(crate) folder_space: Result<Space, String>,
    /// Of `/dev/shm`.
    pub(crate) shm_space: Result<Space, String>,
    /// Whether the kernel has `membarrier(GLOBAL_EXPEDITED)`.
    pub(crate) has_membarrier: bool,
    /// Whether the environment switches it off.
    pub(crate) membarrier_off: bool,
}

impl Facts {
    /// Asks the system. `folder` may not exist yet.
    pub(crate) fn look(folder: &Path) -> Self {
        let config = Config::new(olivine::Scheme::Shm, "doctor").dir(folder);
        // Looking for a channel checks the folder as opening does, and creates nothing.
        let folder_error = match olivine::admin::inspect(&config) {
            Ok(_) | Err(olivine::OpenError::Missing { .. }) => None,
            Err(error) => Some(olivine_bench::error::chain(&error)),
        };
        let query = membarrier_query();
        Self {
            user_id: rustix::process::geteuid().as_raw(),
            folder: folder.to_owned(),
            folder_error,
            folder_space: space(existing(folder)),
            shm_space: space(Path::new("/dev/shm")),
            has_membarrier: query
                .contains_command(rustix::thread::MembarrierCommand::GlobalExpedited),
            membarrier_off: std::env::var_os(NO_MEMBARRIER).is_some(),
        }
    }
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> &Path {
    let found = folder.ancestors().find(|above| above.is_dir());
    found.unwrap_or(folder)
}

fn space(path: &Path) -> Result<Space, String> {
    let found = rustix::fs::statvfs(path)
        .map_err(|errno| reason(&path.display().to_string(), &errno.into()))?;
    Ok(Space {
        size_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

/// Why a file cannot be read.
fn reason(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{path} is missing"),
        kind => format!("{path}: {kind}"),
    }
}

/// A root folder, and the values beside it.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    root: PathBuf,
    pub(crate) facts: Facts,
}

impl Snapshot {
    pub(crate) fn new(root: impl Into<PathBuf>, facts: Facts) -> Self {
        Self {
            root: root.into(),
            facts,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file without spaces around it, or why it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        let reason = |error: io::Error| reason(path, &error);
        let mut bytes = Vec::new();
        let file = File::open(self.path(path)).map_err(reason)?;
        // A planted FIFO or device would block or never end.
        if !file.metadata().map_err(reason)?.is_file() {
            return Err(format!("{path}: not a file"));
        }
        file.take(FILE_MAX)
            .read_to_end(&mut bytes)
            .map_err(reason)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The number in a file.
    pub(crate) fn number(&self, path: &str) -> Result<u64, String> {
        let text = self.read(path)?;
        text.parse()
            .map_err(|_| format!("{path}: '{text}' is not a number"))
    }

    /// Whether a file or folder exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The target of a link.
    pub(crate) fn link(&self, path: &str) -> Result<String, String> {
        let target = fs::read_link(self.path(path));
        let target = target.map_err(|error| reason(path, &error))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// A field of a file of `NAME:value` lines.
    pub(crate) fn field(&self, path: &str, name: &str) -> Result<String, String> {
        let text = self.read(path)?;
        let found = text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        });
        found.ok_or_else(|| format!("{path}: no field {name}"))
    }
}
