//! Other libraries in the same harness: each is a separate program, so that this library never
//! depends on one.
//!
//! A rival's program links the harness and its own methods. It lists them, measures them
//! interleaved with Olivine between the same two processes, and also runs as the second process.
//! [`main`] is its whole main function; [`Program`] is how the tool finds and runs it.

use crate::error::{BenchError, Result, chain, io};
use crate::method::Method;
use crate::privileges::Privileges;
use crate::result::Row;
use crate::scenario::{Setup, Variant, registry};
use crate::sys::process;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Prefix of the names of rivals' programs.
const PREFIX: &str = "rival-";
/// Words that a rival's program understands.
const LIST: &str = "list";
const MEASURE: &str = "measure";
const PEER: &str = "__peer";
/// How long a rival's program may take to start and list its methods.
const START_MAX: Duration = Duration::from_secs(30);
/// How long a method may take to fail, longer than the deadline of either end.
const FAILING_MAX: Duration = Duration::from_secs(6);
/// Letters of a wrong answer that are shown.
const SHOWN_MAX: usize = 40;
/// How long to wait for the last output of an ended program.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);
/// Time between two checks of a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A method that a rival's program knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// How a side with nothing to do waits.
    pub wait: String,
    /// Whether it can be streamed without loss.
    pub streams: bool,
    /// Whether a batch of streamed messages is handed over at once.
    #[serde(default)]
    pub batches: bool,
    /// Whether it works only between threads.
    #[serde(default)]
    pub threads: bool,
    /// What it does without that a channel of this library has; empty if nothing that makes it
    /// faster.
    pub lacks: String,
}

/// A job for a rival's program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// `pingpong` or `throughput`.
    pub scenario: String,
    /// What to measure, in turns.
    pub variants: Vec<Variant>,
    /// CPUs of the measuring and of the second process.
    pub cpus: (u32, u32),
    /// Runs of each variant.
    pub runs: u32,
    /// Seconds for each variant over all runs.
    pub seconds: f64,
    /// What both processes run with.
    pub privileges: Privileges,
}

impl Job {
    /// Time limit of its program: twice the requested time, plus time in each run for a method that
    /// fails by its deadline.
    fn limit(&self) -> Duration {
        let variants = u32::try_from(self.variants.len()).unwrap_or(u32::MAX);
        let runs = FAILING_MAX.saturating_mul(self.runs);
        let asked = Duration::try_from_secs_f64(self.seconds * 2.0).unwrap_or(Duration::MAX);
        START_MAX.saturating_add(asked.saturating_add(runs).saturating_mul(variants))
    }
}

/// The main function of a rival's program.
///
/// `methods` are its own and [`OLIVINE`], with which they are compared.
///
/// [`OLIVINE`]: crate::method::OLIVINE
#[must_use]
pub fn main(methods: &'static [&'static dyn Method]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [LIST] => say(&list(methods)),
        [MEASURE] => measure(methods).and_then(|rows| say(&rows)),
        [PEER, path, cpu] => cpu
            .parse()
            .map_err(|_| unfit(cpu))
            .and_then(|cpu| crate::peer::serve(Path::new(path), cpu, methods)),
        _ => Err(unfit("run this through `olivine bench pingpong --rivals`")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without standard error there is no place for a report.
            let _ = writeln!(std::io::stderr(), "{}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn unfit(found: &str) -> BenchError {
    BenchError::Protocol {
        found: found.to_owned(),
    }
}

fn say(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|error| io("write a result")(error.into()))?;
    writeln!(std::io::stdout().lock(), "{text}").map_err(io("write a result"))
}

fn list(methods: &[&'static dyn Method]) -> Vec<Known> {
    let known = methods.iter().map(|method| Known {
        name: method.name().to_owned(),
        about: method.about().to_owned(),
        wait: method.wait().to_owned(),
        streams: method.streams(),
        batches: method.batches(),
        threads: method.threads(),
        lacks: method.lacks().to_owned(),
    });
    known.collect()
}

fn measure(methods: &'static [&'static dyn Method]) -> Result<Vec<Row>> {
    let text = std::io::read_to_string(std::io::stdin()).map_err(io("read what to measure"))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| unfit(&error.to_string()))?;
    let setup = Setup {
        program: std::env::current_exe().map_err(io("find this program"))?,
        arguments: vec![PEER.to_owned()],
        cpus: job.cpus,
        allowed: crate::cpus::allowed(),
        runs: job.runs,
        seconds: job.seconds,
        privileges: job.privileges,
        methods,
    };
    let mut go_on = |_| ControlFlow::Continue(());
    // The others measure this library only.
    let scenario = registry::find(&job.scenario).filter(|scenario| scenario.reads("method"));
    let scenario = scenario.ok_or_else(|| unfit(&job.scenario))?;
    Ok((scenario.run)(&setup, &job.variants, &mut go_on)?.concat())
}

