//! Child processes: streamed output, filtered by the caller, with a time limit.

use crate::cargo::at_most;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How often a quiet child is reported to be alive.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// What to do with a line of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Show,
    Hide,
    /// The caller needs no more: end the child, show nothing more.
    Stop,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(ExitStatus),
    TimedOut,
    Stopped,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) elapsed: Duration,
}

impl Outcome {
    pub(crate) fn success(&self) -> bool {
        matches!(self.ended, Ended::Exited(status) if status.success())
    }

    /// How it ended, in words: `exit status: 101`, `signal: 6 (SIGABRT)`, `no end within 120 s`.
    pub(crate) fn words(&self) -> String {
        match self.ended {
            Ended::Exited(status) => status.to_string(),
            Ended::TimedOut => format!("no end within {:.0} s", self.elapsed.as_secs_f64()),
            Ended::Stopped => "stopped".to_owned(),
        }
    }
}

/// Runs `command` for at most `minutes`, and passes each line of stdout and stderr to `on_line`.
///
/// On time-out or [`Line::Stop`], kills the child and all its descendants.
pub(crate) fn stream(
    command: &mut Command,
    minutes: u64,
    on_line: impl FnMut(&str) -> Line,
) -> Result<Outcome> {
    stream_for(command, Duration::from_secs(minutes * 60), on_line)
}

/// Like [`stream`], for at most `limit`.
pub(crate) fn stream_for(
    command: &mut Command,
    limit: Duration,
    mut on_line: impl FnMut(&str) -> Line,
) -> Result<Outcome> {
    let (start, limit) = (Instant::now(), at_most(limit));
    let (sender, lines) = mpsc::channel();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    read_lines(child.stdout.take(), sender.clone());
    read_lines(child.stderr.take(), sender);

    let mut spoke = start;
    let ended = loop {
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            kill_tree(&mut child);
            break Ended::TimedOut;
        }
        match lines.recv_timeout(left.min(HEARTBEAT)) {
            Ok(line) => {
                let verdict = on_line(&line);
                if verdict == Line::Show {
                    println!("{line}");
                    spoke = Instant::now();
                }
                if verdict == Line::Stop {
                    kill_tree(&mut child);
                    break Ended::Stopped;
                }
            }
            // A child may close its output long before it ends.
            Err(RecvTimeoutError::Disconnected) => match child.try_wait()? {
                Some(status) => break Ended::Exited(status),
                // Yields the processor while a child without output ends.
                None => thread::park_timeout(Duration::from_millis(20)),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        if spoke.elapsed() >= HEARTBEAT {
            println!("… {:.0} s", start.elapsed().as_secs_f64());
            spoke = Instant::now();
        }
    };
    child.wait()?;
    if ended == Ended::TimedOut {
        // The last output, often half a line, is important.
        while let Ok(line) = lines.recv_timeout(Duration::from_secs(1)) {
            if on_line(&line) == Line::Show {
                println!("{line}");
            }
        }
    }
    Ok(Outcome {
        ended,
        elapsed: start.elapsed(),
    })
}

/// Runs `command` quietly and returns how it ended and everything it printed.
pub(crate) fn capture(command: &mut Command, minutes: u64) -> Result<(Outcome, String)> {
    let mut text = String::new();
    let outcome = stream(command, minutes, |line| {
        text.push_str(line);
        text.push('\n');
        Line::Hide
    })?;
    Ok((outcome, text))
}

/// Runs `command` quietly; returns its output, or an error with it.
pub(crate) fn said(command: &mut Command, minutes: u64) -> Result<String> {
    let (outcome, said) = capture(command, minutes)?;
    let words = outcome.words();
    ensure!(outcome.success(), "{command:?}: {words}: {said}");
    Ok(said)
}

/// Runs `command` quietly; returns only its standard output, or an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = format!("{command:?}");
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn read_lines(from: Option<impl Read + Send + 'static>, to: Sender<String>) {
    let Some(from) = from else { return };
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches('\r')
                .to_owned();
            if to.send(text).is_err() {
                return;
            }
        }
    });
}

/// Kills `child` and its descendants.
fn kill_tree(child: &mut Child) {
    let parents = parents();
    let (mut pids, mut next) = (vec![child.id()], 0);
    while next < pids.len() {
        let children = parents.iter().filter(|(_, parent)| *parent == pids[next]);
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        pids.extend(children);
        next += 1;
    }
    // The child first, so that it starts nothing new; it is not reaped before `wait`, so its pid is
    // not reused.
    for pid in pids {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// The fields after the name in `/proc/PID/stat`; the name may contain anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Every process of the machine with its parent.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_read_and_failure_is_reported() {
        let (outcome, text) = capture(&mut shell("echo one; echo two >&2; exit 3"), 1).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "two"]);
        assert!(!outcome.success());
        assert_eq!(outcome.words(), "exit status: 3");
        let error = said(&mut shell("echo why; false"), 1).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        assert_eq!(said(&mut shell("echo fine"), 1).unwrap(), "fine\n");
        let error = capture(&mut Command::new("no-such-program"), 1).unwrap_err();
        assert!(error.to_string().contains("no-such-program"));
    }

    #[test]
    fn hanging_child_and_descendants_are_killed() {
        let script = "sh -c 'echo $$; exec tail -f /dev/null' & wait";
        let mut pid = None;
        let outcome = stream(&mut shell(script), 1, |line| {
            pid = line.parse().ok();
            Line::Stop
        });
        assert_eq!(outcome.unwrap().ended, Ended::Stopped);
        let pid = pid.expect("the grandchild printed its number");
        // Until its new parent reaps it, it is a zombie.
        let is_dead = || stat(pid).is_none_or(|fields| matches!(&*fields[0], "Z" | "X"));
        let watchdog = Instant::now() + LONG;
        while !is_dead() {
            assert!(Instant::now() < watchdog, "process {pid} lives on");
            thread::yield_now();
        }
    }

    #[test]
    fn endless_child_times_out() {
        let (mut command, limit) = (shell("exec tail -f /dev/null"), Duration::from_millis(50));
        let outcome = stream_for(&mut command, limit, |_| Line::Hide);
        assert_eq!(outcome.unwrap().ended, Ended::TimedOut);
    }
}
