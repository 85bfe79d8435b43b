//! Source text taken apart: code without comments and strings, comments without code, and which
//! lines are tests. Enough of Rust's grammar for text checks, not a parser.

use anyhow::Result;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// One tracked text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Taken apart; `None` where it is not Rust.
    pub(crate) rust: Option<Rust>,
}

/// A Rust file, line by line.
#[derive(Debug)]
pub(crate) struct Rust {
    pub(crate) lines: Vec<RustLine>,
    /// Modules declared as `#[cfg(test)] mod name;`.
    test_modules: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct RustLine {
    /// The line with comments, string and character contents blanked.
    pub(crate) code: String,
    /// The comments of the line, with their slashes.
    pub(crate) comment: String,
    /// Compiled for tests only.
    pub(crate) test: bool,
    /// How many inline modules enclose the line, those it opens included.
    pub(crate) depth: usize,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let rust = path.ends_with(".rs").then(|| Rust::parse(&path, &text));
        Self { path, text, rust }
    }

    /// Numbered lines, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Numbered lines of Rust, from 1.
    pub(crate) fn rust_lines(&self) -> impl Iterator<Item = (usize, &RustLine)> {
        self.rust
            .iter()
            .flat_map(|rust| rust.lines.iter())
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Numbered lines of Rust that end up in the product.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &RustLine)> {
        self.rust_lines().filter(|(_, line)| !line.test)
    }

    /// The comments on line `number` and the `above` lines before it, as one text.
    pub(crate) fn comments_near(&self, number: usize, above: usize) -> String {
        let first = number.saturating_sub(above);
        self.rust_lines()
            .filter(|(at, _)| (first..=number).contains(at))
            .map(|(_, line)| line.comment.trim())
            .filter(|comment| !comment.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// All tracked text files of the repository.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    pub(crate) fn new(mut files: Vec<File>) -> Self {
        mark_test_files(&mut files);
        Self { files }
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(
            files
                .iter()
                .map(|(path, text)| File::new(*path, *text))
                .collect(),
        )
    }

    /// Reads what git tracks (and would track: new files count before they are added).
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for path in list(root) {
            // Binary files, and files deleted but not yet committed, have no text to check.
            if let Ok(text) = fs::read_to_string(root.join(&path)) {
                files.push(File::new(path, text));
            }
        }
        anyhow::ensure!(!files.is_empty(), "no files found in {}", root.display());
        Ok(Self::new(files))
    }

    /// Files below `prefix` whose name ends in `.rs`.
    pub(crate) fn rust_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(move |f| f.rust.is_some() && f.path.starts_with(prefix))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files
            .iter()
            .any(|f| f.path == path || f.path.starts_with(&folder))
    }
}

fn list(root: &Path) -> Vec<String> {
    let git = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let names: HashSet<_> = text.split('\0').filter(|name| !name.is_empty()).collect();
            let mut names: Vec<_> = names.into_iter().map(str::to_owned).collect();
            names.sort();
            names
        }
        // An unpacked archive has no git: take every file that is not a build product.
        _ => {
            let mut names = Vec::new();
            walk(root, "", &mut names);
            names.sort();
            names
        }
    }
}

fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && name != ".git" && !name.starts_with("target") {
            walk(&entry.path(), &format!("{prefix}{name}/"), names);
        } else if kind.is_file() {
            names.push(format!("{prefix}{name}"));
        }
    }
}

/// Files that are tests as a whole: by folder, or because their parent declares them so.
fn mark_test_files(files: &mut [File]) {
    let mut whole = HashSet::new();
    for file in files.iter() {
        let Some(rust) = &file.rust else { continue };
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let stem = file.path.trim_end_matches(".rs");
        let base = match stem.rsplit('/').next() {
            Some("lib" | "main" | "mod") => folder,
            _ => stem,
        };
        for module in &rust.test_modules {
            whole.insert(format!("{base}/{module}.rs"));
            whole.insert(format!("{base}/{module}/mod.rs"));
        }
    }
    for file in files {
        let in_test_folder = ["tests", "benches"]
            .iter()
            .any(|name| file.path.split('/').rev().skip(1).any(|part| part == *name));
        let Some(rust) = &mut file.rust else { continue };
        let marked = rust
            .lines
            .iter()
            .any(|line| line.code.contains("#![cfg(test)]"));
        if in_test_folder || marked || whole.contains(&file.path) {
            for line in &mut rust.lines {
                line.test = true;
            }
        }
    }
}

impl Rust {
    fn parse(path: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let mut lines: Vec<_> = code
            .lines()
            .zip(comments.lines().chain(std::iter::repeat("")))
            .map(|(code, comment)| RustLine {
                code: code.to_owned(),
                comment: comment.trim().to_owned(),
                ..RustLine::default()
            })
            .collect();
        mark_depth(&code, &mut lines);
        let test_modules = mark_tests(&code, &mut lines);
        debug_assert!(
            lines.len() == text.lines().count(),
            "{path}: lines went missing"
        );
        Self {
            lines,
            test_modules,
        }
    }
}

