//! The recorded results of a machine: every method, every rival, the page and the headline of all of it.
//!
//! One measurement after the other, so that nothing runs beside them; the load before each is in its file. The README
//! quotes the headline word for word.

use crate::cargo::{at_most, root, target};
use crate::child::{self, Line};
use crate::hello;
use crate::peers::between;
use crate::report::{Report, Step};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest build and longest measurement.
const LIMIT: Duration = Duration::from_secs(1800);
/// Seconds and runs of each variant when only the way is tried.
const SHORT: [&str; 4] = ["--seconds", "0.05", "--runs", "1"];

/// What is recorded.
struct Measurement {
    /// Name of its file.
    file: &'static str,
    /// Seconds of each variant, over all runs.
    seconds: &'static str,
    /// Words of `olivine bench`.
    words: &'static str,
}

/// Chosen so that all of it takes ten minutes on two CPUs: about a hundred variants with a floor beside each slice.
const MEASUREMENTS: [Measurement; 7] = [
    Measurement {
        file: "floor",
        seconds: "5",
        words: "floor",
    },
    Measurement {
        file: "pingpong",
        seconds: "1.5",
        words: "pingpong --method all --rivals --size 32,1024",
    },
    Measurement {
        file: "throughput",
        seconds: "1",
        words: "throughput --method all --rivals --size 32 --batch 1,16",
    },
    Measurement {
        file: "streaming",
        seconds: "2",
        words: "throughput --size 32,1024,8192 --batch 1,16",
    },
    Measurement {
        file: "latency",
        seconds: "5",
        words: "latency --rate 1K,10K,100K,1M",
    },
    Measurement {
        file: "fanout",
        seconds: "2",
        words: "fanout --subscribers 1,2,4",
    },
    Measurement {
        file: "mesh",
        seconds: "5",
        words: "mesh --publishers 6",
    },
];

/// File of the headline tables.
const HEADLINE: &str = "headline.md";
/// The page of figures.
const FIGURES: &str = "docs/figures.md";
/// Where the figures stand there.
const MARKS: &str = "figures";

/// What is done besides measuring everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Scope {
    /// Only as long as it takes to see that all of it works: nothing to keep.
    #[arg(long, conflicts_with_all = ["quote", "keep"])]
    short: bool,
    /// Put the headline tables between the marks of `docs/figures.md`.
    #[arg(long)]
    quote: bool,
    /// Measure nothing: make page and headline of what is recorded.
    #[arg(long)]
    keep: bool,
}

/// Builds the tool, measures everything, writes files, page and headline into `results/NAME`.
pub(crate) fn run(report: &mut Report, name: &str, scope: Scope) {
    let folder = if scope.short {
        target().join("record").join(name)
    } else {
        Path::new("results").join(name)
    };
    let mut olivine = None;
    report.run("tool", || {
        let (step, path) = tool(name, &folder)?;
        olivine = Some(path);
        Ok(step)
    });
    let Some(olivine) = olivine else {
        return;
    };
    if !scope.keep {
        for one in &MEASUREMENTS {
            report.run(one.file, || measure(&olivine, &folder, one, scope.short));
        }
    }
    for file in ["report.html", HEADLINE] {
        report.run(file, || page(&olivine, &folder, file));
    }
    if scope.quote {
        report.run("figures", || quote(&folder));
    }
}

/// Puts the headline into the page of figures.
fn quote(folder: &Path) -> Result<Step> {
    let headline = fs::read_to_string(root().join(folder).join(HEADLINE))?;
    let path = root().join(FIGURES);
    let text = quoting(&fs::read_to_string(&path)?, &headline)?;
    fs::write(&path, text)?;
    Ok(Step::single(
        "figures",
        true,
        "read them before you commit them",
    ))
}

/// `page` with `headline` between its marks.
fn quoting(page: &str, headline: &str) -> Result<String> {
    between(page, MARKS, headline).with_context(|| {
        format!("{FIGURES} has no lines <!-- {MARKS}:start --> and <!-- {MARKS}:end -->")
    })
}

