//! `olivine bench compare`: two methods measured interleaved, or two result files.

use super::{Bench, files, variants};
use crate::args::{Common, CompareArgs, refuse_given};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json};
use olivine_bench::plan::Matrix;
use olivine_bench::result::compare::{CompareError, Comparison};
use olivine_bench::result::{Placement, ResultFile, Row};
use olivine_bench::scenario::{Variant, pingpong};
use olivine_bench::text;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Flags of measurements.
const METHOD_FLAGS: [&str; 7] = ["size", "cpus", "runs", "seconds", "fifo", "mlock", "save"];

/// One side of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    /// A result file, and one method of it.
    File(PathBuf, Option<String>),
    /// A method to be measured.
    Method(String),
}

/// One comparison as JSON.
#[derive(Serialize)]
struct Found {
    scenario: String,
    situation: String,
    first: String,
    second: String,
    #[serde(flatten)]
    comparison: Comparison,
    noise: bool,
    sentence: String,
}

/// Runs the command.
pub(super) fn run(args: &CompareArgs, common: Common) -> Outcome {
    match (side(&args.first), side(&args.second)) {
        (Side::File(a, first), Side::File(b, second)) => {
            refuse_given(
                &METHOD_FLAGS,
                "result files, which are compared as they were measured",
            )?;
            let sources = files::read(&[a.clone(), b.clone()])?;
            let (first, second) = (
                Chosen::new(&sources[0].file, first, &args.first),
                Chosen::new(&sources[1].file, second, &args.second),
            );
            for (side, source) in [&first, &second].into_iter().zip(&sources) {
                side.check(&source.file)?;
            }
            tell(&first, &second, common)
        }
        (Side::Method(first), Side::Method(second)) => {
            let mut variants = variants_of(&first, &args.size)?;
            let of_first = variants.len();
            variants.extend(variants_of(&second, &args.size)?);
            let bench = Bench::new("pingpong", &args.method)?;
            let mut found =
                bench.measure(|setup, watch| (pingpong::SCENARIO.run)(setup, &variants, watch))?;
            files::save(&bench.file(found.concat().into()), &args.method.save)?;
            // By variants, so that a method can be compared with itself.
            let of_second = found.split_off(of_first.min(found.len()));
            let second_file = bench.file(of_second.concat().into());
            let first_file = bench.file(found.concat().into());
            let (first, second) = (
                Chosen::new(&first_file, Some(first.clone()), &first),
                Chosen::new(&second_file, Some(second.clone()), &second),
            );
            let told = tell(&first, &second, common);
            bench.stop.cut_short()?;
            told
        }
        _ => Err(Failure::usage(
            "cannot compare a result file with a method: give two files, or two methods of \
            'olivine bench list'",
        )),
    }
}

/// A method with messages of each size.
fn variants_of(method: &str, sizes: &[u64]) -> Outcome<Vec<Variant>> {
    let mut matrix = Matrix::new(&pingpong::SCENARIO, sizes);
    matrix.method.push(method.to_owned());
    variants(&[matrix])
}

/// Rows to compare, with their name in the output.
struct Chosen<'a> {
    rows: Vec<&'a Row>,
    method: Option<String>,
    name: String,
}

impl<'a> Chosen<'a> {
    fn new(file: &'a ResultFile, method: Option<String>, name: &str) -> Self {
        let wanted = |row: &&Row| method.as_ref().is_none_or(|method| row.method == *method);
        Self {
            rows: file.results.iter().filter(wanted).collect(),
            name: name.to_owned(),
            method,
        }
    }

    /// Fails if `file` has no row of the method that was named.
    fn check(&self, file: &ResultFile) -> Outcome {
        let Some(method) = self.method.as_ref().filter(|_| self.rows.is_empty()) else {
            return Ok(());
        };
        let rows = file.results.iter();
        let methods: BTreeSet<&str> = rows.map(|row| row.method.as_str()).collect();
        let methods: Vec<&str> = methods.into_iter().collect();
        Err(Failure::failed(format!(
            "{}: there is no method '{method}' in this file; there are {}",
            self.name,
            methods.join(", ")
        )))
    }
}

