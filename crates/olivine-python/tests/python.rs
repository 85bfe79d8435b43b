//! Runs `tests/test_*.py` with the package as it was just built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter: the one that `cargo xtask` prepared, with numpy, else the system's.
fn python(target: &Path) -> PathBuf {
    let prepared = target.join("tools/python/bin/python3");
    if prepared.is_file() {
        prepared
    } else {
        "python3".into()
    }
}

#[test]
fn the_package_passes_its_tests() {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap();
    let target = built.ancestors().nth(2).unwrap();
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The package, with the native part beside its Python.
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("olivine");
    std::fs::create_dir(&package).unwrap();
    for name in ["__init__.py", "_aio.py"] {
        std::fs::copy(
            crate_folder.join("python/olivine").join(name),
            package.join(name),
        )
        .unwrap();
    }
    let native = built.join("libolivine_native.so");
    std::os::unix::fs::symlink(native, package.join("_native.abi3.so")).unwrap();
    let output = Command::new(python(target))
        .args(["-B", "-m", "unittest", "discover", "-v", "-s"])
        .arg(crate_folder.join("tests"))
        .env("PYTHONPATH", folder.path())
        .env(
            "OLIVINE_STUBS",
            crate_folder.join("python/olivine/_native.pyi"),
        )
        .output();
    let output = output.expect("Python is needed to test the package for it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let ran = said
        .lines()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());
    assert!(ran.unwrap_or(0) >= 40, "{said}");
    for line in said.lines().filter(|line| line.contains("... skipped")) {
        // Past the capture of output: `cargo xtask test` counts the line.
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: {line}");
    }
}
