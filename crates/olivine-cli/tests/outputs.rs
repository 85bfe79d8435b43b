//! Every output of one recorded run, compared byte by byte.
//!
//! The run is in `recorded/run.json`, its page in `recorded/report.html`, its other outputs in
//! `recorded/outputs.txt`. After an intended change, `OLIVINE_OUTPUTS=write cargo test -p
//! olivine-cli --test outputs` writes the outputs again. Read the difference before you commit it.

mod common;

use common::{TestFolder, said};
use olivine_bench::result::{ResultFile, STATISTICS, Statistic};
use olivine_bench::view::{Cell, Source, View, view};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Files of the run, in the order of the page.
const FILES: [&str; 7] = [
    "floor",
    "pingpong",
    "throughput",
    "streaming",
    "latency",
    "fanout",
    "mesh",
];

/// The page of the run.
const PAGE: &str = "report.html";

fn recorded(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    folder.join(name)
}

/// The path of a file of the run, in this folder.
fn run_file(place: &TestFolder, name: &str) -> String {
    let path = place.recorded_run().join(format!("{name}.json"));
    path.to_str().unwrap().to_owned()
}

/// The line before an output in the file of all.
fn heading(name: &str) -> String {
    format!("===== {name}\n")
}

/// Compares `found` with the recorded output `name`.
fn is_as_kept(name: &str, found: &[u8]) {
    /// One test at a time reads or writes the file of all outputs.
    static OUTPUTS: Mutex<()> = Mutex::new(());
    let _alone = OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (found, is_page) = (String::from_utf8_lossy(found), name == PAGE);
    let path = recorded(if is_page { PAGE } else { "outputs.txt" });
    let all = fs::read_to_string(&path).unwrap_or_default();
    let start = if is_page {
        0
    } else {
        let heading = heading(name);
        let at = all.find(&heading);
        at.map_or_else(|| panic!("no output {name}"), |at| at + heading.len())
    };
    let rest = &all[start..];
    let end = rest.len() - usize::from(!is_page);
    let length = rest.find("\n===== ").unwrap_or(end);
    let kept = &rest[..length];
    if std::env::var_os("OLIVINE_OUTPUTS").is_some() {
        let new = format!("{}{found}{}", &all[..start], &rest[length..]);
        return fs::write(&path, new).unwrap();
    }
    if kept == found {
        return;
    }
    let mut lines = (1..).zip(kept.lines().zip(found.lines()));
    let first = lines.find(|(_, (kept, found))| kept != found);
    panic!("{name} differs from {}: {first:?}", path.display());
}

/// The output of `bench report` for `files`, with this extension.
fn reported(files: &[&str], ending: &str) -> Vec<u8> {
    let place = TestFolder::new();
    let out = place.path().join(format!("out.{ending}"));
    let paths: Vec<String> = files.iter().map(|name| run_file(&place, name)).collect();
    let mut words = vec!["bench", "report"];
    words.extend(paths.iter().map(String::as_str));
    words.extend(["--out", out.to_str().unwrap()]);
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    fs::read(&out).unwrap()
}

#[test]
fn page_matches_the_recorded_one() {
    is_as_kept(PAGE, &reported(&FILES, "html"));
}

#[test]
fn markdown_matches_the_recorded_one() {
    is_as_kept("headline.md", &reported(&FILES, "md"));
}

