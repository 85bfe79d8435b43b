//! `ABI.md` lists what programs are compiled against: every function with its parameters, every
//! constant with its value, and every field of every structure with its offset and size.

use crate::stage::{self, Link, Running, TestFolder, source};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

pub(crate) fn header() -> String {
    let text = fs::read_to_string(source("include/olivine.h")).unwrap();
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// The functions that the header declares, each in one line, sorted by name.
pub(crate) fn functions(header: &str) -> Vec<(String, String)> {
    let (_, declared) = header.split_once("extern \"C\" {\n").unwrap();
    let (declared, _) = declared.split_once("\n}").unwrap();
    let mut found: Vec<_> = declared
        .split(';')
        .map(|words| words.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|text| !text.is_empty())
        .map(|text| {
            let (before, _) = text.split_once('(').unwrap();
            let name = before.rsplit([' ', '*']).next().unwrap().to_owned();
            (name, text)
        })
        .collect();
    found.sort();
    found
}

/// `text` in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive(", ") {
        let last = lines.last_mut().unwrap();
        if last.len() + part.trim_end().len() > 100 {
            last.truncate(last.trim_end().len());
            lines.push(format!("    {part}"));
        } else {
            last.push_str(part);
        }
    }
    lines.join("\n")
}

/// The constants of the enumerations, with their values.
fn constants(header: &str) -> Vec<String> {
    let lines = header.lines().map(|line| line.trim_end_matches(','));
    let constants = lines.filter(|line| line.starts_with("OLIVINE_") && line.contains(" = "));
    constants.map(str::to_owned).collect()
}

/// The structures that the header defines, with their fields.
fn structures(header: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for part in header.split("typedef struct ").skip(1) {
        let Some((name, rest)) = part.split_once(" {\n") else {
            continue;
        };
        if name.contains(';') {
            continue;
        }
        let (body, _) = rest.split_once("\n}").unwrap();
        let fields = body
            .lines()
            .filter_map(|line| line.strip_suffix(';')?.rsplit([' ', '*']).next())
            .map(str::to_owned)
            .collect();
        found.push((name.to_owned(), fields));
    }
    found
}

/// A program that prints the layout of each structure.
fn program(structures: &[(String, Vec<String>)]) -> String {
    let mut text = "#include \"olivine.h\"\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (name, fields) in structures {
        writeln!(
            text,
            "printf(\"{name}: %zu bytes, aligned to %zu\\n\", sizeof({name}), _Alignof({name}));"
        )
        .unwrap();
        for field in fields {
            writeln!(
                text,
                "printf(\"    {field}: at %zu, %zu bytes\\n\", offsetof({name}, {field}), \
                 sizeof((({name} *)0)->{field}));"
            )
            .unwrap();
        }
    }
    text + "return 0;\n}\n"
}

#[test]
fn abi_document_lists_every_function_constant_and_field() {
    let header = header();
    let (functions, constants) = (functions(&header), constants(&header));
    let structures = structures(&header);
    assert!(functions.len() >= 40, "{functions:?}");
    assert!(constants.len() >= 50, "{constants:?}");
    assert!(structures.len() >= 7, "{structures:?}");
    assert!(
        structures.iter().all(|(_, fields)| !fields.is_empty()),
        "{structures:?}"
    );
    let folder = TestFolder::new();
    let file = folder.0.path().join("layout.c");
    fs::write(&file, program(&structures)).unwrap();
    let file = file.display().to_string();
    let Some(compiled) = stage::compile("cc", "c11", &file, Link::Shared) else {
        return;
    };
    let layout = Running::launch(&compiled, &[]).finish();
    let functions = functions.iter().map(|(_, text)| wrapped(text));
    let functions: Vec<_> = functions.collect();
    let made = format!(
        "{}\n\n{}\n\n{layout}\n",
        functions.join("\n"),
        constants.join("\n")
    );

    let path = source("ABI.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("```text\n").unwrap();
    let (listed, after) = rest.split_once("```").unwrap();
    if std::env::var_os("OLIVINE_WRITE_ABI").is_some() {
        fs::write(&path, format!("{before}```text\n{made}```{after}")).unwrap();
        return;
    }
    assert!(
        listed == made,
        "ABI.md is not what programs are compiled against: a changed or removed line breaks \
         programs, and the soname and the minor version must change. Write it again by \
         'OLIVINE_WRITE_ABI=1 cargo test -p olivine-capi --test programs abi'\n{made}"
    );
}

#[test]
fn shared_library_exports_the_functions_of_the_header_and_no_others() {
    let library = stage::libraries().join("libolivine_capi.so");
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output();
    let Ok(listed) = listed else {
        stage::skip("no nm, so the symbols of the shared library were not listed");
        return;
    };
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut names: Vec<_> = listed
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        // Of the standard library, and for unwinding alone.
        .filter(|name| *name != "rust_eh_personality")
        .map(str::to_owned)
        .collect();
    names.sort();
    let declared = functions(&header()).into_iter().map(|(name, _)| name);
    assert_eq!(names, declared.collect::<Vec<_>>());
}

/// What the layers in C++ call is in the list: they are compiled into programs.
#[test]
fn layers_in_cpp_call_functions_of_the_header_only() {
    let declared: Vec<_> = functions(&header())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for (file, least) in [
        ("olivine.hpp", 30),
        ("olivine_handle.hpp", 1),
        ("olivine_typed.hpp", 0),
        ("olivine_values.hpp", 0),
    ] {
        let text = fs::read_to_string(source("include").join(file)).unwrap();
        let calls = text.match_indices("olivine_").filter_map(|(at, _)| {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            let is_call = rest[end..].starts_with('(') || rest[end..].starts_with(')');
            (is_call
                && (rest.starts_with("olivine_publisher_")
                    || rest.starts_with("olivine_subscriber_")))
            .then(|| &rest[..end])
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable();
        calls.dedup();
        assert!(calls.len() >= least, "{file}: {calls:?}");
        for call in calls {
            assert!(declared.iter().any(|name| name == call), "{file}: {call}");
        }
    }
}