/// Runs `make` with the calling thread free to use any allowed CPU, and pins it again.
///
/// A library's threads inherit the CPU mask of the thread that starts them: on the CPU of a
/// measured thread they would disturb it.
pub fn unpinned<T>(make: impl FnOnce() -> T) -> T {
    restored(|| {
        let mut all = rustix::thread::CpuSet::new();
        (0..rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        // The kernel ignores missing and forbidden CPUs; if it refuses, the library's threads share
        // our CPU.
        let _ = rustix::thread::sched_setaffinity(None, &all);
        make()
    })
}

/// Runs `make`, and then restores the CPU mask of the calling thread.
pub(crate) fn restored<T>(make: impl FnOnce() -> T) -> T {
    let before = rustix::thread::sched_getaffinity(None);
    let made = make();
    if let Ok(before) = before {
        // The kernel accepts its own mask again, unless CPUs were removed in between.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    made
}

/// A rival's program.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// The programs in `folder`, by name.
    ///
    /// # Errors
    ///
    /// [`BenchError::NoRivals`] if there are none.
    pub fn find(folder: &Path) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<Self> = entries
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(PREFIX) && !name.contains('.')
            })
            .map(|path| Self { path })
            .collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        if found.is_empty() {
            let folder = folder.to_path_buf();
            return Err(BenchError::NoRivals { folder });
        }
        Ok(found)
    }

    /// The rival's name.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches(PREFIX).to_owned()
    }

    /// Its methods, Olivine among them.
    ///
    /// # Errors
    ///
    /// [`BenchError::Rival`] if the program does not run or says something else,
    /// [`BenchError::RivalHangs`] if it says nothing for half a minute, [`BenchError::Stopped`]
    /// soon after `stopped` is true.
    pub fn methods(&self, stopped: &dyn Fn() -> bool) -> Result<Vec<Known>> {
        self.run(LIST, "", START_MAX, stopped)
    }

    /// Has it measure a job.
    ///
    /// # Errors
    ///
    /// [`BenchError::Rival`] with what it said, [`BenchError::RivalHangs`] if it takes far longer
    /// than was asked for, [`BenchError::Stopped`] soon after `stopped` is true; the program is
    /// ended then.
    pub fn measure(&self, job: &Job, stopped: &dyn Fn() -> bool) -> Result<Vec<Row>> {
        self.ask(MEASURE, job, job.limit(), stopped)
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
        command
            .arg(word)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A program started from a pinned thread could use only that CPU.
        let started = unpinned(|| process::start(&mut command, Signal::KILL));
        let mut child = started.map_err(io("start a rival's program"))?;
        let said = child.stderr.take().map(text_of);
        let told = child.stdout.take().map(text_of);
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.as_bytes().to_vec();
            // On a thread, because a hanging program reads nothing; a program that died before it
            // read all reports that below.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        // Its output ends with it: its second process has a separate pipe.
        let told = told.map(|text| within(&text, limit, stopped));
        let is_late = matches!(told, Some(Err(RecvTimeoutError::Timeout)));
        if is_late {
            // The second process ends with its orders.
            let _ = child.kill();
        }
        let status = child.wait().map_err(io("wait for a rival's program"))?;
        if is_late && stopped() {
            return Err(BenchError::Stopped);
        }
        if is_late {
            return Err(BenchError::RivalHangs {
                name: self.name(),
                seconds: limit.as_secs(),
            });
        }
        // A library's log on standard output comes before the result.
        let told = told.and_then(std::result::Result::ok).unwrap_or_default();
        let last = told.lines().last().unwrap_or_default();
        let result = serde_json::from_str(last).ok();
        result.filter(|_| status.success()).ok_or_else(|| {
            let said = said.and_then(|text| text.recv_timeout(LAST_WORDS_MAX).ok());
            let said = said.unwrap_or_default();
            let message = match said.lines().last() {
                Some(line) => line.to_owned(),
                None if status.success() => format!("it answered '{}'", shortened(last)),
                None => format!("it said nothing ({status})"),
            };
            BenchError::Rival {
                name: self.name(),
                message,
            }
        })
    }
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
        let asked = sleeper.run::<Vec<Known>>(LIST, "", Duration::from_millis(300), &|| false);
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

    #[test]
    fn job_time_limit_allows_failures_in_every_run() {
        let variant = Variant {
            method: "queue".to_owned(),
            parameters: crate::result::Parameters::pair(32),
        };
        let job = Job {
            scenario: "pingpong".to_owned(),
            variants: vec![variant; 3],
            cpus: (0, 1),
            runs: 5,
            seconds: 2.0,
            privileges: Privileges::default(),
        };
        let deadline = crate::method::WAIT_MAX * 5 * 3;
        assert!(job.limit() > deadline + Duration::from_secs(6));
    }
}
