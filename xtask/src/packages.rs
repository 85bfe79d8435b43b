//! Programs from the distribution's packages: found on the path, or installed.

use crate::child;
use crate::report::{Step, missing};
use anyhow::Result;
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Folders of programs that are not on every user's path.
const MORE_PATH: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The first of `names` that is on the path, or after an attempt to install `package`.
///
/// # Errors
///
/// [`crate::report::Missing`].
pub(crate) fn program(names: &[&str], package: &str) -> Result<PathBuf> {
    let found = || names.iter().find_map(|name| find(name));
    let installed = || install(&[package]).then(found).flatten();
    let why = || missing(format!("no {}; run `apt-get install {package}`", names[0]));
    found().or_else(installed).ok_or_else(why)
}

/// Counts the programs that are there or could be installed, each with its package. What needs a
/// missing one says so later.
pub(crate) fn each(programs: &[(&str, &str)]) -> Step {
    let mut step = Step::new("programs");
    for (name, package) in programs {
        match program(&[name], package) {
            Ok(_) => step.passed += 1,
            Err(_) => step.skipped += 1,
        }
    }
    step
}

/// A program on the path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(MORE_PATH.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}

/// Whether `package` is installed; without `dpkg` it is assumed to be: a later step reports the
/// error.
pub(crate) fn has(package: &str) -> bool {
    let words = ["--show", "--showformat=${db:Status-Status}", package];
    let asked = Command::new("dpkg-query").args(words).output();
    asked.map_or(true, |told| told.stdout == b"installed")
}

/// Installs packages of the distribution; `false` if that is impossible here.
pub(crate) fn install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(" "));
    let runs = |words: &str, packages: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words.split(' ')).args(packages);
        child::said(command.env("DEBIAN_FRONTEND", "noninteractive"), 10).is_ok()
    };
    runs("update -qq", &[]) && runs("install -y -qq --no-install-recommends", packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_not() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program"), None);
        if find("dpkg-query").is_some() {
            assert!(has("dpkg") && !has("no-such-package-of-olivine"));
        }
    }
}
