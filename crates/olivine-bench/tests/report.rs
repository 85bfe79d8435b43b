//! Reports: complete, self-contained, small, and consistent with their rows.

mod common;

use olivine_bench::render::{BYTES_MAX, drawings, html};
use olivine_bench::result::ResultFile;
use olivine_bench::view::{Source, View, view};
use std::collections::BTreeSet;

fn source(name: &str, file: ResultFile) -> Source {
    Source {
        name: name.to_owned(),
        file,
    }
}

fn everything() -> View {
    let sources = [
        source("pingpong", common::round_trips()),
        source("sweep", common::sweep()),
        source("rates", common::rates()),
    ];
    view(&sources)
}

/// Every element that is opened is closed, in order.
fn is_well_formed(markup: &str) -> Result<(), String> {
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
            let opened = open.pop();
            if opened != Some(name) {
                return Err(format!("</{name}> closes {opened:?}"));
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
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
    let html = &html(&everything()).unwrap();
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
    let everything = everything();
    let plots = drawings(&everything);
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
    let page = html(&everything).unwrap();
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
    let everything = everything();
    let mut shown = 0;
    for section in &everything.sections {
        let titles = ["Percentiles", "Published elsewhere"];
        let ranked = section.tables.iter();
        let ranked = ranked.filter(|table| !titles.contains(&table.title.as_str()));
        shown += ranked.map(|table| table.lines.len()).sum::<usize>() + section.failures.len();
    }
    assert_eq!(shown, rows);
    let html = html(&everything).unwrap();
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
