//! Programs that come from the distribution's packages: found on the path, or installed where that is wanted.

use crate::cargo::at_most;
use crate::child;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
/// Folders of programs that are not on every user's path.
const MORE_PATH: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// What becomes of a check whose program is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is left out, and named.
    LeaveOut,
    /// The program's package is installed first.
    Install,
}

/// The first of `names` that is on the path, after trying to install `package` where that is wanted.
pub(crate) fn program(names: &[&str], package: &str, missing: Missing) -> Option<PathBuf> {
    let find = || names.iter().find_map(|name| on_the_path(name));
    find().or_else(|| {
        if missing == Missing::Install && install(&[package]) {
            find()
        } else {
            None
        }
    })
}

fn on_the_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(MORE_PATH.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Whether `package` is installed. Where nobody knows, it is taken to be: what needs it will say.
pub(crate) fn has(package: &str) -> bool {
    let asked = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .output();
    asked.map_or(true, |told| told.stdout == b"installed")
}

/// Installs packages of the distribution; `false` where that cannot be done here.
pub(crate) fn install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(", "));
    let runs = |words: &[&str], more: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(words)
            .args(more)
            .env("DEBIAN_FRONTEND", "noninteractive");
        child::capture(&mut command, at_most(INSTALL_LIMIT))
            .is_ok_and(|(outcome, _)| outcome.success())
    };
    let quietly = ["install", "-y", "-qq", "--no-install-recommends"];
    runs(&["update", "-qq"], &[]) && runs(&quietly, packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_nobody_makes_is_not_installed() {
        if Command::new("dpkg-query").arg("--version").output().is_ok() {
            assert!(has("dpkg") && !has("no-such-package-of-olivine"));
        }
    }

    #[test]
    fn a_program_is_found_and_a_missing_one_is_not() {
        let names = ["no-such-program", "sh"];
        assert!(
            program(&names, "none", Missing::LeaveOut).is_some_and(|path| path.ends_with("sh"))
        );
        assert_eq!(program(&names[..1], "none", Missing::LeaveOut), None);
    }
}
