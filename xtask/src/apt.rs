//! Packages of the system, had through `apt-get` where there is one and we may.

use crate::cargo::at_most;
use crate::child;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

/// Whether `package` is installed. Where nobody knows, it is taken to be: what needs it will say.
pub(crate) fn has(package: &str) -> bool {
    let asked = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .output();
    asked.map_or(true, |told| told.stdout == b"installed")
}

/// Installs `packages`; whether that worked.
pub(crate) fn install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(", "));
    let runs = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        child::capture(&mut command, at_most(LIMIT)).is_ok_and(|(outcome, _)| outcome.success())
    };
    let wanted: Vec<&str> = ["install", "-y", "-qq"]
        .iter()
        .chain(packages)
        .copied()
        .collect();
    runs(&["update", "-qq"]) && runs(&wanted)
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
}
