//! A program that takes part in measurements: this tool, or that of another library, so that this
//! library never depends on one.
//!
//! Each program links the harness and its methods. It lists them, and it runs as a participant. An
//! entry with a library is this tool, which loads the library.

use super::entry::{self, Entry};
use crate::error::{BenchError, Result, io};
use olivine_arena::method::{Description, Method};
use olivine_arena::participant::Seat;
use olivine_arena::protocol::{COMMAND, LIST};
use olivine_arena::sys::process;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The word of this tool before the library of an entry.
pub const LOAD: &str = "__entry";
/// Prefix of the names of rivals' programs.
const PREFIX: &str = "rival-";
/// How long a rival's program may take to start and list its methods.
const START_MAX: Duration = Duration::from_secs(30);
/// Letters of a wrong answer that are shown.
const SHOWN_MAX: usize = 40;
/// How long to wait for the last output of an ended program.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);
/// Time between two checks of a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A program, and the methods that it can measure.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// Words before all others.
    words: Vec<OsString>,
    /// The rival's name; `None` for this tool.
    rival: Option<String>,
    /// What is built before it lists its methods.
    entry: Option<Entry>,
    methods: Vec<Description>,
}

impl Program {
    /// This tool, which knows `methods`.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if it cannot find itself.
    pub fn own(methods: &[Method]) -> Result<Self> {
        Ok(Self {
            path: own()?,
            words: Vec::new(),
            rival: None,
            entry: None,
            methods: methods.iter().map(Description::from).collect(),
        })
    }

    /// The rivals in `folder`, by name: programs called `rival-NAME`, and folders with an
    /// [entry](super::entry); or `folder` is one. Their methods are not known yet.
    ///
    /// # Errors
    ///
    /// [`BenchError::NoRivals`] if there are none; [`BenchError::Entry`] for a wrong manifest.
    pub fn find(folder: &Path) -> Result<Vec<Self>> {
        if let Some(entry) = Entry::read(folder)? {
            return Ok(vec![Self::of(entry)]);
        }
        let files = || std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<Self> = files()
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let name = name
                    .strip_prefix(PREFIX)
                    .filter(|name| !name.contains('.'))?;
                Some(Self {
                    path: entry.path(),
                    words: Vec::new(),
                    rival: Some(name.to_owned()),
                    entry: None,
                    methods: Vec::new(),
                })
            })
            .collect();
        for file in files() {
            found.extend(Entry::read(&file.path())?.map(Self::of));
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        if found.is_empty() {
            let folder = folder.to_path_buf();
            return Err(BenchError::NoRivals { folder });
        }
        Ok(found)
    }

    /// The program of an entry, which is not built yet.
    fn of(entry: Entry) -> Self {
        Self {
            path: entry.folder().to_path_buf(),
            words: Vec::new(),
            rival: Some(entry.name()),
            entry: Some(entry),
            methods: Vec::new(),
        }
    }

    /// The rival's name; empty for this tool.
    #[must_use]
    pub fn name(&self) -> &str {
        self.rival.as_deref().unwrap_or_default()
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its methods, as far as they are known.
    #[must_use]
    pub fn methods(&self) -> &[Description] {
        &self.methods
    }

    /// Leaves out the methods that `keep` refuses.
    pub fn retain(&mut self, keep: impl FnMut(&Description) -> bool) {
        self.methods.retain(keep);
    }

    /// Builds it, if it is an entry, and has it list its methods.
    ///
    /// # Errors
    ///
    /// [`BenchError::Entry`] if it cannot be built; [`BenchError::Rival`] if the program does not
    /// run or says something else, [`BenchError::RivalHangs`] if it says nothing for half a
    /// minute, [`BenchError::Stopped`] soon after `stopped` is true.
    pub fn look(&mut self, stopped: &dyn Fn() -> bool) -> Result<()> {
        if let Some(entry) = &self.entry {
            match entry.build(stopped)? {
                entry::Built::Program(path) => self.path = path,
                entry::Built::Library(library) => {
                    self.path = own()?;
                    self.words = vec![LOAD.into(), library.into()];
                }
            }
        }
        self.methods = self.run(LIST, "", START_MAX, stopped)?;
        Ok(())
    }

    /// Starts it as a participant. What a rival writes to standard error can be asked for.
    pub(crate) fn start(&self, seat: &Seat) -> Result<(Child, Option<Receiver<String>>)> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.words)
            .arg(COMMAND)
            .args(seat.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if self.rival.is_none() {
            use std::os::unix::process::CommandExt as _;
            // We handle a Ctrl-C at the terminal. It ends with its standard input, and removes what
            // it shares.
            let child = command.process_group(0).spawn();
            return Ok((child.map_err(io("start a participant"))?, None));
        }
        command.stderr(Stdio::piped());
        let started = process::start(&mut command, Signal::KILL);
        let mut child = started.map_err(io("start a rival's program"))?;
        let said = child.stderr.take().map(text_of);
        Ok((child, said))
    }

    /// Why it has no figure: its last line on standard error, or how it ended.
    pub(crate) fn reason(&self, said: Option<&Receiver<String>>, status: ExitStatus) -> BenchError {
        let Some(name) = &self.rival else {
            return BenchError::PeerGone { status };
        };
        let said = said.and_then(|text| text.recv_timeout(LAST_WORDS_MAX).ok());
        let said = said.unwrap_or_default();
        let last = said.lines().last();
        BenchError::Rival {
            name: name.clone(),
            message: last.map_or_else(|| format!("it said nothing ({status})"), str::to_owned),
        }
    }

    /// The error of a line that is not an answer.
    pub(crate) fn babbles(&self, line: &str) -> BenchError {
        let message = format!("it answered '{}'", shortened(line));
        match &self.rival {
            Some(name) => BenchError::Rival {
                name: name.clone(),
                message,
            },
            None => BenchError::PeerFailed { message },
        }
    }

    /// Runs another of its commands, `word`, within `limit` or until it is `stopped`.
    pub(crate) fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        word: &str,
        job: &impl Serialize,
        limit: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<T> {
        let text = serde_json::to_string(job).map_err(|error| io("write a job")(error.into()))?;
        self.run(word, &text, limit, stopped)
    }

    fn run<T: for<'a> Deserialize<'a>>(
        &self,
        word: &str,
        input: &str,
        limit: Duration,
        stopped: &dyn Fn() -> bool,
    ) -> Result<T> {
        let mut command = Command::new(&self.path);
        command.args(&self.words).arg(word);
        let Ran { told, said, status } = run(&mut command, self.name(), input, limit, stopped)?;
        // A library's log on standard output comes before the result.
        let last = told.lines().last().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(result) if status.success() => Ok(result),
            _ if status.success() && !last.is_empty() => Err(self.babbles(last)),
            _ => Err(self.reason(said.as_ref(), status)),
        }
    }
}

