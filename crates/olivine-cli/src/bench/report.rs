//! `olivine bench report`: a page of result files, and its plots.

use super::files;
use crate::args::Common;
use crate::args::PageArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use std::fs;
use std::path::PathBuf;

/// Runs the command.
pub(super) fn run(args: &PageArgs, common: Common) -> Outcome {
    let sources = files::read(&args.file)?;
    let mut written: Vec<PathBuf> = vec![args.out.clone()];
    files::write(&args.out, &sources)?;
    if let Some(folder) = &args.svg {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| {
            let context = format!("cannot make the folder {}", folder.display());
            Failure::Failed(anyhow::Error::new(error).context(context))
        })?;
        for (name, drawing) in files::page(&sources)?.plots {
            let path = folder.join(format!("{name}.svg"));
            files::store(&path, drawing.as_bytes())?;
            written.push(path);
        }
    }
    let rows: usize = sources.iter().map(|source| source.file.results.len()).sum();
    if common.json {
        return print_json(&serde_json::json!({
            "rows_count": rows,
            "files": written,
        }));
    }
    let more = match written.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} plots"),
    };
    print(&format!("{rows} rows in {}{more}\n", args.out.display()))
}
