//! Reports: complete, self-contained, small, and consistent with their rows.

mod common;

use olivine_bench::render::{BYTES_MAX, drawings, html};
use olivine_bench::result::{Load, Outcome, Parameters, ResultFile};
use olivine_bench::view::{Source, View, view};
use std::collections::BTreeSet;
use std::sync::LazyLock;

fn source(name: &str, file: ResultFile) -> Source {
    Source {
        name: name.to_owned(),
        file,
    }
}

static EVERYTHING: LazyLock<View> = LazyLock::new(|| {
    let sources = [
        source("pingpong", common::round_trips()),
        source("sweep", common::sweep()),
        source("rates", common::rates()),
    ];
    view(&sources)
});

/// Every element that is opened is closed, in order. Cells and rows of a table need no end.
fn is_well_formed(markup: &str) -> Result<(), String> {
    let ends = |open: &mut Vec<&str>, names: &[&str]| {
        while open.last().is_some_and(|last| names.contains(last)) {
            open.pop();
        }
    };
    const VOID: [&str; 6] = ["meta", "!doctype", "line", "path", "circle", "rect"];
    let mut open: Vec<&str> = Vec::new();
    for piece in markup.split('<').skip(1) {
        let Some((tag, _)) = piece.split_once('>') else {
            return Err(format!(
                "a tag without an end: {}",
                &piece[..piece.len().min(40)]
            ));
        };
        if let Some(name) = tag.strip_prefix('/') {
            if name == "tbody" {
                ends(&mut open, &["td", "tr"]);
            }
            let opened = open.pop();
            if opened != Some(name) {
                return Err(format!("</{name}> closes {opened:?}"));
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        match name {
            "td" => ends(&mut open, &["td"]),
            "tr" => ends(&mut open, &["td", "tr"]),
            _ => {}
        }
        if !tag.ends_with('/') && !VOID[..2].contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("never closed: {open:?}"))
    }
}

#[test]
fn a_report_is_one_whole_file_that_names_nothing_outside() {
    let html = &html(&EVERYTHING).unwrap();
    // The browser test looks at it.
    std::fs::write(
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html"),
        html,
    )
    .unwrap();
    assert!(html.len() < BYTES_MAX, "{} bytes", html.len());
    is_well_formed(html).unwrap();
    for outside in [
        "http:", "https:", "src=", "@import", "url(", "<script", "<link", "file://",
    ] {
        assert!(!html.contains(outside), "the page says {outside}");
    }
    let mut links = 0;
    for link in html.split("href=\"").skip(1) {
        let target = link.split('"').next().unwrap();
        let id = target
            .strip_prefix('#')
            .unwrap_or_else(|| panic!("a link leads to {target}"));
        assert!(
            html.contains(&format!("id=\"{id}\"")),
            "nothing is called {id}"
        );
        links += 1;
    }
    assert!(links >= 5);
    for needed in [
        "prefers-color-scheme:dark",
        "@media print",
        "name=\"viewport\"",
        "lang=\"en\"",
    ] {
        assert!(html.contains(needed), "the page lacks {needed}");
    }
}

#[test]
fn every_plot_is_a_separate_drawing_with_n_and_unit_at_each_point() {
    let plots = drawings(&EVERYTHING);
    let names: BTreeSet<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), plots.len(), "two plots have one name");
    for kind in [
        "pingpong-closed-p50",
        "pingpong-closed-percentiles",
        "pingpong-closed-slices",
        "throughput-saturated-rates-32-b",
    ] {
        assert!(names.contains(kind), "{kind} is missing in {names:?}");
    }
    for part in [
        "by-rate",
        "by-size",
        "by-ring",
        "by-subscribers",
        "mesh-",
        "pairs-",
    ] {
        assert!(
            names.iter().any(|name| name.contains(part)),
            "{part} is missing in {names:?}"
        );
    }
    let page = html(&EVERYTHING).unwrap();
    assert_eq!(page.matches("<figure>").count(), plots.len());
    for (name, drawing) in &plots {
        is_well_formed(drawing).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            drawing.contains("xmlns=\"http://www.w3.org/2000/svg\""),
            "{name}"
        );
        assert!(
            !drawing.contains("NaN") && !drawing.contains("inf"),
            "{name} has no numbers"
        );
        assert!(
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "{name}"
        );
        let notes: Vec<&str> = drawing.split("<title>").skip(1).collect();
        let has_marks = !["percentiles", "slices"]
            .iter()
            .any(|kind| name.contains(kind));
        assert!(!has_marks || !notes.is_empty(), "{name}");
        for note in notes {
            let note = note.split('<').next().unwrap();
            let unit = [" ns", " us", " ms", "/s"]
                .iter()
                .any(|unit| note.contains(unit));
            assert!(unit && note.contains("n = "), "{name}: {note}");
        }
    }
}

