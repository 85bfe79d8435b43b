//! `include/olivine.h` is what cbindgen makes of the crate, and says the version of the crate.

use std::fs;
use std::path::Path;

const HEADER: &str = "include/olivine.h";

fn made() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_crate(folder)
        .generate()
        .unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(HEADER);
    let made = made();
    if std::env::var_os("OLIVINE_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let line = kept
        .lines()
        .zip(made.lines())
        .position(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "{HEADER} is not what the crate says, from line {:?} on: make it again by \
         'OLIVINE_WRITE_HEADER=1 cargo test -p olivine-capi --test header'",
        line.map(|line| line + 1)
    );
}

/// Every function, type and constant of the header has a comment above it: C has no other
/// documentation.
#[test]
fn everything_in_the_header_is_documented() {
    let made = made();
    let lines: Vec<_> = made.lines().collect();
    let mut declared = 0;
    for (at, line) in lines.iter().enumerate() {
        let starts = [
            "const char *olivine",
            "olivine_status olivine",
            "typedef struct",
            "enum ",
        ];
        if !starts.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        declared += 1;
        assert!(lines[at - 1].starts_with("//"), "line {}: {line}", at + 1);
    }
    assert!(declared >= 30, "{declared}");
    assert!(made.contains("OLIVINE_STATUS_BACK_PRESSURED = 401,"));
}

#[test]
fn the_header_says_the_version() {
    let version = format!("#define OLIVINE_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(
        made().contains(&version),
        "cbindgen.toml does not say {version}"
    );
}
