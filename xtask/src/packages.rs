//! `ci --deep --only packages`: builds what users install, and tries each in a clean place.

use crate::cargo::{root, target, without_ours};
use crate::child::{self, Ended, Line};
use crate::report::{self, Report, Step, missing};
use crate::tools;
use anyhow::Result;
use std::process::Command;

/// Programs that the scripts need, each with its package.
const PROGRAMS: [(&str, &str); 6] = [
    ("musl-gcc", "musl-tools"),
    ("strip", "binutils"),
    ("dpkg-deb", "dpkg"),
    ("debootstrap", "debootstrap"),
    ("buildah", "buildah"),
    ("python3", "python3-venv"),
];
/// Exit code of a script that cannot run here. It says what is missing in a line.
const MISSING: i32 = 3;

/// The archive, the package of Debian and the image; the tool from packed crates; the wheels; the
/// tool by a profile; the site.
pub(crate) fn run(report: &mut Report) {
    report.run("programs", || Ok(tools::each(&PROGRAMS)));
    for (step, path) in [
        ("archives", "packages/package.sh"),
        ("crates", "packages/crates.sh"),
        ("wheels", "crates/olivine-python/wheel.sh"),
        ("profile", "packages/pgo.sh"),
        ("book", "docs/book/build.sh"),
    ] {
        report.run(step, || {
            let mut script = Command::new(root().join(path));
            script.current_dir(root());
            script.env("CARGO_TARGET_DIR", std::path::absolute(target())?);
            without_ours(&mut script);
            checks(&mut script)
        });
    }
}

/// Runs a script and counts its lines that begin with `ok: `.
fn checks(script: &mut Command) -> Result<Step> {
    let (mut step, mut lacks) = (Step::new("checks"), String::new());
    let outcome = child::stream(script, 60, |line| {
        if line.starts_with("ok: ") {
            step.passed += 1;
            report::keep(line);
        } else if let Some(what) = line.strip_prefix("missing: ") {
            what.clone_into(&mut lacks);
        }
        Line::Show
    })?;
    if matches!(outcome.ended, Ended::Exited(status) if status.code() == Some(MISSING)) {
        return Err(missing(lacks));
    }
    if !outcome.success() {
        step.failed = 1;
        step.note = outcome.words();
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Result<Step> {
        checks(Command::new("sh").args(["-c", text]))
    }

    #[test]
    fn script_is_counted_and_what_it_lacks_is_reported() {
        let step = shell("echo ok: one; echo other; echo ok: two").unwrap();
        assert_eq!((step.passed, step.failed), (2, 0));
        let step = shell("echo ok: one; exit 1").unwrap();
        assert_eq!((step.passed, step.failed), (1, 1));
        let error = shell("echo ok: one; echo missing: no tool >&2; exit 3").unwrap_err();
        assert!(error.is::<report::Missing>());
        assert_eq!(error.to_string(), "no tool");
    }
}