/// Code and comments, each with everything else turned into spaces; line breaks stay in both.
fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = Split {
        code: String::new(),
        comments: String::new(),
    };
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let previous = at.checked_sub(1).map_or(' ', |before| chars[before]);
        let (length, kind) = token(rest, previous);
        for (offset, &c) in rest[..length].iter().enumerate() {
            // The delimiters of literals stay, so that the code keeps its shape.
            let edge = offset == 0 || offset == length - 1;
            out.push(c, kind, edge);
        }
        at += length;
    }
    (out.code, out.comments)
}

struct Split {
    code: String,
    comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Split {
    fn push(&mut self, c: char, kind: Kind, edge: bool) {
        let (code, comment) = match kind {
            _ if c == '\n' => ('\n', '\n'),
            Kind::Code => (c, ' '),
            Kind::Comment => (' ', c),
            Kind::Literal => (if edge { c } else { ' ' }, ' '),
        };
        self.code.push(code);
        self.comments.push(comment);
    }
}

/// Length and kind of what starts at `rest[0]`.
fn token(rest: &[char], previous: char) -> (usize, Kind) {
    let second = rest.get(1).copied().unwrap_or(' ');
    match rest[0] {
        '/' if second == '/' => (length_until(rest, |r| r[0] == '\n'), Kind::Comment),
        '/' if second == '*' => (block_comment(rest), Kind::Comment),
        '"' => (1 + string_tail(&rest[1..]), Kind::Literal),
        'r' | 'b' | 'c' if !is_word(previous) => match raw_string(rest) {
            Some(length) => (length, Kind::Literal),
            None => (1, Kind::Code),
        },
        '\'' => match rest.get(1..) {
            Some(['\\', _, tail @ ..]) => {
                (3 + length_until(tail, |r| r[0] == '\'') + 1, Kind::Literal)
            }
            Some([_, '\'', ..]) => (3, Kind::Literal),
            _ => (1, Kind::Code), // A lifetime.
        },
        _ => (1, Kind::Code),
    }
    .clamp_to(rest.len())
}

trait ClampTo {
    fn clamp_to(self, length: usize) -> Self;
}

impl ClampTo for (usize, Kind) {
    fn clamp_to(self, length: usize) -> Self {
        (self.0.min(length), self.1)
    }
}

fn length_until(chars: &[char], stop: impl Fn(&[char]) -> bool) -> usize {
    (0..chars.len())
        .find(|&at| stop(&chars[at..]))
        .unwrap_or(chars.len())
}

fn block_comment(rest: &[char]) -> usize {
    let mut open = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (open, at) = (open + 1, at + 2),
            ('*', '/') => (open, at) = (open - 1, at + 2),
            _ => at += 1,
        }
        if open == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of the rest of a string with escapes, closing quote included.
fn string_tail(rest: &[char]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of `r"…"`, `r#"…"#`, `br#"…"#`, `cr#"…"#`; `None` where it is something else.
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = match (rest[0], rest.get(1)) {
        ('r', _) => 1,
        ('b' | 'c', Some('r')) => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return None;
    }
    let body = prefix + hashes + 1;
    let closes = |r: &[char]| {
        r[0] == '"' && r[1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    Some(body + length_until(&rest[body..], closes) + 1 + hashes)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Notes how many `mod name {` enclose each line.
fn mark_depth(code: &str, lines: &mut [RustLine]) {
    let mut open: Vec<bool> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for (line, text) in lines.iter_mut().zip(code.lines()) {
        let modules = |open: &[bool]| open.iter().filter(|is_module| **is_module).count();
        line.depth = modules(&open);
        let mut word = String::new();
        for c in text.chars().chain([' ']) {
            if is_word(c) {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            match c {
                '{' => {
                    let is_module = words.len() >= 2 && words[words.len() - 2] == "mod";
                    open.push(is_module);
                    line.depth = line.depth.max(modules(&open));
                    words.clear();
                }
                '}' => {
                    open.pop();
                    words.clear();
                }
                ';' => words.clear(),
                _ => {}
            }
        }
    }
}

/// Marks items under `#[cfg(test)]` and `#[test]`; returns the modules declared for tests only.
fn mark_tests(code: &str, lines: &mut [RustLine]) -> Vec<String> {
    let mut modules = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].find("#[").map(|offset| at + offset) {
        let end = attribute_end(code, found);
        at = end;
        if !is_test_attribute(&code[found..end]) {
            continue;
        }
        let item = item_end(code, end);
        let body = code[end..item].trim();
        if let Some(name) = body
            .strip_suffix(';')
            .and_then(|item| item.rsplit_once("mod "))
        {
            modules.push(name.1.trim().to_owned());
        }
        let first = code[..found].matches('\n').count();
        let last = code[..item].matches('\n').count();
        for line in &mut lines[first..=last] {
            line.test = true;
        }
        at = item;
    }
    modules
}

fn is_test_attribute(attribute: &str) -> bool {
    let text: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
    if text == "#[test]" {
        return true;
    }
    let Some(condition) = text.strip_prefix("#[cfg(") else {
        return false;
    };
    // `any(test, …)` is compiled into products too.
    !condition.starts_with("any(")
        && !condition.contains("not(test")
        && words(condition).any(|word| word == "test")
}

/// The words of a text: runs of letters, digits and `_`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c))
        .filter(|word| !word.is_empty())
}

/// Whether `text` holds `word` with no letter, digit or `_` on either side.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let after = text[at + word.len()..].chars().next().unwrap_or(' ');
        let first = word.chars().next().unwrap_or(' ');
        let last = word.chars().next_back().unwrap_or(' ');
        !(is_word(first) && is_word(before) || is_word(last) && is_word(after))
    })
}