/// The printed output of `bench report` for `files`.
fn printed(files: &[&str]) -> String {
    let place = TestFolder::new();
    let paths: Vec<String> = files.iter().map(|name| run_file(&place, name)).collect();
    let mut words = vec!["bench", "report"];
    words.extend(paths.iter().map(String::as_str));
    let output = place.run(&[&words[..], &["--out", "-"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn printed_tables_match_the_recorded_ones() {
    is_as_kept("printed.txt", printed(&FILES).as_bytes());
}

#[test]
fn drawings_match_the_recorded_ones() {
    let place = TestFolder::new();
    let (page, plots) = (place.path().join("r.html"), place.path().join("plots"));
    for name in ["pingpong", "throughput", "latency", "fanout"] {
        let file = run_file(&place, name);
        let mut words = vec!["bench", "report", &file];
        words.extend(["--out", page.to_str().unwrap()]);
        words.extend(["--svg", plots.to_str().unwrap()]);
        let output = place.run(&words);
        assert!(output.status.success(), "{}", said(&output));
    }
    let mut names: Vec<String> = fs::read_dir(&plots)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    is_as_kept("svg/names.txt", (names.join("\n") + "\n").as_bytes());
    for name in [
        "pingpong-closed-p50-32-b.svg",
        "throughput-saturated-rates-32-b.svg",
        "latency-open-percentiles.svg",
    ] {
        is_as_kept(&format!("svg/{name}"), &fs::read(plots.join(name)).unwrap());
    }
}

#[test]
fn machine_readable_outputs_match_the_recorded_ones() {
    is_as_kept("pingpong.csv", &reported(&["pingpong"], "csv"));
    is_as_kept("throughput.csv", &reported(&["throughput"], "csv"));
    is_as_kept("latency.hlog", &reported(&["latency"], "hlog"));
    is_as_kept("mesh.json", &reported(&["mesh"], "json"));
}

#[test]
fn comparisons_match_the_recorded_ones() {
    let place = TestFolder::new();
    let compared = |words: &[&str]| {
        // The output contains file names.
        let words = [&["bench", "compare"], words].concat();
        let output = place
            .olivine(&words)
            .current_dir(place.recorded_run())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    let [ours, theirs] = ["pingpong.json:olivine-spin", "pingpong.json:iceoryx2"];
    is_as_kept("compare.txt", &compared(&[ours, theirs]));
    is_as_kept("compare.json", &compared(&[ours, theirs, "--json"]));
    let file = "streaming.json";
    is_as_kept("compare-itself.txt", &compared(&[file, file]));
}

fn the_view() -> View {
    let place = TestFolder::new();
    let source = |name: &str| Source {
        name: name.to_owned(),
        file: ResultFile::read(Path::new(&run_file(&place, name))).unwrap(),
    };
    view(&FILES.map(source))
}

/// The number in a text of three digits, with its unit.
fn number(text: &str) -> f64 {
    let text = text.split(" [").next().unwrap().replace(',', "");
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let factor = match unit {
        "us" | "K/s" | "kB/s" => 1e3,
        "ms" | "M/s" | "MB/s" => 1e6,
        "s" | "G/s" | "GB/s" => 1e9,
        _ => 1.0,
    };
    number.parse::<f64>().unwrap() * factor
}

/// Cells of a row as one text, without tags.
fn row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells = cells.map(|cell| cell.trim().trim_matches('*'));
    let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
    cells.join(" ")
}

/// What LaTeX writes for some characters.
const LATEX: [(&str, &str); 7] = [
    ("{-}", "-"),
    ("\\textless{}", "<"),
    ("\\textgreater{}", ">"),
    ("$\\times$", "×"),
    ("$\\mu$", "µ"),
    ("\\%", "%"),
    ("\\_", "_"),
];

/// A regression: README and page disagreed about one run; one showed published messages, the other
/// received ones.
#[test]
fn all_outputs_agree() {
    let view = the_view();
    let of = |ending| String::from_utf8(reported(&FILES, ending)).unwrap();
    let (page, markdown, printed) = (of("html"), of("md"), printed(&FILES));
    let plain = |text: &str| text.replace("&lt;", "<").replace("&gt;", ">");
    let of_page = page.split("<tr").map(|part| {
        let cells = part
            .split("<td")
            .skip(1)
            .filter_map(|cell| cell.split_once('>'));
        plain(&row(cells.filter_map(|(_, cell)| cell.split('<').next())))
    });
    let of_page: Vec<String> = of_page.collect();
    let of_markdown = markdown.lines().map(|line| row(line.split('|')));
    let of_markdown: Vec<String> = of_markdown.collect();
    let printed_rows = printed.lines().map(|line| row(line.split("  ")));
    let of_terminal: Vec<String> = printed_rows.collect();
    let latex = of("tex");
    let of_latex = latex.lines().map(|line| {
        let mut line = line.trim_end_matches(" \\\\").replace("\\textbf{", "");
        for (written, meant) in LATEX {
            line = line.replace(written, meant);
        }
        row(line.split(" & ").map(|cell| cell.trim_end_matches('}')))
    });
    let of_latex: Vec<String> = of_latex.collect();
    let text = |cells: &[Cell]| row(cells.iter().map(|cell| cell.text.as_str()));
    let mut compared = 0;
    for table in view.sections.iter().flat_map(|section| &section.tables) {
        for line in &table.lines {
            let text = text(&line.cells);
            assert!(of_page.contains(&text), "not on the page: {text}");
            for cell in &line.cells {
                let Some(value) = cell.value else { continue };
                let said = number(&cell.text);
                assert!(
                    (said - value).abs() <= value.abs() * 0.006 + 0.005,
                    "{cell:?}"
                );
                compared += 1;
            }
        }
        for line in &table.without_details().lines {
            let text = text(&line.cells);
            assert!(of_markdown.contains(&text), "not in Markdown: {text}");
            assert!(of_terminal.contains(&text), "not printed: {text}");
            assert!(of_latex.contains(&text), "not in LaTeX: {text}");
        }
        for note in &table.notes {
            assert!(plain(&page).contains(note), "{note}");
            assert!(markdown.contains(note) && printed.contains(note), "{note}");
        }
    }
    assert!(compared > 500, "{compared}");
    let sentence = view.sentence.as_deref().unwrap();
    let outputs = [page.as_str(), &markdown, &printed];
    assert!(
        outputs.iter().all(|output| output.contains(sentence)),
        "{sentence}"
    );
}

/// The tables have the figures of CSV and JSON. [`all_outputs_agree`] compares what other outputs
/// say with these tables.
#[test]
fn exports_have_the_figures_of_the_tables() {
    let mut compared = 0;
    for name in FILES {
        let [csv, json] = ["csv", "json"].map(|ending| reported(&[name], ending));
        let json = String::from_utf8(json).unwrap();
        let file = ResultFile::parse(Path::new(name), &json).unwrap();
        let mut reader = csv::Reader::from_reader(csv.as_slice());
        let heads = reader.headers().unwrap().clone();
        let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), file.results.len(), "{name}");
        let mut exported = Vec::new();
        for (line, row) in lines.iter().zip(&file.results) {
            for statistic in STATISTICS {
                let value = row.measured().and_then(|found| found.value(statistic));
                let at = heads.iter().position(|head| head == statistic.name);
                let cell = value.map(|value| value.to_string()).unwrap_or_default();
                assert_eq!(line[at.unwrap()], cell, "{name} {statistic:?} {row:?}");
                exported.extend(value.map(|value| (statistic.head, value)));
            }
        }
        let place = TestFolder::new();
        let recorded = ResultFile::read(Path::new(&run_file(&place, name))).unwrap();
        let name = name.to_owned();
        let view = view(&[Source {
            name,
            file: recorded,
        }]);
        let tables = view.sections.iter().flat_map(|section| &section.tables);
        // That one has other distributions, too.
        for table in tables.filter(|table| table.title != "Percentiles") {
            for line in &table.lines {
                for (column, cell) in table.columns.iter().zip(&line.cells) {
                    let is_it = |one: &&Statistic| one.head == column.head;
                    if let (Some(_), Some(value)) = (STATISTICS.iter().find(is_it), cell.value) {
                        assert!(
                            exported.contains(&(column.head, value)),
                            "{column:?} {cell:?}"
                        );
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// The card of `files`.
fn card(files: &[&str]) -> String {
    let place = TestFolder::new();
    let [card, page] = ["card.svg", "page.md"].map(|name| place.path().join(name));
    let paths: Vec<String> = files.iter().map(|name| run_file(&place, name)).collect();
    let mut words = vec!["bench", "report"];
    words.extend(paths.iter().map(String::as_str));
    words.extend([
        "--out",
        page.to_str().unwrap(),
        "--card",
        card.to_str().unwrap(),
    ]);
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    fs::read_to_string(&card).unwrap()
}

#[test]
fn card_matches_the_recorded_one_and_says_what_the_tables_say() {
    let card = card(&FILES);
    is_as_kept("card.svg", card.as_bytes());
    let texts = card.lines().filter_map(|line| {
        let text = line.strip_prefix("<text ")?.strip_suffix("</text>")?;
        Some(text.split_once('>')?.1)
    });
    let texts: Vec<&str> = texts.collect();
    let view = the_view();
    let sentence = view.sentence.as_deref().unwrap();
    assert!(texts.join(" ").contains(sentence), "{texts:?}");
    assert!(texts.contains(&"busy machine"), "{texts:?}");
    let rows: Vec<String> = printed(&FILES)
        .lines()
        .map(|line| row(line.split("  ")))
        .collect();
    let bars: Vec<&&str> = texts.iter().filter(|text| text.ends_with(" ns")).collect();
    assert_eq!(bars.len(), 8, "{texts:?}");
    for bar in bars {
        let at = texts.iter().position(|text| text == bar).unwrap();
        let name = texts[at - 1];
        let is_it = |row: &String| row.contains(name) && row.contains(*bar);
        assert!(rows.iter().any(is_it), "{name} {bar} is not in the table");
    }
}

/// A machine and its double, so that both have the same ranks.
#[test]
fn site_has_a_column_a_page_and_badges_of_each_machine() {
    let place = TestFolder::new();
    let one = place.recorded_run();
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    let file = "pingpong.json";
    fs::copy(one.join(file), other.join(file)).unwrap();
    let site = place.path().join("site");
    let folders = [&site, &one, &other].map(|path| path.to_str().unwrap());
    let output = place.run(&[&["bench", "site"], &folders[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let read = |name: &str| fs::read_to_string(site.join(name)).unwrap();
    let index = read("index.html");
    let (first, rest) = index.split_once("Messages a second, 32 B").unwrap();
    assert!(index.contains("<h2>Our biases</h2>") && rest.contains(" M/s <small>1.</small>"));
    let view = the_view();
    let tables = view
        .sections
        .iter()
        .find(|section| section.heading.starts_with("Round trip"));
    let table = &tables.unwrap().tables[0];
    let column = |head: &str| table.columns.iter().position(|column| column.head == head);
    let (method, ratio) = (column("method").unwrap(), column("× floor").unwrap());
    let lines = table.lines.iter().filter(|line| !line.is_detail);
    let mut rank = 0;
    let mut ranked: Vec<&str> = Vec::new();
    for line in lines {
        let name = line.cells[method].text.split(' ').next().unwrap();
        if ranked.contains(&name) {
            continue;
        }
        ranked.push(name);
        rank += 1;
        let cell = format!("{} × <small>{rank}.</small>", line.cells[ratio].text);
        let row = first
            .lines()
            .find(|row| row.contains(&format!("<td class=t>{name}<td>")));
        assert_eq!(
            row.unwrap().matches(&cell).count(),
            2,
            "{name}: {cell}: {row:?}"
        );
    }
    assert!(rank > 10, "{rank}");
    let badge: serde_json::Value =
        serde_json::from_str(&read("badges/run/olivine-spin.json")).unwrap();
    let said = badge["message"].as_str().unwrap();
    assert!(
        said.starts_with("place ") && said.ends_with(" × floor"),
        "{said}"
    );
    assert!(read("badges/other/pipe.svg").contains(" × floor</text>"));
    assert!(read("run.html").contains("Full speed") && read("other.html").ends_with("</html>\n"));
}

/// Whether programs of others read each export; `ci --deep` provides them.
#[test]
fn exports_are_read_by_programs_of_others() {
    let Some(python) = std::env::var_os("OLIVINE_EXPORT_PYTHON") else {
        return common::skip("exports in Python: OLIVINE_EXPORT_PYTHON names no interpreter");
    };
    let place = TestFolder::new();
    let folder = place.path().join("exports");
    fs::create_dir(&folder).unwrap();
    for (file, ending) in [
        ("latency", "hlog"),
        ("pingpong", "csv"),
        ("latency", "json"),
    ] {
        let path = folder.join(format!("{file}.{ending}"));
        fs::write(path, reported(&[file], ending)).unwrap();
    }
    fs::write(folder.join("card.svg"), card(&FILES)).unwrap();
    let [file, page] = [
        run_file(&place, "pingpong"),
        folder.join("x.md").display().to_string(),
    ];
    let plots = folder.display().to_string();
    let output = place.run(&["bench", "report", &file, "--out", &page, "--svg", &plots]);
    assert!(output.status.success(), "{}", said(&output));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = here.join("../../docs/bench-schema.json");
    let mut read = Command::new(python);
    let read = read
        .arg(here.join("tests/recorded/read_exports.py"))
        .args([&folder, &schema]);
    let output = read.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", said(&output));
    assert!(told.contains("6 histograms, 53 rows, 1 file, "), "{told}");
}

/// Whether the libraries of Java and JavaScript read histograms; `ci --deep` provides them.
#[test]
fn exports_are_read_in_java_and_javascript() {
    let named = |name| std::env::var_os(name);
    let libraries = named("OLIVINE_EXPORT_JAR").zip(named("OLIVINE_EXPORT_NODE"));
    let Some((jar, modules)) = libraries else {
        let why = "histograms in Java and JavaScript: OLIVINE_EXPORT_JAR, OLIVINE_EXPORT_NODE";
        return common::skip(why);
    };
    let place = TestFolder::new();
    let log = place.path().join("latency.hlog");
    fs::write(&log, reported(&["latency"], "hlog")).unwrap();
    let result: ResultFile = serde_json::from_slice(&reported(&["latency"], "json")).unwrap();
    let measured = result.results.iter().filter_map(|row| row.measured());
    let expected = measured.filter_map(|found| Some(&found.distribution.as_ref()?.percentiles));
    let expected: Vec<_> = expected.collect();
    let mut java = Command::new("java");
    java.arg("-cp").arg(jar).arg(recorded("ReadHlog.java"));
    let mut node = Command::new("node");
    node.env("NODE_PATH", modules)
        .arg(recorded("read_hlog.cjs"));
    for program in [&mut java, &mut node] {
        let output = program.arg(&log).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told}{}", said(&output));
        assert_eq!(told.lines().count(), expected.len(), "{told}");
        for (line, row) in told.lines().zip(&expected) {
            let mut words = line.rsplit(' ').map(|word| word.parse::<f64>().unwrap());
            let (p99, count) = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(count, row.count as f64, "{line}");
            let is_near = |ns: f64| (p99 - ns).abs() <= 0.01 * ns;
            assert!(row.p99_ns.is_none_or(is_near), "{line}: {:?}", row.p99_ns);
        }
    }
}

/// Quoted figures are recorded figures.
#[test]
fn figures_and_readme_quote_the_recorded_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let recorded = read("results/xeon-2cpu-virtual/headline.md");
    let figures = read("docs/figures.md");
    let marks = ["<!-- figures:start -->\n", "<!-- figures:end -->"];
    let (_, quoted) = figures.split_once(marks[0]).unwrap();
    let (quoted, _) = quoted.split_once(marks[1]).unwrap();
    assert_eq!(quoted.trim(), recorded.trim());
    let folder = root.join("results/xeon-2cpu-virtual");
    let place = TestFolder::new();
    let out = place.path().join("again.md");
    let files = FILES.map(|name| folder.join(format!("{name}.json")));
    let mut words = vec!["bench", "report"];
    words.extend(files.iter().map(|path| path.to_str().unwrap()));
    words.extend(["--out", out.to_str().unwrap()]);
    let output = place.run(&words);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_to_string(&out).unwrap(), recorded);
    let readme = read("README.md");
    let (_, table) = readme.split_once("| method, 32 B |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut quoted = 0;
    for cell in table.split('|').map(str::trim) {
        if [" ns", " us", "/s"].iter().any(|unit| cell.ends_with(unit)) {
            assert!(
                recorded.contains(&format!("| {cell} |")),
                "{cell} is not recorded"
            );
            quoted += 1;
        }
    }
    assert!(quoted > 10, "{quoted}");
}

/// No file in the repository is too large to download. A run whose CPUs had each placement has
/// four times the rows, and no buckets then.
#[test]
fn recorded_files_are_small_and_packing_changes_no_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = fs::read_dir(root.join("results")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    for entry in folders
        .filter(|path| path.is_dir())
        .flat_map(|path| fs::read_dir(path).unwrap())
    {
        let (path, length) = entry
            .map(|e| (e.path(), e.metadata().unwrap().len()))
            .unwrap();
        assert!(length <= 512 << 10, "{}: {length} B", path.display());
    }
    let place = TestFolder::new();
    let packed = place.path().join("latency.json");
    let page = |file: &str| {
        let out = place.path().join("page.html");
        let words = ["bench", "report", file, "--out", out.to_str().unwrap()];
        let output = place.run(&words);
        assert!(output.status.success(), "{}", said(&output));
        fs::read(&out).unwrap()
    };
    let file = run_file(&place, "latency");
    let words = ["bench", "report", &file, "--out", packed.to_str().unwrap()];
    assert!(place.run(&words).status.success());
    assert_eq!(page(packed.to_str().unwrap()), page(&file));
}
