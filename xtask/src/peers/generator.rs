//! Our load generator compared with wrk: CPU time per request, and the load that each can generate.

use crate::cargo::{cargo, target};
use crate::child;
use crate::packages::program;
use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Requests in flight on each connection.
const DEPTHS: [u32; 4] = [1, 16, 64, 256];
const CONNECTIONS: &str = "64";

/// CPU time of a generator for a request, in nanoseconds.
type CostNs = f64;

/// Parameters of each generator.
struct Load<'a> {
    url: &'a str,
    depth: u32,
    seconds: f64,
    /// Of the server and of the generator.
    cpus: (usize, usize),
}

/// A generator, and all its runs at each depth.
struct Column {
    name: &'static str,
    runs: Vec<Vec<CostNs>>,
}

/// The example `hello_http` as a server; dropping it ends the process.
struct Server {
    child: Child,
    /// Its root page.
    url: String,
}

impl Server {
    /// Builds it and starts it on a free port and one CPU, for ten minutes at most.
    fn start(cpu: usize) -> Result<Self> {
        let build = "build --release --package olivine-net --example hello_http";
        child::said(cargo().args(build.split(' ')), 15)?;
        let words = "--listen 127.0.0.1:0 --duration 600 --threads 1 --wait block --cpus";
        let mut command = Command::new(target().join("release/examples/hello_http"));
        command.args(words.split(' ')).arg(cpu.to_string());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("hello_http has no output")?;
        let mut server = Self {
            child,
            url: String::new(),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let rest = line.strip_prefix("listening on ");
        let address = rest.and_then(|rest| rest.split(',').next());
        let address = address.with_context(|| format!("hello_http does not listen: {line}"))?;
        server.url = format!("http://{address}/");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures all interleaved and returns the table.
pub(super) fn run(tool: &Path, seconds: f64, runs: u32) -> Result<String> {
    let wrk = program(&["wrk"], "wrk")?;
    let allowed = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let [server_cpu, cpu, ..] = cpus.collect::<Vec<_>>()[..] else {
        bail!("a generator and a server need a CPU each");
    };
    let server = Server::start(server_cpu)?;
    let url = format!("{}plaintext", server.url);
    let folder = tempfile::tempdir().context("a folder for wrk's script")?;
    let each = (seconds / f64::from(runs)).max(1.0);
    let mut columns = ["wrk", "epoll", "io-uring"].map(|name| Column {
        name,
        runs: vec![Vec::new(); DEPTHS.len()],
    });
    for _ in 0..runs {
        for (place, depth) in DEPTHS.into_iter().enumerate() {
            let load = Load {
                url: &url,
                depth,
                seconds: each,
                cpus: (server_cpu, cpu),
            };
            for column in &mut columns {
                let cost = if column.name == "wrk" {
                    by_wrk(&wrk, folder.path(), &load)?
                } else {
                    by_olivine(tool, column.name, &load)?
                };
                column.runs[place].push(cost);
            }
        }
    }
    Ok(table(&columns))
}

/// One run of wrk with one thread on its CPU. A shell reports its CPU time.
fn by_wrk(wrk: &Path, folder: &Path, load: &Load<'_>) -> Result<CostNs> {
    let script = folder.join("pipeline.lua");
    fs::write(
        &script,
        format!(
            "init = function(args)\n  local one = wrk.format(nil, nil)\n  \
             batch = string.rep(one, {})\nend\nrequest = function() return batch end\n",
            load.depth
        ),
    )?;
    let mut command = Command::new("bash");
    command
        .args(["-c", "TIMEFORMAT='%U %S'; time taskset -c \"$@\"", "bash"])
        .arg(load.cpus.1.to_string())
        .arg(wrk)
        .args(["--threads", "1", "--connections", CONNECTIONS])
        .args([
            "--duration",
            &format!("{:.0}s", load.seconds.ceil()),
            "--script",
        ])
        .arg(&script)
        .arg(load.url);
    let (outcome, said) = child::capture(&mut command, 30)?;
    if !outcome.success() || said.contains("Non-2xx") || said.contains("Socket errors") {
        bail!("wrk: {} {said}", outcome.words());
    }
    read_wrk(&said).with_context(|| format!("wrk says something else: {said}"))
}

/// CPU time per request, from the output of wrk and the shell.
fn read_wrk(said: &str) -> Option<CostNs> {
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    let count: f64 = line.split_whitespace().next()?.parse().ok()?;
    // User and system, in seconds.
    let seconds = said.lines().find_map(|line| {
        let (user, system) = line.split_once(' ')?;
        Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
    });
    Some(seconds? * 1e9 / count)
}

fn by_olivine(tool: &Path, interface: &str, load: &Load<'_>) -> Result<CostNs> {
    let Load {
        url,
        depth,
        seconds,
        cpus: (server, own),
    } = load;
    let words = format!(
        "--json bench http {url} --generator {interface} --depth {depth} --connections \
         {CONNECTIONS} \
         --seconds {seconds} --runs 1 --cpus {server},{own}"
    );
    let text = child::output(Command::new(tool).args(words.split(' ')))?;
    let found: serde_json::Value = serde_json::from_str(&text)?;
    let cost = found["results"][0]["client_ns"]["median"].as_f64();
    cost.with_context(|| format!("no figures in {text}"))
}

/// Medians with range, and the derived figures.
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
            .map(|column| spread(column.runs[place].iter().copied()))
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
    let cheapest = |column: &Column| {
        let costs = column.runs.iter().zip(DEPTHS).map(|(runs, depth)| {
            let [_, median, _] = spread(runs.iter().copied());
            (median, depth)
        });
        costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    };
    let (wrk, wrk_depth) = cheapest(&columns[0]);
    let ours = columns[1..].iter().map(cheapest);
    let (ours, depth) = ours.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    let drives = |cost_ns: f64| 1e3 / cost_ns;
    out.push_str(&format!(
        "\nBy that, one CPU drives up to {:.1} M requests/s with wrk (depth {wrk_depth}) and \
         {:.1} M with ours (depth \
         {depth}), {:.1} times as many.\n",
        drives(wrk),
        drives(ours),
        wrk / ours
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
            Transfer/sec:     12.30MB\n0.250 0.750\n";
        assert_eq!(read_wrk(said), Some(10_000.0));
        assert_eq!(read_wrk("unable to connect"), None);
    }

    #[test]
    fn the_table_names_the_better_of_ours() {
        let column = |name, cost_ns| Column {
            name,
            runs: vec![vec![cost_ns; 3]; DEPTHS.len()],
        };
        let text = table(&[
            column("wrk", 900.0),
            column("epoll", 300.0),
            column("io-uring", 450.0),
        ]);
        assert!(
            text.contains("| 16 | 900 ns (900 to 900) | 300 ns"),
            "{text}"
        );
        assert!(text.contains(" 3.0 |"), "{text}");
        assert!(
            text.contains("1.1 M requests/s with wrk (depth 1) and 3.3 M"),
            "{text}"
        );
    }
}
