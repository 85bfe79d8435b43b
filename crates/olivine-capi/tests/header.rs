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

/// The variants of `name` in the errors of the library.
fn variants(errors: &str, name: &str) -> Vec<String> {
    let start = errors.find(&format!("pub enum {name} {{")).unwrap();
    let (body, _) = errors[start..].split_once("\n}").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(char::is_uppercase));
    names
        .filter_map(|line| line.split(|c: char| !c.is_alphanumeric()).next())
        .map(str::to_owned)
        .collect()
}

/// Lines of code without their comments.
fn without_comments(code: &str) -> String {
    let lines = code.lines().map(|line| line.split("//").next());
    lines.flatten().collect::<Vec<_>>().join("\n")
}

#[test]
fn every_reason_of_the_library_has_a_status() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
    let errors = read("../olivine/src/error.rs") + &read("../olivine/src/uri/error.rs");
    let statuses = without_comments(&read("src/status.rs"));
    for (name, least) in [
        ("UriError", 10),
        ("OpenError", 19),
        ("NotSent", 7),
        ("ReceiveError", 7),
    ] {
        let variants = variants(&errors, name);
        assert!(variants.len() >= least, "{name}: {variants:?}");
        for variant in variants {
            let lacks = lacks_arm(&statuses, name, &variant);
            assert!(!lacks, "{name}::{variant} has no status");
        }
    }
}

/// Whether no arm of a match has this reason.
fn lacks_arm(statuses: &str, name: &str, variant: &str) -> bool {
    let arm = format!("{name}::{variant}");
    let is_it = |text: &str| {
        let rest = text.trim_start().strip_prefix(&arm);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    // Several reasons of one arm stand between bars.
    !statuses.lines().any(|line| line.split('|').any(is_it))
}

#[test]
fn reason_in_a_comment_or_with_a_longer_name_has_no_status() {
    let statuses = without_comments(
        "// NotSent::Closed => a,\n    NotSent::Topics | NotSent::Late => b, // c\n",
    );
    for variant in ["Closed", "Topic"] {
        assert!(lacks_arm(&statuses, "NotSent", variant), "{variant}");
    }
    assert!(!lacks_arm(&statuses, "NotSent", "Topics"));
    assert!(!lacks_arm(&statuses, "NotSent", "Late"));
}