#[test]
fn every_row_is_in_a_table_and_failures_say_why() {
    let files = [common::round_trips(), common::sweep(), common::rates()];
    let rows: usize = files.iter().map(|file| file.results.len()).sum();
    let mut shown = 0;
    for section in &EVERYTHING.sections {
        let titles = ["Percentiles", "Published elsewhere"];
        let ranked = section.tables.iter();
        let ranked = ranked.filter(|table| !titles.contains(&table.title.as_str()));
        shown += ranked.map(|table| table.lines.len()).sum::<usize>() + section.failures.len();
    }
    assert_eq!(shown, rows);
    let html = html(&EVERYTHING).unwrap();
    assert!(html.contains("no figure: sysv-queue, 32 B: no answer within 20 s &lt;stopped&gt;"));
    assert!(html.contains("another thread, at 4.0 s"));
    assert!(html.contains("Olive README") && html.contains("4 cores at 3.5 GHz"));
    assert!(html.contains("far apart") && html.contains("shared L3"));
}

/// A regression: sizes were mixed in one ranking, and the first figure was that of another library.
#[test]
fn each_size_has_a_ranking_and_the_first_sentence_is_about_olivine() {
    let view = view(&[source("rates", common::rates())]);
    let full_speed = &view.sections[0];
    let titles: Vec<&str> = full_speed
        .tables
        .iter()
        .map(|table| table.title.as_str())
        .collect();
    let sizes: Vec<&str> = titles
        .iter()
        .filter_map(|title| title.split(',').next())
        .collect();
    assert_eq!(sizes, ["32 B", "256 B", "8 KiB"]);
    for table in &full_speed.tables {
        let rates: Vec<f64> = table
            .without_details()
            .lines
            .iter()
            .map(|line| {
                let at = table.without_details();
                let at = at
                    .columns
                    .iter()
                    .position(|column| column.head == "messages");
                line.cells[at.unwrap()].value.unwrap()
            })
            .collect();
        assert!(
            rates.len() == 4 && rates.iter().rev().is_sorted(),
            "{rates:?}"
        );
    }
    let sentence = view.sentence.unwrap();
    let expected = "Olivine passes 280 M/s of 32 B; 3.56 × faster than disruptor, \
                    103 × faster than iceoryx2.";
    assert_eq!(sentence, expected);
    let round_trips = view_of_round_trips();
    let sentence = round_trips.sentence.as_deref().unwrap();
    assert!(
        sentence.starts_with("Olivine passes 32 B and back in "),
        "{sentence}"
    );
    let page = html(&round_trips).unwrap();
    let first = page.split("<p class=\"").nth(1).unwrap();
    assert!(first.starts_with("sentence"), "{first}");
}