/// Compares row by row, and prints a sentence for each pair.
fn tell(first: &Chosen<'_>, second: &Chosen<'_>, common: Common) -> Outcome {
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for ours in &first.rows {
        // Two named methods are compared with each other; otherwise each row with that of its
        // method.
        let named = is_of_two_methods(first, second);
        let fits = |theirs: &&&Row| {
            let same = named || ours.method == theirs.method;
            let moved = |row: &Row| {
                row.measured()
                    .is_none_or(|m| m.placement == Placement::Changed)
            };
            same && is_comparable(ours, theirs, named) && !moved(ours) && !moved(theirs)
        };
        let Some(theirs) = second.rows.iter().find(fits) else {
            continue;
        };
        let mut situation = situation(ours, named);
        if named && varies(&first.rows) {
            let settings = match ours.parameters.settings.as_str() {
                "" => "default settings",
                settings => settings,
            };
            situation.push_str(&format!(", {settings}"));
        }
        match Comparison::of(ours, theirs, ours.took_turns_with(theirs)) {
            Ok(comparison) => found.push(Found {
                scenario: ours.scenario.clone(),
                sentence: comparison.sentence(&first.name, &second.name),
                situation,
                first: first.name.clone(),
                second: second.name.clone(),
                noise: comparison.is_noise(),
                comparison,
            }),
            Err(error) => refused.push((situation, error)),
        }
    }
    if found.is_empty() {
        return Err(Failure::failed(reason(first, second, &refused)));
    }
    if common.json {
        let unmatched = first.rows.len() - found.len();
        return print_json(&serde_json::json!({
            "comparisons": found,
            "unmatched_count": unmatched,
        }));
    }
    let mut out = String::new();
    for Found {
        situation,
        sentence,
        ..
    } in &found
    {
        out.push_str(&format!("{situation}: {sentence}\n"));
    }
    for (situation, error) in refused {
        out.push_str(&format!("{situation}: {error}\n"));
    }
    print(&folded(&out))
}

/// Whether two different methods were named.
fn is_of_two_methods(first: &Chosen<'_>, second: &Chosen<'_>) -> bool {
    first.method.is_some() && second.method.is_some() && first.method != second.method
}

/// Whether a method was measured with several settings: they are then part of the situation.
fn varies(rows: &[&Row]) -> bool {
    rows.windows(2)
        .any(|pair| pair[0].parameters.settings != pair[1].parameters.settings)
}

/// Why there is no comparison.
fn reason(first: &Chosen<'_>, second: &Chosen<'_>, refused: &[(String, CompareError)]) -> String {
    if let Some((situation, error)) = refused.first() {
        return format!("{situation}: {error}");
    }
    let failure = first
        .rows
        .iter()
        .chain(&second.rows)
        .find_map(|row| match &row.outcome {
            olivine_bench::result::Outcome::Failed { reason } => {
                Some(format!("{}: {reason}", row.method))
            }
            _ => None,
        });
    failure.unwrap_or_else(|| {
        format!(
            "{} and {} have no situation in common: same scenario, size, rate and placement of \
            the CPUs are needed; measure again",
            first.name, second.name
        )
    })
}

/// Whether two rows differ only in what is compared: nothing, or the methods with their wait
/// strategies.
fn is_comparable(ours: &Row, theirs: &Row, named: bool) -> bool {
    if !named {
        return ours.is_same_situation(theirs);
    }
    let mut like = theirs.clone();
    like.parameters.wait.clone_from(&ours.parameters.wait);
    like.parameters
        .settings
        .clone_from(&ours.parameters.settings);
    like.parameters.ring_bytes = ours.parameters.ring_bytes;
    ours.is_same_situation(&like)
}

/// The common parameters of two rows, in words.
fn situation(row: &Row, named: bool) -> String {
    let of = &row.parameters;
    let mut parts = vec![row.scenario.clone()];
    if !named {
        parts.push(row.method.clone());
    }
    parts.push(text::bytes(of.size_bytes));
    if of.batch_count > 1 {
        parts.push(format!("batches of {}", of.batch_count));
    }
    parts.extend(of.rate_per_s.map(text::rate));
    if of.publishers_count + of.subscribers_count > 2 {
        parts.push(format!(
            "{} to {}",
            of.publishers_count, of.subscribers_count
        ));
    }
    if !named && !of.settings.is_empty() {
        parts.push(of.settings.clone());
    }
    parts.extend(
        row.measured()
            .map(|measured| format!("CPUs {}", measured.placement)),
    );
    parts.join(", ")
}

/// A file, a file with a method of it, or a method.
fn side(text: &str) -> Side {
    let path = Path::new(text);
    if path.exists() || text.ends_with(".json") {
        return Side::File(path.to_path_buf(), None);
    }
    match text.rsplit_once(':') {
        Some((file, method)) => Side::File(file.into(), Some(method.to_owned())),
        None => Side::Method(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: with two sizes one size was compared with the other.
    #[test]
    fn each_method_has_messages_of_every_size() {
        for method in ["olivine-spin", "pipe"] {
            let variants = variants_of(method, &[32, 64]).unwrap();
            assert!(variants.iter().all(|variant| variant.method == method));
            let sizes = variants.iter().map(|variant| variant.parameters.size_bytes);
            let sizes: BTreeSet<u64> = sizes.collect();
            assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [32, 64]);
        }
    }

    #[test]
    fn methods_and_files_are_distinguished() {
        assert_eq!(side("pipe"), Side::Method("pipe".to_owned()));
        assert_eq!(side("gone.json"), Side::File("gone.json".into(), None));
        assert_eq!(
            side("a/all.json:pipe"),
            Side::File("a/all.json".into(), Some("pipe".to_owned()))
        );
    }
}
