//! The table of all methods again and again: nothing may hang, fail or leave anything behind.
//!
//! Each run has a folder of its own for what it makes, and where we may, a System V namespace of its own, so that what
//! others on this machine do is not taken for left over.

use crate::cargo::root;
use crate::child::{self, Ended};
use crate::hello;
use crate::report::Step;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What a run may take; on an idle machine it takes less than a minute.
const LIMIT: Duration = Duration::from_secs(600);
/// Heading lines of the kernel's three lists of System V objects.
const HEADINGS: usize = 3;
/// What runs inside of the namespace: the tool, then the objects that are left.
const SCRIPT: &str = "\"$0\" bench \"$@\"; code=$?; \
    echo \"left: $(cat /proc/sysvipc/msg /proc/sysvipc/sem /proc/sysvipc/shm | wc -l)\"; exit $code";

/// Runs `olivine bench` `times` times in a row.
pub(crate) fn run(times: u32) -> Result<Step> {
    let olivine = hello::tool()?;
    let mut step = Step::new("again", "runs");
    let (mut slowest, mut hung) = (Duration::ZERO, 0);
    for number in 1..=times {
        let run = one(&olivine)?;
        println!("run {number} of {times}: {}", run.text());
        step.count(run.is_clean());
        slowest = slowest.max(run.elapsed);
        hung += usize::from(run.hung);
    }
    let seconds = slowest.as_secs_f64();
    step.note = format!("{hung} hung; the slowest took {seconds:.0} s");
    Ok(step)
}

/// What one run did, and what it left.
struct Run {
    elapsed: Duration,
    hung: bool,
    success: bool,
    /// Methods without a figure.
    without: usize,
    /// Files and folders.
    files: usize,
    /// System V objects.
    objects: usize,
    processes: usize,
}

impl Run {
    fn is_clean(&self) -> bool {
        self.success && self.without + self.files + self.objects + self.processes == 0
    }

    fn text(&self) -> String {
        format!(
            "{}, {:.0} s, {} without a figure; left: {} processes, {} files, {} kernel objects",
            match (self.hung, self.success) {
                (true, _) => "hung",
                (false, true) => "ok",
                (false, false) => "failed",
            },
            self.elapsed.as_secs_f64(),
            self.without,
            self.processes,
            self.files,
            self.objects
        )
    }
}

fn one(olivine: &Path) -> Result<Run> {
    let folder = tempfile::tempdir().context("a folder for what is measured")?;
    let mut command = namespaced();
    command
        .args(["sh", "-c", SCRIPT])
        .arg(olivine)
        .arg("--json")
        .env("OLIVINE_DIR", folder.path())
        .current_dir(root());
    let (outcome, text) = child::capture(&mut command, LIMIT)?;
    let found = text.lines().find(|line| line.starts_with('{'));
    let found: serde_json::Value = serde_json::from_str(found.unwrap_or("{}"))?;
    let rows = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    let left = text.lines().find_map(|line| line.strip_prefix("left: "));
    let lines: usize = left.and_then(|left| left.trim().parse().ok()).unwrap_or(0);
    Ok(Run {
        elapsed: outcome.elapsed,
        hung: outcome.ended == Ended::TimedOut,
        success: outcome.success() && !rows.is_empty(),
        without: rows
            .iter()
            .filter(|row| row["status"] != "measured")
            .count(),
        files: fs::read_dir(folder.path())?.count(),
        objects: lines.saturating_sub(HEADINGS),
        processes: processes_in(folder.path()),
    })
}

/// What starts a program in a System V namespace of its own, where we may; else what starts it.
fn namespaced() -> Command {
    let tried = Command::new("unshare").args(["--ipc", "true"]).output();
    let program = if tried.is_ok_and(|tried| tried.status.success()) {
        &["unshare", "--ipc"][..]
    } else {
        println!("no namespace of its own: what others have in System V counts as left");
        &["env"]
    };
    let mut command = Command::new(program[0]);
    command.args(&program[1..]);
    command
}

/// Processes that were told to use `folder`.
fn processes_in(folder: &Path) -> usize {
    let wanted = format!("OLIVINE_DIR={}", folder.display());
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    // Those of others cannot be read, and are none of ours.
    let environments = all.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments
        .filter(|text| {
            text.split(|&byte| byte == 0)
                .any(|one| one == wanted.as_bytes())
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    #[test]
    fn whatever_is_left_or_missing_makes_a_run_fail() {
        let clean = || Run {
            elapsed: Duration::from_secs(1),
            hung: false,
            success: true,
            without: 0,
            files: 0,
            objects: 0,
            processes: 0,
        };
        assert!(clean().is_clean());
        let spoilt: [fn(&mut Run); 5] = [
            |run| run.success = false,
            |run| run.without = 1,
            |run| run.files = 1,
            |run| run.objects = 1,
            |run| run.processes = 1,
        ];
        for spoil in spoilt {
            let mut run = clean();
            spoil(&mut run);
            assert!(!run.is_clean(), "{}", run.text());
        }
    }

    #[test]
    fn a_process_that_is_left_is_found_by_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(processes_in(folder.path()), 0);
        let mut left = Command::new("cat")
            .env("OLIVINE_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A program shows its environment only once it has been loaded: this one then answers.
        left.stdin.as_mut().unwrap().write_all(b"there\n").unwrap();
        let mut answer = [0; 6];
        left.stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut answer)
            .unwrap();
        assert_eq!(processes_in(folder.path()), 1);
        left.kill().unwrap();
        left.wait().unwrap();
        assert_eq!(processes_in(folder.path()), 0);
    }
}
