//! The recorded results of a machine: every method, every rival, the page and the headline tables.
//!
//! One measurement after the other, so that nothing runs in parallel; the load before each is in
//! its file. The README quotes the headline.

mod index;

use crate::cargo::{self, root, target};
use crate::child::{self, Line};
use crate::report::{Report, Step};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Seconds and runs of each variant in a trial.
const SHORT: [&str; 4] = ["--seconds", "0.05", "--runs", "1"];

/// Name of each file, seconds of each variant over all runs, arguments of `olivine bench`. In total
/// ten minutes on two CPUs: about a hundred variants with a floor beside each slice.
const MEASUREMENTS: [(&str, &str, &str); 7] = [
    ("floor", "5", "floor"),
    (
        "pingpong",
        "1.5",
        "pingpong --method all --rivals --size 32,1024",
    ),
    (
        "throughput",
        "2",
        "throughput --method all --rivals --size 32 --batch 1,16",
    ),
    (
        "streaming",
        "3",
        "throughput --size 32,1024,8192 --batch 1,16",
    ),
    ("latency", "5", "latency --rate 1K,10K,100K,1M"),
    ("fanout", "2", "fanout --subscribers 1,2,4"),
    ("mesh", "5", "mesh --publishers 6"),
];

/// File of the headline tables.
const HEADLINE: &str = "headline.md";
/// The page of figures.
pub(crate) const FIGURES: Marks = ("docs/figures.md", "figures");

/// A document, and the name of the marks around its tables, `<!-- NAME:start -->` and
/// `<!-- NAME:end -->`.
pub(crate) type Marks = (&'static str, &'static str);

/// Options of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Scope {
    /// Short runs to check that everything works: the results are not kept.
    #[arg(long, conflicts_with_all = ["quote", "keep"])]
    short: bool,
    /// Write the headline tables between the marks of `docs/figures.md`.
    #[arg(long)]
    quote: bool,
    /// Measure nothing: write page and headline from the recorded results.
    #[arg(long)]
    keep: bool,
}

/// Builds the tool, measures everything, writes files, page and headline into `results/NAME`, and
/// the list of all recorded files into its page.
pub(crate) fn run(report: &mut Report, name: &str, scope: Scope) {
    let folder = if scope.short {
        target().join("record").join(name)
    } else {
        Path::new("results").join(name)
    };
    report.run("folder", || {
        fs::create_dir_all(root().join(&folder))?;
        Ok(Step::single(true, folder.display().to_string()))
    });
    let Some(olivine) = cargo::tool(report) else {
        return;
    };
    if !scope.keep {
        for one in &MEASUREMENTS {
            report.run(one.0, || measure(&olivine, &folder, one, scope.short));
        }
    }
    for file in ["report.html", HEADLINE] {
        report.run(file, || page(&olivine, &folder, file));
    }
    if !scope.short {
        report.run("results/README.md", || put(index::PAGE, &index::text()?));
    }
    if scope.quote {
        let headline = root().join(folder).join(HEADLINE);
        report.run("figures", || put(FIGURES, &fs::read_to_string(headline)?));
    }
}

/// A name of a folder.
///
/// # Errors
///
/// Any other text.
pub(crate) fn folder(name: &str) -> Result<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let is_name = !name.is_empty() && name.chars().all(plain);
    ensure!(
        is_name,
        "no name of a folder: write letters, digits and '-'"
    );
    Ok(name.to_owned())
}

/// One measurement. Rows without figures fail the command, and are still in its file.
fn measure(
    olivine: &Path,
    folder: &Path,
    (file, seconds, words): &(&str, &str, &str),
    short: bool,
) -> Result<Step> {
    let path = folder.join(format!("{file}.json"));
    let mut command = Command::new(olivine);
    // Relative paths, such as that of the rivals, begin at the root.
    command
        .current_dir(root())
        .arg("bench")
        .args(words.split(' '));
    let length = ["--seconds", seconds];
    command.args(if short { &SHORT[..] } else { &length });
    let outcome = child::stream(command.arg("--save").arg(&path), 30, |_| Line::Show)?;
    let words = outcome.words();
    let text = fs::read_to_string(root().join(&path))
        .with_context(|| format!("olivine bench: {words}; cannot read {}", path.display()))?;
    let found: serde_json::Value = serde_json::from_str(&text)?;
    let rows = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    let count = |status: &str| rows.iter().filter(|row| row["status"] == status).count();
    let mut step = Step::new("rows");
    step.passed = count("measured");
    step.skipped = count("failed");
    if let Some(ratio) = found["measuring_error"]["ratio"].as_f64() {
        let error = (ratio.max(1.0 / ratio) - 1.0) * 100.0;
        step.note = format!("measuring error {error:.1} %");
    }
    // The file reports a row without a figure; a file without rows is an error.
    if !outcome.success() && step.skipped == 0 {
        bail!("olivine bench: {words}");
    }
    // Small enough for the repository; percentiles and curves stay the same.
    let mut pack = Command::new(olivine);
    pack.current_dir(root()).args(["bench", "report"]);
    child::output(pack.arg(&path).arg("--out").arg(&path))?;
    Ok(step)
}

/// The page or the headline, by the extension of `file`, from all results in the folder.
fn page(olivine: &Path, folder: &Path, file: &str) -> Result<Step> {
    let page = folder.join(file);
    let files = MEASUREMENTS
        .iter()
        .map(|(file, ..)| folder.join(format!("{file}.json")));
    let mut command = Command::new(olivine);
    command
        .current_dir(root())
        .args(["bench", "report"])
        .args(files);
    child::output(command.arg("--out").arg(&page))?;
    Ok(Step::single(
        root().join(&page).is_file(),
        page.display().to_string(),
    ))
}

/// Writes `text` between the marks of a document.
pub(crate) fn put((document, name): Marks, text: &str) -> Result<Step> {
    let path = root().join(document);
    let new = between(&fs::read_to_string(&path)?, name, text);
    let new = new.with_context(|| format!("{document} has no marks called {name}"))?;
    fs::write(&path, new).context(document)?;
    let note = format!("read {document} before you commit it");
    Ok(Step::single(true, note))
}

/// `document` with `text` between the marks called `name`; `None` if they are missing.
fn between(document: &str, name: &str, text: &str) -> Option<String> {
    let [start, end] = ["start", "end"].map(|place| format!("<!-- {name}:{place} -->"));
    let (before, rest) = document.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}\n{}\n{end}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers;

    #[test]
    fn documents_have_marks_and_nothing_outside_of_them_changes() {
        for (document, name) in [peers::SERVERS, peers::GENERATOR, FIGURES, index::PAGE] {
            let text = fs::read_to_string(root().join(document)).unwrap();
            let new = between(&text, name, "\nnew figures\n").expect(document);
            assert!(new.contains(":start -->\nnew figures\n<!-- "));
            assert_eq!(between(&new, name, "new figures").unwrap(), new);
            let outside = |text: &str| between(text, name, "").unwrap();
            assert_eq!(outside(&new), outside(&text));
        }
        assert_eq!(between("no marks", "http", "text"), None);
    }

    #[test]
    fn a_folder_outside_of_the_results_is_refused() {
        for name in ["", "../x", "a/b", "a b", "."] {
            assert!(folder(name).is_err(), "{name}");
        }
        assert_eq!(folder("epyc-2cpu-virtual").unwrap(), "epyc-2cpu-virtual");
    }
}