/// Builds the tool as it ships; its path.
fn tool(name: &str, folder: &Path) -> Result<(Step, PathBuf)> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if name.is_empty() || !name.chars().all(plain) {
        bail!("'{name}' is no name of a folder: letters, digits and '-'");
    }
    let folder = root().join(folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = hello::tool()?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let step = Step::single(
        "tool",
        path.is_file(),
        format!("load {load} before the start"),
    );
    Ok((step, path))
}

/// One measurement. Rows without figures fail the command and are in its file all the same.
fn measure(olivine: &Path, folder: &Path, one: &Measurement, short: bool) -> Result<Step> {
    let file = one.file;
    let path = folder.join(format!("{file}.json"));
    let mut command = Command::new(olivine);
    // Relative paths, such as that of the rivals, begin at the root.
    command.current_dir(root()).arg("bench");
    command.args(one.words.split(' '));
    if short {
        command.args(SHORT);
    } else {
        command.args(["--seconds", one.seconds]);
    }
    command.arg("--save").arg(&path);
    let outcome = child::stream(&mut command, at_most(LIMIT), |_| Line::Show)?;
    let path = root().join(path);
    let text = fs::read_to_string(&path).with_context(|| {
        let (words, path) = (outcome.words(), path.display());
        format!("olivine bench: {words}; cannot read {path}")
    })?;
    let found: serde_json::Value = serde_json::from_str(&text)?;
    let rows = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    let mut step = Step::new(file, "rows");
    step.passed = rows
        .iter()
        .filter(|row| row["status"] == "measured")
        .count();
    step.passed += usize::from(found["floor"].is_object());
    step.skipped = rows.iter().filter(|row| row["status"] == "failed").count();
    step.note = match found["measuring_error"]["ratio"].as_f64() {
        Some(ratio) => format!(
            "measuring error {:.1} %",
            (ratio.max(1.0 / ratio) - 1.0) * 100.0
        ),
        None => String::new(),
    };
    // A row without a figure is for the reader of the file; without rows something else is wrong.
    if !outcome.success() && step.skipped == 0 {
        bail!("olivine bench: {}", outcome.words());
    }
    Ok(step)
}

/// The page or the headline, by the ending of `file`, of everything in the folder.
fn page(olivine: &Path, folder: &Path, file: &str) -> Result<Step> {
    let page = folder.join(file);
    let files = MEASUREMENTS
        .iter()
        .map(|Measurement { file, .. }| folder.join(format!("{file}.json")));
    let mut command = Command::new(olivine);
    command
        .current_dir(root())
        .args(["bench", "report"])
        .args(files)
        .arg("--out")
        .arg(&page);
    child::output(&mut command)?;
    Ok(Step::single(
        file,
        root().join(&page).is_file(),
        page.display().to_string(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_outside_of_the_results_is_refused() {
        for name in ["", "../x", "a/b", "a b", "."] {
            let folder = target().join("record-test");
            let error = tool(name, &folder).unwrap_err().to_string();
            assert!(error.contains("is no name of a folder"), "{name}: {error}");
            assert!(!folder.exists());
        }
    }

    #[test]
    fn the_page_quotes_the_headline_and_nothing_else_changes() {
        let (start, end) = ("<!-- figures:start -->\n", "<!-- figures:end -->");
        let page = format!("# Title\n\n{start}old\n{end}\n\nmore\n");
        let quoted = quoting(&page, "| new |\n").unwrap();
        assert_eq!(
            quoted,
            format!("# Title\n\n{start}| new |\n{end}\n\nmore\n")
        );
        assert_eq!(quoting(&quoted, "| new |\n").unwrap(), quoted);
        let error = quoting("# Title\n", "x").unwrap_err().to_string();
        assert!(error.contains("has no lines <!-- figures:start"), "{error}");
        let real = fs::read_to_string(root().join(FIGURES)).unwrap();
        assert!(quoting(&real, "x\n").is_ok(), "the page lost its marks");
    }
}
