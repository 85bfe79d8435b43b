//! Source text parsed by `proc-macro2`: code without comments and strings, comments without code,
//! and test lines.

use anyhow::{Context as _, Result};
use ignore::WalkBuilder;
use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::str::FromStr as _;

/// One tracked text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The parsed file; `None` if it is not Rust.
    pub(crate) rust: Option<Rust>,
}

/// A Rust file.
#[derive(Debug, Default)]
pub(crate) struct Rust {
    pub(crate) lines: Vec<RustLine>,
    /// Words, literals and punctuation in order; `::` is one token, a group is its delimiters and
    /// what is between.
    pub(crate) tokens: Vec<Token>,
    /// Modules declared as `#[cfg(test)] mod name;`.
    test_modules: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct RustLine {
    /// The line with comments and the contents of literals blanked.
    pub(crate) code: String,
    /// The comments of the line, with their slashes.
    pub(crate) comment: String,
    /// Compiled for tests only.
    pub(crate) test: bool,
    /// How many inline modules enclose the line, those it opens included.
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// From 0.
    pub(crate) line: usize,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Result<Self> {
        let (path, text) = (path.into(), text.into());
        let rust = path.ends_with(".rs").then(|| Rust::parse(&text));
        let rust = rust.transpose().with_context(|| path.clone())?;
        Ok(Self { path, text, rust })
    }

    /// Numbered lines, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Numbered lines of Rust, from 1.
    pub(crate) fn rust_lines(&self) -> impl Iterator<Item = (usize, &RustLine)> {
        (1..).zip(self.rust.iter().flat_map(|rust| &rust.lines))
    }

    /// Numbered lines of Rust that end up in the product.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &RustLine)> {
        self.rust_lines().filter(|(_, line)| !line.test)
    }

    /// The comments of line `number` and of the `above` lines before it, with the rest of a comment
    /// that begins further up.
    pub(crate) fn comments(&self, number: usize, above: usize) -> String {
        let lines = self.rust.as_ref().map_or(&[][..], |rust| &rust.lines);
        let mut first = number.saturating_sub(1 + above);
        let goes_on =
            |at: usize| !lines[at].comment.is_empty() && !lines[at - 1].comment.is_empty();
        while first > 0 && goes_on(first) {
            first -= 1;
        }
        let comments = lines[first..number]
            .iter()
            .map(|line| line.comment.as_str());
        comments.collect::<Vec<_>>().join("\n")
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
        let file = |(path, text): &(&str, &str)| File::new(*path, *text).unwrap();
        Self::new(files.iter().map(file).collect())
    }

