//! Reports: whole, self-contained, small, and true to the rows they are made of.

mod common;

use olivine_bench::report::{BYTES_MAX, Report, ReportError, Source, render};
use olivine_bench::result::ResultFile;
use std::collections::BTreeSet;

fn source(name: &str, file: ResultFile) -> Source {
    Source {
        name: name.to_owned(),
        file,
    }
}

fn everything() -> Report {
    let sources = [
        source("pingpong", common::round_trips()),
        source("sweep", common::sweep()),
        source("rates", common::rates()),
    ];
    render(&sources).unwrap()
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
    let report = everything();
    let html = &report.html;
    // For whoever wants to look at it: the browser test does.
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
fn every_plot_is_a_drawing_of_its_own_with_n_and_unit_at_each_point() {
    let report = everything();
    let names: BTreeSet<&str> = report.plots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), report.plots.len(), "two plots have one name");
    for kind in [
        "pingpong-closed-p50",
        "pingpong-closed-percentiles",
        "throughput-saturated-rates",
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
    assert_eq!(report.html.matches("<figure>").count(), report.plots.len());
    for (name, drawing) in &report.plots {
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
        assert!(name.contains("percentiles") || !notes.is_empty(), "{name}");
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
    let html = everything().html;
    let bodies: usize = html
        .split("<tbody>")
        .skip(1)
        .map(|body| {
            body.split("</tbody>")
                .next()
                .unwrap()
                .matches("<tr")
                .count()
        })
        .sum();
    assert_eq!(bodies, rows + 1, "one more for the published figure");
    assert!(html.contains("no figure: no answer within 20 s &lt;stopped&gt;"));
    assert!(html.contains("another thread, at 4.0 s"));
    assert!(html.contains("Olive README") && html.contains("4 cores at 3.5 GHz"));
    assert!(html.contains("far apart") && html.contains("shared L3"));
}

#[test]
fn what_may_not_be_quoted_says_so() {
    let mut file = common::round_trips();
    file.runs = 3;
    file.interrupted = true;
    let html = render(&[source("odd <name>", file)]).unwrap().html;
    assert!(html.contains("odd &lt;name&gt;: only 3 runs; stopped before its end"));
    let error = render(&[source("empty", common::file("mesh", Vec::new()))]).unwrap_err();
    assert!(matches!(error, ReportError::Empty { .. }), "{error}");
    assert!(error.to_string().contains("empty"));
}
