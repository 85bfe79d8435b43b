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
    let paths = args.machine.iter().map(|path| machines(path));
    let paths = paths.collect::<Outcome<Vec<_>>>()?.concat();
    let places = paths.iter().map(|path| place(path));
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

/// The machines at `path`: those in a folder that has folders of result files, otherwise one.
fn machines(path: &Path) -> Outcome<Vec<PathBuf>> {
    let mut inner = match path.is_dir() {
        true => entries(path)?,
        false => Vec::new(),
    };
    inner.retain(|at| at.is_dir() && matches!(results(at), Ok(found) if !found.is_empty()));
    if inner.is_empty() {
        return Ok(vec![path.to_path_buf()]);
    }
    // Files beside the folders are machines too.
    Ok([inner, results(path)?].concat())
}

/// What a folder holds, in the order of the names.
fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| failed("read", folder, error))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    Ok(paths)
}

/// The result files of a folder.
fn results(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let is_result = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    Ok(entries(folder)?.into_iter().filter(is_result).collect())
}

/// A machine: the result files of a folder, or one file.
fn place(path: &Path) -> Outcome<MachineFiles> {
    let found = match path.is_dir() {
        true => results(path)?,
        false => vec![path.to_path_buf()],
    };
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
