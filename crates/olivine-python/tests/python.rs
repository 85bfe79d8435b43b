//! Runs `tests/test_*.py` and the README's programs with the package as it was just built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An interpreter that finds the package, and the folder that the package and its channels are in.
fn python() -> (Command, tempfile::TempDir) {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("olivine");
    std::fs::create_dir(&package).unwrap();
    for name in ["__init__.py", "_fields.py", "aio.py"] {
        let source = source("python/olivine").join(name);
        std::fs::copy(source, package.join(name)).unwrap();
    }
    let native = built.join("libolivine_native.so");
    std::os::unix::fs::symlink(native, package.join("_native.abi3.so")).unwrap();
    // The interpreter that `cargo xtask` prepared, with numpy and mypy, else the system's.
    let target = built.ancestors().nth(2).unwrap();
    let prepared = target.join("tools/python/bin/python3");
    let is_prepared = prepared.is_file();
    let mut command = Command::new(if is_prepared {
        prepared
    } else {
        "python3".into()
    });
    command.env("PYTHONPATH", folder.path());
    (command, folder)
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_package_passes_its_tests() {
    let (mut python, _folder) = python();
    let output = python
        .args(["-B", "-m", "unittest", "discover", "-v", "-s"])
        .arg(source("tests"))
        .env("OLIVINE_STUBS", source("python/olivine/_native.pyi"))
        .output();
    let output = output.expect("Python is needed to test the package for it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let ran = said
        .lines()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok());
    assert!(ran.unwrap_or(0) >= 100, "{said}");
    for line in said.lines().filter(|line| line.contains("... skipped")) {
        // Past the capture of output: `cargo xtask test` counts the line.
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: {line}");
    }
}

#[test]
fn the_programs_of_the_readme_run() {
    let readme = std::fs::read_to_string(source("README.md")).unwrap();
    let blocks: Vec<_> = readme.split("```python\n").skip(1).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        let (mut python, folder) = python();
        python.arg("-c").arg(block.split("```").next().unwrap());
        let output = python.env("OLIVINE_DIR", folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("No module named 'numpy'") {
            use std::io::Write as _;
            let _ = writeln!(
                std::io::stderr(),
                "skipped: no numpy for a program of the README"
            );
            continue;
        }
        assert!(output.status.success(), "{said}");
        assert_eq!(output.stdout, b"b'hello'\n", "{said}");
    }
}