    /// Reads all files that `.gitignore` does not name: new files count before they are added. An
    /// unpacked archive works too.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut walk = WalkBuilder::new(root);
        walk.hidden(false).require_git(false).git_global(false);
        walk.filter_entry(|entry| entry.file_name() != ".git");
        let mut files = Vec::new();
        for entry in walk.sort_by_file_path(Path::cmp).build() {
            let entry = entry?;
            // Folders and binary files have no text.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                let path = entry.path().strip_prefix(root)?;
                files.push(File::new(path.display().to_string(), text)?);
            }
        }
        anyhow::ensure!(!files.is_empty(), "no files found in {}", root.display());
        Ok(Self::new(files))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Files below `prefix` whose name ends in `.rs`.
    pub(crate) fn rust_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a File> {
        let files = self.files.iter();
        files.filter(move |file| file.rust.is_some() && file.path.starts_with(prefix))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let mut files = self.files.iter();
        files.any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

/// Marks files that are tests as a whole: by folder, or because their parent declares them so.
fn mark_test_files(files: &mut [File]) {
    let mut whole = HashSet::new();
    for file in files.iter() {
        let Some(rust) = &file.rust else { continue };
        let stem = file.path.trim_end_matches(".rs");
        let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let base = match name {
            "lib" | "main" | "mod" => folder,
            _ => stem,
        };
        for module in &rust.test_modules {
            whole.insert(format!("{base}/{module}.rs"));
            whole.insert(format!("{base}/{module}/mod.rs"));
        }
    }
    for file in files {
        let in_folder = |name: &str| file.path.split('/').rev().skip(1).any(|part| part == name);
        let is_test = in_folder("tests") || in_folder("benches") || whole.contains(&file.path);
        let Some(rust) = &mut file.rust else { continue };
        let inner = |line: &RustLine| line.code.contains("#![cfg(test)]");
        if is_test || rust.lines.iter().any(inner) {
            rust.lines.iter_mut().for_each(|line| line.test = true);
        }
    }
}

impl Rust {
    fn parse(text: &str) -> Result<Self> {
        let stream = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut rust = Self::default();
        rust.lines
            .resize_with(text.lines().count(), RustLine::default);
        let blank = |text: &str| text.replace(|c| c != '\n', " ");
        let (mut code, mut comments, mut end) = (String::new(), String::new(), 0);
        let mut leaf = |rust: &mut Self, token: String, span: Span| {
            let range = span.byte_range();
            let own = &text[range.clone()];
            code += &blank(&text[end..range.start]);
            comments += &text[end..range.start];
            if own.len() > 2 && own.contains(['"', '\'']) {
                // The edges of a literal stay, so that the code keeps its shape: both are ASCII.
                let (inner, last) = (1..own.len() - 1, own.len() - 1);
                code += &format!("{}{}{}", &own[..1], blank(&own[inner]), &own[last..]);
            } else {
                code += own;
            }
            comments += &blank(own);
            end = range.end;
            let line = span.start().line - 1;
            rust.tokens.push(Token { text: token, line });
        };
        rust.walk(stream, text, &mut leaf);
        code += &blank(&text[end..]);
        comments += &text[end..];
        proc_macro2::extra::invalidate_current_thread_spans();
        let both = code.lines().zip(comments.lines());
        for (line, (code, comment)) in rust.lines.iter_mut().zip(both) {
            line.code = code.to_owned();
            line.comment = comment.trim().to_owned();
        }
        Ok(rust)
    }

    /// Passes every token of a group to `leaf`; marks tests and inline modules on the way.
    fn walk(
        &mut self,
        stream: TokenStream,
        text: &str,
        leaf: &mut impl FnMut(&mut Self, String, Span),
    ) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let is = |at: usize, text: &str| trees.get(at).is_some_and(|tree| is_token(tree, text));
        for (at, tree) in trees.iter().enumerate() {
            // A doc comment is an attribute: it stays between the tokens.
            let own = &text[tree.span().byte_range()];
            if own.starts_with("//") || own.starts_with("/*") {
                continue;
            }
            match tree {
                TokenTree::Group(group) => {
                    if at >= 2 && is(at - 2, "mod") && group.delimiter() == Delimiter::Brace {
                        let (first, last) = (group.span_open(), group.span_close());
                        for line in &mut self.lines[first.start().line - 1..last.end().line] {
                            line.depth += 1;
                        }
                    }
                    if at >= 1 && is(at - 1, "#") && is_test_attribute(&group.stream().to_string())
                    {
                        self.mark_item(&trees, at);
                    }
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    leaf(self, open.to_owned(), group.span_open());
                    self.walk(group.stream(), text, leaf);
                    leaf(self, close.to_owned(), group.span_close());
                }
                tree => {
                    leaf(self, tree.to_string(), tree.span());
                    let pair =
                        is(at, ":") && at >= 1 && is(at - 1, ":") && is_joint(&trees[at - 1]);
                    if pair {
                        self.tokens.pop();
                        self.tokens.pop();
                        let line = tree.span().start().line - 1;
                        let text = "::".to_owned();
                        self.tokens.push(Token { text, line });
                    }
                }
            }
        }
    }

    /// Marks the item behind the attribute at `at` as one for tests.
    fn mark_item(&mut self, trees: &[TokenTree], at: usize) {
        let mut item = at + 1;
        while trees.get(item).is_some_and(|tree| is_token(tree, "#")) {
            item += 2;
        }
        // A comma ends a variant, a field or an arm; in `fn f<A, B>` it does not.
        let keywords = "fn pub impl struct enum trait type unsafe async const static mod use";
        let begins = trees.get(item).map(ToString::to_string).unwrap_or_default();
        let is_item = keywords.split(' ').any(|word| word == begins);
        let ends = |tree: &TokenTree| match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            tree => is_token(tree, ";") || !is_item && is_token(tree, ","),
        };
        let rest = &trees[item.min(trees.len())..];
        let length = rest.iter().position(ends).map_or(rest.len(), |at| at + 1);
        if let [
            ..,
            TokenTree::Ident(word),
            TokenTree::Ident(name),
            semicolon,
        ] = &rest[..length]
            && word == "mod"
            && is_token(semicolon, ";")
        {
            self.test_modules.push(name.to_string());
        }
        let last = rest[..length]
            .last()
            .unwrap_or(&trees[at])
            .span()
            .end()
            .line;
        for line in &mut self.lines[trees[at].span().start().line - 1..last] {
            line.test = true;
        }
    }
}