/// This tool.
fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(io("find this program to start it again"))
}

/// What a program did.
pub(super) struct Ran {
    /// Its standard output.
    pub(super) told: String,
    /// Its standard error.
    pub(super) said: Option<Receiver<String>>,
    pub(super) status: ExitStatus,
}

impl Ran {
    /// Its standard error, as far as it comes soon.
    pub(super) fn complaint(&self) -> String {
        let said = self.said.as_ref();
        let said = said.and_then(|text| text.recv_timeout(LAST_WORDS_MAX).ok());
        said.unwrap_or_default()
    }
}

/// Runs a program of the rival `name` within `limit` or until it is `stopped`.
pub(super) fn run(
    command: &mut Command,
    name: &str,
    input: &str,
    limit: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<Ran> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = process::start(command, Signal::KILL);
    let mut child = started.map_err(io("start a rival's program"))?;
    let said = child.stderr.take().map(text_of);
    let told = child.stdout.take().map(text_of);
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.as_bytes().to_vec();
        // On a thread, because a hanging program reads nothing; a program that died before it
        // read all reports that below.
        std::thread::spawn(move || stdin.write_all(&input));
    }
    let told = told.map(|text| within(&text, limit, stopped));
    let is_late = matches!(told, Some(Err(RecvTimeoutError::Timeout)));
    if is_late {
        let _ = child.kill();
    }
    let status = child.wait().map_err(io("wait for a rival's program"))?;
    if is_late && stopped() {
        return Err(BenchError::Stopped);
    }
    if is_late {
        return Err(BenchError::RivalHangs {
            name: name.to_owned(),
            seconds: limit.as_secs(),
        });
    }
    let told = told.and_then(std::result::Result::ok).unwrap_or_default();
    Ok(Ran { told, said, status })
}

/// The result of `text` within `limit` and before it is `stopped`; [`RecvTimeoutError::Timeout`]
/// otherwise.
fn within(
    text: &Receiver<String>,
    limit: Duration,
    stopped: &dyn Fn() -> bool,
) -> std::result::Result<String, RecvTimeoutError> {
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match text.recv_timeout(left.min(LOOK)) {
            Err(RecvTimeoutError::Timeout) if left > LOOK && !stopped() => {}
            told => return told,
        }
    }
}

/// The start of a line, short enough for an error message.
fn shortened(line: &str) -> String {
    let mut start: String = line.chars().take(SHOWN_MAX).collect();
    if start.len() < line.len() {
        start.push('…');
    }
    start
}

/// Everything that comes out of a pipe, once it has ended.
fn text_of(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // After a read error, the part read so far counts.
        let _ = pipe.read_to_end(&mut bytes);
        // The caller may have given up.
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn hanging_program_is_stopped_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rival-sleeper");
        let id = folder.path().join("id");
        let script = format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", id.display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = Program::find(folder.path()).unwrap();
        let sleeper = &programs[0];
        let limit = Duration::from_millis(300);
        let asked = sleeper.run::<Vec<Description>>(LIST, "", limit, &|| false);
        let error = asked.unwrap_err();
        assert!(matches!(error, BenchError::RivalHangs { .. }), "{error}");
        assert!(
            error.to_string().contains("rival sleeper did not end"),
            "{error}"
        );
        // It may not have come to its first line in that time.
        if let Ok(id) = std::fs::read_to_string(&id) {
            let gone = !Path::new(&format!("/proc/{}", id.trim())).exists();
            assert!(gone, "{id} still runs");
        }
    }
}