/// A regression: tables of bridges said that the client was measured later.
#[test]
fn rows_are_called_apart_only_if_their_runs_took_no_turns() {
    let notes = |theirs: &str, sessions: [&str; 2]| {
        let of = |(method, session): (&str, &str)| {
            let mut rows = common::rows(&common::Kind {
                scenario: "bridge-stored",
                method,
                parameters: Parameters::pair(32),
                value: 1e5,
                load: Load::Saturated,
                samples: 0,
            });
            for row in &mut rows {
                if let Outcome::Measured(measured) = &mut row.outcome {
                    measured.session = Some(session.to_owned());
                }
            }
            rows
        };
        let rows = ["nats://", theirs].into_iter().zip(sessions);
        let rows = rows.flat_map(of).collect();
        let view = view(&[source("bridge", common::file("bridge", rows))]);
        view.sections[0].tables[0].notes.join("; ")
    };
    let together = notes("NATS client", ["a", "a"]);
    assert!(together.starts_with("olivine: place "), "{together}");
    assert!(!together.contains("measured later"), "{together}");
    let apart = notes("NATS client", ["a", "b"]);
    assert!(
        apart.starts_with("libraries of others: measured later"),
        "{apart}"
    );
    let apart = notes("pipe", ["a", "b"]);
    assert!(
        apart.starts_with("the runs of some rows did not"),
        "{apart}"
    );
}

fn view_of_round_trips() -> View {
    view(&[source("pingpong", common::round_trips())])
}

#[test]
fn what_may_not_be_quoted_says_so() {
    let mut file = common::round_trips();
    file.runs = 3;
    file.interrupted = true;
    let html = html(&view(&[source("odd <name>", file)])).unwrap();
    let said = "odd &lt;name&gt;: only 3 runs, 5 are needed; stopped before its end.";
    assert!(html.contains(said));
    assert_eq!(html.matches("class=\"warning\"").count(), 1);
    assert!(
        view(&[source("empty", common::file("mesh", Vec::new()))])
            .sections
            .is_empty()
    );
}

/// Regressions: a table of rows with fewer runs said that all have as many as were asked for, and
/// published figures were repeated for each placement.
#[test]
fn sections_state_the_runs_of_their_rows_and_each_published_figure_once() {
    let mut file = common::round_trips();
    let published = file.results[2].published.clone();
    let method = file.results[2].method.clone();
    let of_method = file.results.iter_mut().filter(|row| row.method == method);
    of_method.for_each(|row| row.published.clone_from(&published));
    let section = |file: &ResultFile| {
        let view = view(&[source("pingpong", file.clone())]);
        view.sections.into_iter().next().unwrap()
    };
    let whole = section(&file);
    assert_eq!(whole.facts[0], "5 runs");
    let mut tables = whole.tables.iter();
    let table = tables.find(|table| table.title == "Published elsewhere");
    let lines = table.unwrap().lines.iter();
    let lines: Vec<&str> = lines.map(|line| line.cells[0].text.as_str()).collect();
    assert_eq!(lines, [method.as_str()]);
    let Outcome::Measured(measured) = &mut file.results[0].outcome else {
        panic!("the row was measured");
    };
    measured.runs.truncate(3);
    assert_eq!(section(&file).facts[0], "3 to 5 runs");
}

/// A regression: a machine was named again after a file of another version.
#[test]
fn each_machine_and_version_is_named_once() {
    let file = |commit: &str| {
        let mut file = common::round_trips();
        file.machine.commit = commit.to_owned();
        source(commit, file)
    };
    let machines = view(&[file("first"), file("second"), file("first")]).machines;
    assert_eq!(machines.len(), 2, "{machines:?}");
}

/// CSV and histogram logs hold what the JSON holds.
mod export {
    use crate::common;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use olivine_bench::result::export::{csv, hlog};

