//! Our load generator beside wrk: what a request costs each of them, and how many each can drive.

use crate::cargo::at_most;
use crate::child;
use crate::hello::{self, Server};
use crate::packages::{Missing, program};
use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Requests sent at once on each connection.
const DEPTHS: [u32; 4] = [1, 16, 64, 256];
const CONNECTIONS: &str = "64";
/// Beyond the time of a run: starting, and what a busy machine takes.
const SLACK: Duration = Duration::from_secs(60);

/// What one run of a generator came to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    /// Its CPU time for a request, in nanoseconds.
    cost_ns: f64,
    per_s: f64,
}

/// A generator, and all its runs at each depth.
struct Column {
    name: &'static str,
    runs: Vec<Vec<Figures>>,
}

/// Measures all in turns and returns the table.
pub(super) fn run(tool: &Path, seconds: f64, runs: u32) -> Result<String> {
    let Some(wrk) = program(&["wrk"], "wrk", Missing::Install) else {
        bail!("wrk is not installed and cannot be: apt-get install wrk");
    };
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    let [server_cpu, .., cpu] = cpus[..] else {
        bail!(
            "a generator and a server need a CPU each: this process has {}",
            cpus.len()
        );
    };
    let server_cpu = server_cpu.to_string();
    let hello = hello::build(true)?;
    let arguments = ["--threads", "1", "--cpus", &server_cpu, "--wait", "block"];
    let server = Server::start(&hello, &arguments, None)?;
    let url = format!("{}plaintext", server.url);
    let folder = tempfile::tempdir().context("a folder for wrk's script")?;
    let each = (seconds / f64::from(runs)).max(1.0);
    let mut columns = ["wrk", "epoll", "io-uring"].map(|name| Column {
        name,
        runs: vec![Vec::new(); DEPTHS.len()],
    });
    for _ in 0..runs {
        for (place, depth) in DEPTHS.into_iter().enumerate() {
            for column in &mut columns {
                let figures = if column.name == "wrk" {
                    by_wrk(&wrk, folder.path(), &url, depth, each, cpu)?
                } else {
                    by_olivine(tool, column.name, &url, depth, each)?
                };
                column.runs[place].push(figures);
            }
        }
    }
    server.stop()?;
    Ok(table(&columns))
}

/// One run of wrk with one thread on `cpu`. A shell tells its CPU time.
fn by_wrk(
    wrk: &Path,
    folder: &Path,
    url: &str,
    depth: u32,
    seconds: f64,
    cpu: usize,
) -> Result<Figures> {
    let script = folder.join("pipeline.lua");
    fs::write(
        &script,
        format!(
            "init = function(args)\n  local one = wrk.format(nil, nil)\n  \
             batch = string.rep(one, {depth})\nend\nrequest = function() return batch end\n"
        ),
    )?;
    let mut load = Command::new("sh");
    load.args(["-c", "\"$@\"; times", "sh"])
        .arg(wrk)
        .args(["--threads", "1", "--connections", CONNECTIONS])
        .args(["--duration", &format!("{:.0}s", seconds.ceil()), "--script"])
        .arg(&script)
        .arg(url);
    let limit = at_most(Duration::from_secs_f64(seconds.ceil()) + SLACK);
    let pinned = std::thread::spawn(move || {
        let mut only = CpuSet::new();
        only.set(cpu);
        // The child has the mask of the thread that starts it.
        sched_setaffinity(None, &only)?;
        child::capture(&mut load, limit)
    });
    let (outcome, said) = match pinned.join() {
        Ok(result) => result?,
        Err(_) => bail!("the thread that starts wrk panicked"),
    };
    if !outcome.success() || said.contains("Non-2xx") || said.contains("Socket errors") {
        bail!("wrk: {} {said}", outcome.words());
    }
    read_wrk(&said).with_context(|| format!("wrk says something else: {said}"))
}

/// Requests, seconds and CPU time in what wrk and the shell say.
fn read_wrk(said: &str) -> Option<Figures> {
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    let count: f64 = line.split_whitespace().next()?.parse().ok()?;
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))?;
    // The shell's own time, then that of its children: user and system.
    let times = said.lines().rfind(|line| line.contains('m'))?;
    let seconds = |text: &str| {
        let (minutes, rest) = text.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + rest.parse::<f64>().ok()?)
    };
    let used: Option<Vec<f64>> = times.split_whitespace().map(seconds).collect();
    Some(Figures {
        cost_ns: used?.iter().sum::<f64>() * 1e9 / count,
        per_s: rate.trim().parse().ok()?,
    })
}

