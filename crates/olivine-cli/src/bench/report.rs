//! `olivine bench report`: result files as a page, Markdown, drawings, or text on the terminal.

use super::{files, print as show};
use crate::args::Common;
use crate::args::PageArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json};
use olivine_bench::render;
use olivine_bench::text;
use olivine_bench::view::view;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// File name for standard output.
const STDOUT: &str = "-";
/// Largest result file kept in a repository, in bytes.
pub(super) const PACKED_MAX: usize = 256 << 10;

/// Runs the command.
pub(super) fn run(args: &PageArgs, common: Common) -> Outcome {
    let is_printed = args.out == Path::new(STDOUT);
    if is_printed && common.json {
        return Err(Failure::usage(
            "--json does not go with --out -, which prints the tables: name a file, or leave \
             --json out",
        ));
    }
    if !is_printed {
        files::check_form(&args.out, args.file.len())?;
    }
    if let Some(path) = &args.card
        && path.extension().is_none_or(|ending| ending != "svg")
    {
        let path = path.display();
        return Err(Failure::usage(format!(
            "--card {path} is a picture: name a .svg file"
        )));
    }
    let mut sources = files::read(&args.file)?;
    let view = view(&sources);
    if view.sections.is_empty() {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let names = names.join(", ");
        let told = format!("there is no figure in {names}: nothing to report");
        return Err(Failure::failed(told));
    }
    let machines = sources.iter().map(|source| &source.file.machine);
    let machines: BTreeSet<_> = machines
        .map(|of| (&of.cpu_model, of.cpus_allowed))
        .collect();
    if args.card.is_some() && machines.len() > 1 {
        return Err(Failure::usage(format!(
            "--card shows one machine, and the files are of {}: name those of one",
            machines.len()
        )));
    }
    let mut written: Vec<PathBuf> = Vec::new();
    if let Some(folder) = &args.svg {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| {
            let context = format!("cannot make the folder {}", folder.display());
            Failure::Failed(anyhow::Error::new(error).context(context))
        })?;
        for (name, drawing) in render::drawings(&view) {
            let path = folder.join(format!("{name}.svg"));
            files::store(&path, drawing.as_bytes())?;
            written.push(path);
        }
    }
    if let Some(path) = &args.card {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let card = render::card(&view).ok_or_else(|| {
            let names = names.join(", ");
            Failure::failed(format!(
                "no ranking with Olivine is in {names}: there is no card"
            ))
        })?;
        files::store(path, card.as_bytes())?;
        written.push(path.clone());
    }
    if is_printed {
        return print(&folded(&show::text(&view)));
    }
    for source in &mut sources {
        if args.out.extension().is_some_and(|ending| ending == "json") {
            source.file.pack(PACKED_MAX);
        }
    }
    files::write(&args.out, &sources)?;
    written.insert(0, args.out.clone());
    let rows: usize = sources.iter().map(|source| source.file.results.len()).sum();
    if common.json {
        return print_json(&serde_json::json!({
            "rows_count": rows,
            "files": written,
        }));
    }
    let more = match written.len() - 1 {
        0 => String::new(),
        count => format!(" and {}", text::plural(count as u64, "drawing")),
    };
    print(&format!("{rows} rows in {}{more}\n", args.out.display()))
}