    #[test]
    fn the_csv_has_a_line_a_row_and_a_cell_a_column() {
        let mut file = common::round_trips();
        file.machine.cpu_model = "A \"fast\" one, really".to_owned();
        let text = String::from_utf8(csv(&file).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), file.results.len() + 1);
        let columns: Vec<&str> = lines[0].split(',').collect();
        let column = |name: &str| columns.iter().position(|column| *column == name).unwrap();
        for (line, row) in lines[1..].iter().zip(&file.results) {
            let line = line.replace("\"A \"\"fast\"\" one, really\"", "model");
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), columns.len(), "{line}");
            assert_eq!(cells[column("method")], row.method);
            assert_eq!(cells[column("cpu_model")], "model");
            match row.measured() {
                Some(measured) => {
                    let table = &measured.distribution.as_ref().unwrap().percentiles;
                    let p50 = measured.p50_ns().unwrap();
                    for (name, value) in [
                        ("p50_ns", p50.median),
                        ("p50_ns_min", p50.min),
                        ("p50_ns_max", p50.max),
                        ("p50_ns_of_samples", table.p50_ns.unwrap()),
                    ] {
                        assert_eq!(cells[column(name)], value.to_string(), "{name}");
                    }
                    assert_eq!(cells[column("count")], table.count.to_string());
                    assert_eq!(cells[column("messages_per_s")], "");
                }
                None => assert_eq!(cells[column("status")], "failed"),
            }
        }
    }

    /// Decodes a histogram log by its specification, without our code: prints tag and number of
    /// samples.
    const DECODER: &str = r##"
import base64, struct, sys, zlib
for line in sys.stdin:
    if line.startswith(("#", '"')):
        continue
    tag, _start, _length, _most, encoded = line.strip().split(",")
    outer = base64.b64decode(encoded)
    cookie, size = struct.unpack(">II", outer[:8])
    assert cookie & ~0xF0 == 0x1C849304 and size == len(outer) - 8, hex(cookie)
    inner = zlib.decompress(outer[8:])
    cookie, size = struct.unpack(">II", inner[:8])
    assert cookie & ~0xF0 == 0x1C849303, hex(cookie)
    at, total = 40, 0
    while at < 40 + size:
        value, shift = 0, 0
        while True:
            byte = inner[at]
            at += 1
            value |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
            if shift > 56 or byte < 0x80:
                break
        count = (value >> 1) ^ -(value & 1)
        total += max(count, 0)
    print(tag.removeprefix("Tag="), total)
"##;

    #[test]
    fn a_histogram_log_is_read_by_a_decoder_of_another_language() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let file = common::round_trips();
        let mut python = Command::new("python3")
            .args(["-c", DECODER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = python.stdin.take().unwrap();
        hlog(&file, &mut stdin).unwrap();
        stdin.flush().unwrap();
        drop(stdin);
        let output = python.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let read: Vec<u64> = text
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        let counts: Vec<u64> = file
            .results
            .iter()
            .filter_map(|row| row.measured()?.distribution.as_ref())
            .map(|table| table.percentiles.count)
            .collect();
        assert!(!counts.is_empty() && read == counts, "{text}");
    }

    #[test]
    fn a_histogram_log_is_read_by_its_own_reader() {
        let file = common::round_trips();
        let mut text = Vec::new();
        hlog(&file, &mut text).unwrap();
        let mut deserializer = Deserializer::new();
        let measured: Vec<_> = file
            .results
            .iter()
            .filter_map(|row| row.measured())
            .collect();
        let mut read = 0;
        for entry in IntervalLogIterator::new(&text) {
            let LogEntry::Interval(interval) = entry.unwrap() else {
                continue;
            };
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interval.encoded_histogram())
                .unwrap();
            let histogram: Histogram<u64> =
                deserializer.deserialize(&mut bytes.as_slice()).unwrap();
            let table = &measured[read].distribution.as_ref().unwrap().percentiles;
            assert_eq!(histogram.len(), table.count);
            let p50 = histogram.value_at_quantile(0.5) as f64;
            assert!((p50 - table.p50_ns.unwrap()).abs() <= p50 * 0.01 + 1.0);
            assert!(interval.tag().unwrap().as_str().starts_with("pingpong/"));
            read += 1;
        }
        assert_eq!(read, measured.len());
    }
}