fn by_olivine(
    tool: &Path,
    interface: &str,
    url: &str,
    depth: u32,
    seconds: f64,
) -> Result<Figures> {
    let words = [
        ("--generator", interface.to_owned()),
        ("--depth", depth.to_string()),
        ("--connections", CONNECTIONS.to_owned()),
        ("--seconds", seconds.to_string()),
        ("--runs", "1".to_owned()),
    ];
    let words = words
        .iter()
        .flat_map(|(name, value)| [*name, value.as_str()]);
    let rows = hello::load(tool, url, words)?;
    let figure = |name: &str| rows.first()?[name]["median"].as_f64();
    let found = figure("client_ns").zip(figure("per_s"));
    let (cost_ns, per_s) = found.context("no figures")?;
    Ok(Figures { cost_ns, per_s })
}

/// Medians with least and most, and what follows from them.
fn table(columns: &[Column]) -> String {
    let mut out = "| depth |".to_owned();
    for column in columns {
        out.push_str(&format!(" {} |", column.name));
    }
    out.push_str(" wrk to the better of ours |\n|");
    out.push_str(&" --- |".repeat(columns.len() + 2));
    out.push('\n');
    for (place, depth) in DEPTHS.into_iter().enumerate() {
        let costs: Vec<[f64; 3]> = columns
            .iter()
            .map(|column| spread(column.runs[place].iter().map(|run| run.cost_ns)))
            .collect();
        out.push_str(&format!("| {depth} |"));
        for [least, median, most] in &costs {
            out.push_str(&format!(" {median:.0} ns ({least:.0} to {most:.0}) |"));
        }
        let ours = costs[1..]
            .iter()
            .map(|cost| cost[1])
            .fold(f64::MAX, f64::min);
        out.push_str(&format!(" {:.1} |\n", costs[0][1] / ours));
    }
    let most = |column: &Column| {
        let rates = column.runs.iter().zip(DEPTHS).map(|(runs, depth)| {
            let [_, median, _] = spread(runs.iter().map(|run| run.per_s));
            (median, depth)
        });
        rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    };
    let (wrk, wrk_depth) = most(&columns[0]);
    let ours = columns[1..].iter().map(most);
    let (ours, depth) = ours.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    out.push_str(&format!(
        "\nThe most that one CPU drove, the same server on the other: wrk {:.2} M requests/s (depth {wrk_depth}), \
         ours {:.2} M (depth {depth}), {:.1} times as many.\n",
        wrk / 1e6,
        ours / 1e6,
        ours / wrk
    ));
    out
}

/// Least, median and most.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.last()) {
        (Some(least), Some(most)) => [*least, values[values.len() / 2], *most],
        _ => [f64::NAN; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_and_the_shell_say_is_understood() {
        let said = "Running 1s test @ http://127.0.0.1:8000/\n  1 threads and 64 connections\n  \
            Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   675.84us  295.71us\n  \
            100000 requests in 1.00s, 12.30MB read\nRequests/sec:  99500.25\n\
            Transfer/sec:     12.30MB\n0m0.001s 0m0.002s\n0m0.250s 0m0.750s\n";
        let expected = Figures {
            cost_ns: 10_000.0,
            per_s: 99_500.25,
        };
        assert_eq!(read_wrk(said), Some(expected));
        assert_eq!(read_wrk("unable to connect"), None);
    }

    #[test]
    fn the_table_names_the_better_of_ours() {
        let column = |name, cost_ns, per_s| Column {
            name,
            runs: vec![vec![Figures { cost_ns, per_s }; 3]; DEPTHS.len()],
        };
        let text = table(&[
            column("wrk", 900.0, 1e6),
            column("epoll", 300.0, 2e6),
            column("io-uring", 450.0, 4e6),
        ]);
        assert!(
            text.contains("| 16 | 900 ns (900 to 900) | 300 ns"),
            "{text}"
        );
        assert!(text.contains(" 3.0 |"), "{text}");
        assert!(text.contains("4.0 times as many"), "{text}");
    }
}
