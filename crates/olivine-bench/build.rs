//! Writes the commit into the build, so that each result can name the code that made it.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let commit = packed().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=OLIVINE_COMMIT={commit}");
    // The head's log grows with every commit, whatever the branch.
    if let Some(log) = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ]) {
        println!("cargo:rerun-if-changed={log}");
    }
}

/// The commit that `cargo package` wrote into the package. A repository around it is not ours.
fn packed() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = text.split_once(r#""sha1": ""#)?;
    rest.get(..12).map(str::to_owned)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