fn is_token(tree: &TokenTree, text: &str) -> bool {
    match tree {
        TokenTree::Ident(ident) => ident == text,
        TokenTree::Punct(punct) => text.chars().eq([punct.as_char()]),
        _ => false,
    }
}

fn is_joint(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint)
}

/// `test` and `cfg(test)`, not conditions of product code: `any(test, …)`, `not(test)`.
fn is_test_attribute(attribute: &str) -> bool {
    let text: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
    text == "test"
        || text.strip_prefix("cfg(").is_some_and(|condition| {
            !condition.starts_with("any(")
                && !condition.contains("not(test")
                && has_word(condition, "test")
        })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `text` holds `word` with no letter, digit or `_` on either side.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let mut places = text.match_indices(word);
    places.any(|(at, _)| is_word_at(text, word, at))
}

/// Whether `word`, which begins at byte `at` of `text`, is not part of a longer word.
pub(crate) fn is_word_at(text: &str, word: &str, at: usize) -> bool {
    let joins = |inside: Option<char>, outside: Option<char>| {
        inside.is_some_and(is_word) && outside.is_some_and(is_word)
    };
    let after = text[at + word.len()..].chars().next();
    !joins(word.chars().next(), text[..at].chars().next_back())
        && !joins(word.chars().next_back(), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str, holds: impl Fn(&RustLine) -> bool) -> Vec<usize> {
        let file = File::new("a.rs", text).unwrap();
        let lines = file.rust_lines().filter(|(_, line)| holds(line));
        lines.map(|(number, _)| number).collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let text = "let a = \"// unsafe\"; // why\nlet b = r#\"unsafe \" \"#; /* x\nunsafe */ let \
        c = 'u';\n\
             let d: &'static str = \"\\\"unsafe\"; let e = '\\''; unsafe {}\n/// unsafe\nfn f() \
             {}\n";
        let file = File::new("a.rs", text).unwrap();
        let lines: Vec<_> = file.rust_lines().map(|(_, line)| line).collect();
        let has_code = |line: usize| lines[line].code.contains("unsafe");
        assert!(!has_code(0) && !has_code(1) && !has_code(2) && !has_code(4));
        assert_eq!(lines[0].comment, "// why");
        assert!(lines[1].comment.starts_with("/* x"));
        assert!(lines[2].comment.contains("unsafe") && lines[2].code.contains("let c"));
        assert_eq!(lines[3].code.matches("unsafe").count(), 1);
        assert_eq!(lines[4].comment, "/// unsafe");
        assert!(
            file.rust
                .unwrap()
                .tokens
                .iter()
                .all(|token| token.text != "doc")
        );
    }

    #[test]
    fn test_items_are_marked_and_others_are_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n\
             #[cfg(not(test))]\nfn d() {}\n#[cfg(all(test, loom))]\nmod model;\nfn e() {}\n\
             #[cfg(any(test, fuzzing))]\nfn f() {}\n#[test]\n#[inline]\nfn g<A, B>() {\n}\n\
             enum E {\n#[cfg(test)]\nA,\nB }\n";
        let marked = numbers(text, |line| line.test);
        assert_eq!(marked, [2, 3, 4, 5, 9, 10, 14, 15, 16, 17, 19, 20]);
    }

    #[test]
    fn modules_declared_for_tests_are_tests_as_a_whole() {
        let tree = Tree::of(&[
            ("src/ring.rs", "#[cfg(test)]\nmod model;\nmod gate;\n"),
            ("src/ring/model.rs", "fn a() {}\n"),
            ("src/ring/gate.rs", "fn a() {}\n"),
            ("crates/x/tests/death.rs", "fn a() {}\n"),
        ]);
        let declares = |file: &&File| file.product_lines().any(|(_, l)| l.code.contains("fn a"));
        let product: Vec<_> = tree
            .files
            .iter()
            .filter(declares)
            .map(|f| &f.path)
            .collect();
        assert_eq!(product, ["src/ring/gate.rs"]);
    }

    #[test]
    fn inline_modules_are_counted() {
        let text = "mod m {\n  fn f() {\n    use super::x;\n  }\n}\nfn g() {}\n";
        assert_eq!(numbers(text, |line| line.depth == 1), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("unsafe { }", "unsafe") && has_word("x: *mut u8", "*mut"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("olivine_net", "olivine"));
    }
}
