//! Entries of the arena: folders with a manifest, from outside this repository.
//!
//! `entry.toml` names one of three things, and how it is built:
//!
//! ```toml
//! source = "ring.c"            # .c, .cpp, .cc or .rs with the functions of olivine_arena.h
//! flags = ["-DFAST"]           # more words for the compiler
//! ```
//! ```toml
//! library = "target/libring.so"                    # a library with these functions
//! build = "make"                                   # run by a shell in the folder
//! ```
//! ```toml
//! program = "target/release/ring"                  # a program that links olivine-arena
//! build = "cargo build --release"
//! ```

use super::program::{Ran, run};
use crate::error::{BenchError, Result};
use olivine::small_file::{self, SETTINGS_FILE_MAX};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The manifest of an entry.
pub const MANIFEST: &str = "entry.toml";
/// The interface of sources and libraries.
pub const HEADER: &str = include_str!("../../include/olivine_arena.h");
/// Name of its file.
const HEADER_NAME: &str = "olivine_arena.h";
/// Where a source is built, in the folder of its entry.
const TARGET: &str = "target";
/// Longest build.
const BUILD_MAX: Duration = Duration::from_secs(600);
/// Most lines of a compiler's complaint.
const LINES_MAX: usize = 5;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    source: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    library: Option<PathBuf>,
    program: Option<PathBuf>,
    build: Option<String>,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    folder: PathBuf,
    form: Form,
    build: Option<String>,
}

#[derive(Clone, Debug)]
enum Form {
    Source { file: String, flags: Vec<String> },
    Library(PathBuf),
    Program(PathBuf),
}

/// A built entry.
pub(super) enum Built {
    /// A program that takes part.
    Program(PathBuf),
    /// A library with the functions of the header.
    Library(PathBuf),
}

impl Entry {
    /// The entry in `folder`, if it has a manifest.
    ///
    /// # Errors
    ///
    /// [`BenchError::Entry`] for a manifest that cannot be read, or does not name one thing.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        if !path.is_file() {
            return Ok(None);
        }
        let wrong = |message: String| BenchError::Entry {
            folder: folder.to_path_buf(),
            message,
        };
        let text = small_file::read_text(&path, SETTINGS_FILE_MAX)
            .map_err(|error| wrong(format!("cannot read {MANIFEST}: {error}")))?;
        let found: Manifest = toml::from_str(&text)
            .map_err(|error| wrong(format!("{MANIFEST}: {}", error.message())))?;
        let form = match (found.source, found.library, found.program) {
            (Some(file), None, None) => Form::Source {
                file,
                flags: found.flags,
            },
            (None, Some(library), None) => Form::Library(library),
            (None, None, Some(program)) => Form::Program(program),
            _ => {
                return Err(wrong(format!(
                    "{MANIFEST} names one of source, library and program"
                )));
            }
        };
        Ok(Some(Self {
            folder: folder.to_path_buf(),
            form,
            build: found.build,
        }))
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of its folder.
    #[must_use]
    pub fn name(&self) -> String {
        let whole = self.folder.canonicalize();
        let whole = whole.unwrap_or_else(|_| self.folder.clone());
        let name = whole.file_name().unwrap_or(whole.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Builds it.
    pub(super) fn build(&self, stopped: &dyn Fn() -> bool) -> Result<Built> {
        if let Some(words) = &self.build {
            let mut shell = Command::new("sh");
            self.run(shell.args(["-c", words]), stopped)?;
        }
        let folder = self.folder.canonicalize();
        let folder = folder.map_err(|error| self.wrong(error.to_string()))?;
        let built = match &self.form {
            Form::Source { file, flags } => {
                Built::Library(self.compile(&folder, file, flags, stopped)?)
            }
            Form::Library(path) => Built::Library(folder.join(path)),
            Form::Program(path) => Built::Program(folder.join(path)),
        };
        let (Built::Library(path) | Built::Program(path)) = &built;
        if path.is_file() {
            return Ok(built);
        }
        let how = match &self.build {
            Some(words) => format!("'{words}' did not make it"),
            None => "build it, or add build = \"COMMAND\"".to_owned(),
        };
        Err(self.wrong(format!("no file {}: {how}", path.display())))
    }

    /// Compiles a source to a library.
    fn compile(
        &self,
        folder: &Path,
        file: &str,
        flags: &[String],
        stopped: &dyn Fn() -> bool,
    ) -> Result<PathBuf> {
        let target = folder.join(TARGET);
        let made = std::fs::create_dir_all(&target)
            .and_then(|()| std::fs::write(target.join(HEADER_NAME), HEADER));
        made.map_err(|error| self.wrong(format!("cannot write {TARGET}/{HEADER_NAME}: {error}")))?;
        let out = target.join("libentry.so");
        let compiler = |name: &str, usual: &str| {
            let named = std::env::var_os(name).filter(|named| !named.is_empty());
            Command::new(named.unwrap_or_else(|| usual.into()))
        };
        const NATIVE: [&str; 4] = ["-O3", "-march=native", "-shared", "-fPIC"];
        let ending = Path::new(file)
            .extension()
            .and_then(|ending| ending.to_str());
        let mut command = match ending {
            Some("c") => compiler("CC", "cc"),
            Some("cpp" | "cc") => compiler("CXX", "c++"),
            Some("rs") => compiler("RUSTC", "rustc"),
            _ => {
                return Err(self.wrong(format!(
                    "source = \"{file}\" has an unknown ending: use .c, .cpp, .cc or .rs"
                )));
            }
        };
        match ending {
            Some("rs") => command.args(["--edition=2021", "--crate-type=cdylib", "-O"]),
            Some("c") => command.args(NATIVE).arg("-std=gnu11"),
            _ => command.args(NATIVE).arg("-std=c++17"),
        };
        if ending != Some("rs") {
            command.arg("-I").arg(&target);
        }
        // Libraries stand behind what uses them.
        command.arg("-o").arg(&out).arg(file).args(flags);
        self.run(&mut command, stopped)?;
        Ok(out)
    }

    fn run(&self, command: &mut Command, stopped: &dyn Fn() -> bool) -> Result<()> {
        command.current_dir(&self.folder);
        let ran: Ran = run(command, &self.name(), "", BUILD_MAX, stopped)?;
        if ran.status.success() {
            return Ok(());
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let complaint = ran.complaint();
        let lines: Vec<&str> = complaint.lines().take(LINES_MAX).collect();
        Err(self.wrong(format!(
            "'{program}' failed ({}): {}",
            ran.status,
            lines.join("; ")
        )))
    }

    fn wrong(&self, message: String) -> BenchError {
        BenchError::Entry {
            folder: self.folder.clone(),
            message,
        }
    }
}
