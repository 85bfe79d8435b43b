//! `olivine bench site`: machines side by side.

use super::files;
use crate::args::{Common, SiteArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use olivine_bench::render;
use olivine_bench::view::MachineFiles;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs the command.
pub(super) fn run(args: &SiteArgs, common: Common) -> Outcome {
    let places = args.machine.iter().map(|path| place(path));
    let places = places.collect::<Outcome<Vec<_>>>()?;
    let site = render::site(&places).map_err(|error| Failure::Failed(error.into()))?;
    for (name, content) in &site {
        let path = args.out.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed("make", folder, error))?;
        }
        files::store(&path, content.as_bytes())?;
    }
    if common.json {
        let names = site.iter().map(|(name, _)| name);
        return print_json(&serde_json::json!({ "files": names.collect::<Vec<_>>() }));
    }
    let index = args.out.join("index.html");
    print(&format!("{} files, {}\n", site.len(), index.display()))
}

/// A machine: the result files of a folder, in the order of their names, or one file.
fn place(path: &Path) -> Outcome<MachineFiles> {
    let mut found = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| failed("read", path, error))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_result = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
        found = paths.filter(is_result).collect();
        found.sort();
    }
    let name = files::name_of(path);
    if found.is_empty() {
        return Err(Failure::failed(format!(
            "no .json file in {}",
            path.display()
        )));
    }
    Ok(MachineFiles {
        name,
        sources: files::read(&found)?,
    })
}

fn failed(action: &str, path: &Path, error: std::io::Error) -> Failure {
    let context = format!("cannot {action} {}", path.display());
    Failure::Failed(anyhow::Error::new(error).context(context))
}