fn attribute_end(code: &str, start: usize) -> usize {
    let mut open = 0usize;
    for (offset, c) in code[start..].char_indices() {
        match c {
            '[' => open += 1,
            ']' => {
                open = open.saturating_sub(1);
                if open == 0 {
                    return start + offset + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// The end of the item that starts at `start`: its closing brace, or its semicolon or comma.
fn item_end(code: &str, start: usize) -> usize {
    let (mut braces, mut others) = (0usize, 0usize);
    // A comma ends a variant, a field or an arm; in `fn f<A, B>` it does not.
    let keywords = [
        "fn", "pub", "impl", "struct", "enum", "trait", "type", "unsafe", "async",
    ];
    let comma_ends = !words(&code[start..])
        .next()
        .is_some_and(|word| keywords.contains(&word));
    for (offset, c) in code[start..].char_indices() {
        let end = start + offset + c.len_utf8();
        match c {
            '{' => braces += 1,
            '}' if braces <= 1 => return if braces == 1 { end } else { start + offset },
            '}' => braces -= 1,
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            ';' if braces == 0 && others == 0 => return end,
            ',' if braces == 0 && others == 0 && comma_ends => return end,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let file = File::new(
            "a.rs",
            "let a = \"// unsafe\"; // why\nlet b = r#\"unsafe \" \"#; /* x\nunsafe */ let c = 'u';\n\
             let d: &'static str = \"\\\"unsafe\"; let e = '\\''; unsafe {}\n",
        );
        let lines: Vec<_> = file.rust_lines().map(|(_, line)| line).collect();
        assert!(!lines[0].code.contains("unsafe") && lines[0].comment == "// why");
        assert!(!lines[1].code.contains("unsafe") && lines[1].comment.starts_with("/* x"));
        assert!(lines[2].comment.contains("unsafe") && lines[2].code.contains("let c"));
        assert_eq!(lines[3].code.matches("unsafe").count(), 1);
    }

    #[test]
    fn test_items_are_marked_and_others_are_not() {
        let file = File::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n\
             #[cfg(not(test))]\nfn d() {}\n#[cfg(all(test, loom))]\nmod model;\nfn e() {}\n\
             #[cfg(any(test, fuzzing))]\nfn f() {}\n",
        );
        let marked: Vec<_> = file
            .rust_lines()
            .filter(|(_, l)| l.test)
            .map(|(number, _)| number)
            .collect();
        assert_eq!(marked, [2, 3, 4, 5, 9, 10]);
        assert_eq!(file.rust.unwrap().test_modules, ["model"]);
    }

    #[test]
    fn modules_declared_for_tests_are_tests_as_a_whole() {
        let tree = Tree::of(&[
            ("src/ring.rs", "#[cfg(test)]\nmod model;\nmod gate;\n"),
            ("src/ring/model.rs", "fn a() {}\n"),
            ("src/ring/gate.rs", "fn a() {}\n"),
            ("crates/x/tests/death.rs", "fn a() {}\n"),
        ]);
        let product: Vec<_> = tree
            .files
            .iter()
            .filter(|file| {
                file.product_lines()
                    .any(|(_, line)| line.code.contains("fn a"))
            })
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(product, ["src/ring/gate.rs"]);
    }

    #[test]
    fn inline_modules_are_counted() {
        let file = File::new(
            "a.rs",
            "mod m {\n  fn f() {\n    use super::x;\n  }\n}\nfn g() {}\n",
        );
        let depths: Vec<_> = file.rust_lines().map(|(_, line)| line.depth).collect();
        assert_eq!(depths, [1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(has_word("x: *mut u8", "*mut"));
        assert!(!has_word("olivine_net", "olivine"));
    }
}
