//! The page: what it says first, the sections with their plots and tables, the machines at the end.

use super::figures::{self, Figure};
use super::select::{Entry, main_placement, placed, sections};
use super::svg::escape;
use super::{Report, Source, tables};
use crate::result::Load;
use crate::text;

/// Colours, then the page, then the plots.
const STYLE: &str = concat!(
    include_str!("colours.css"),
    include_str!("page.css"),
    include_str!("plot.css")
);

/// Makes the page.
pub(super) fn make(sources: &[Source]) -> Report {
    let sections = sections(sources);
    let mut plots: Vec<(String, String)> = Vec::new();
    let mut body = String::new();
    for (index, (scenario, load, entries)) in sections.iter().enumerate() {
        let drawn = figures::of(scenario, *load, entries);
        body.push_str(&section(index, scenario, *load, entries, &drawn));
        for figure in drawn {
            let name = unused(&figure.name, &plots);
            plots.push((name, figure.svg.standalone()));
        }
    }
    let title = title(sources);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        title = escape(&title),
    );
    html.push_str(&format!(
        "<header>\n<h1>{}</h1>\n{}</header>\n",
        escape(&title),
        lead(sources)
    ));
    html.push_str(&warnings(sources));
    html.push_str(&cards(&sections));
    html.push_str(&contents(&sections));
    html.push_str(&body);
    html.push_str(&tables::floors(sources));
    html.push_str(&tables::machines(sources));
    html.push_str(METHOD);
    html.push_str("</main>\n</body>\n</html>\n");
    Report { html, plots }
}

/// How to read it all: true of every report, whatever it holds.
const METHOD: &str = "\
<section id=\"method\">\n<h2>How it was measured</h2>\n<ul>\n\
<li>Publishers and subscribers are processes, each pinned to a CPU of its own where there are enough. Every byte of every \
message is checked when it arrives; one wrong byte makes the row a failure.</li>\n\
<li>Each slice lies between two slices of the floor, a bare cache line going to and fro between the same two processes. \
The floor tells where the two CPUs are (same core, shared L3, far apart), and the ratio to it is what two machines can \
compare.</li>\n\
<li>Runs of the variants of one session take turns, so that a disturbance hits all alike; other people's libraries have \
a session each, after Olivine's, and points of a sweep one each. In every session the floor takes its turns. A p50 \
is that of the median run, each run first reduced to the median of its slices; ranges are the least and most of the runs, not of \
samples. Other percentiles, and whole curves, are of all samples of all runs.</li>\n\
<li>Closed load (round trips: one message under way), open load (messages due at fixed times, latency from the intended \
time) and saturated load (as fast as it goes) are different questions and never share a table.</li>\n\
<li>A percentile is blank where fewer than ten samples lie above it. The largest sample is exact; its likely cause is \
what the kernel counted in its slice, and is named only where it accounts for the length.</li>\n\
<li>The cost of reading the clock is part of every figure and not subtracted.</li>\n</ul>\n</section>\n";

fn title(sources: &[Source]) -> String {
    let mut scenarios: Vec<&str> = Vec::new();
    for source in sources {
        if !scenarios.contains(&source.file.scenario.as_str()) {
            scenarios.push(&source.file.scenario);
        }
    }
    let shown = if scenarios.len() > 4 {
        String::new()
    } else {
        format!(": {}", scenarios.join(", "))
    };
    format!("Olivine bench{shown}")
}

/// The machine in a line or two, before any figure.
fn lead(sources: &[Source]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for Source { file, .. } in sources {
        let machine = &file.machine;
        let line = format!(
            "{}{}, {} CPUs, Linux {}, olivine {} ({})",
            machine.cpu_model,
            if machine.virtual_machine {
                ", virtual"
            } else {
                ""
            },
            machine.cpus_allowed,
            machine.kernel,
            machine.version,
            machine.commit,
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let lines = lines
        .iter()
        .map(|line| format!("<p class=\"lead\">{}</p>\n", escape(line)));
    lines.collect()
}

/// What forbids to quote the figures.
fn warnings(sources: &[Source]) -> String {
    let mut out = String::new();
    for Source { name, file } in sources {
        let mut reasons = Vec::new();
        if file.runs < crate::result::file::RUNS_QUOTABLE {
            reasons.push(format!("only {} runs", file.runs));
        }
        if file.interrupted {
            reasons.push("stopped before its end".to_owned());
        }
        if file.cut_short {
            reasons.push("fewer runs of some methods, for lack of time".to_owned());
        }
        if file.machine.load_average_1m > 0.5 {
            reasons.push(format!(
                "the machine was not idle before the start (load {:.1})",
                file.machine.load_average_1m
            ));
        }
        if !reasons.is_empty() {
            let text = format!("{name}: {}", reasons.join("; "));
            out.push_str(&format!("<p class=\"warning\">{}</p>\n", escape(&text)));
        }
    }
    out
}

/// The few figures that people look for first.
fn cards(sections: &[(&str, Load, Vec<Entry<'_>>)]) -> String {
    let mut out = String::new();
    for (scenario, load, entries) in sections {
        let here = main_placement(entries)
            .map(|place| placed(entries, place))
            .unwrap_or_default();
        let best = if *load == Load::Saturated {
            let rate = |entry: &Entry<'_>| entry.measured()?.deliveries_per_s;
            let best = here
                .iter()
                .max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
            best.and_then(|entry| Some((entry, "most received", text::rate(rate(entry)?))))
        } else {
            let rated = here
                .iter()
                .filter_map(|entry| Some((entry, entry.p50_ns()?)));
            rated
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .map(|(entry, ns)| (entry, "lowest p50", text::nanos(ns)))
        };
        let Some((entry, what, value)) = best else {
            continue;
        };
        let ratio = entry.measured().and_then(|measured| measured.ratio_p50);
        let beside = ratio.map_or_else(String::new, |ratio| {
            format!(", {} × the floor", text::three_figures(ratio.median))
        });
        out.push_str(&format!(
            "<div class=\"card\"><span>{}, {what}</span><strong>{}</strong><span>{}, {}{}</span></div>\n",
            escape(&heading(scenario, *load)),
            escape(&value),
            escape(&entry.row.method),
            escape(&text::bytes(entry.row.parameters.size_bytes)),
            escape(&beside),
        ));
    }
    if out.is_empty() {
        out
    } else {
        format!("<div class=\"cards\">\n{out}</div>\n")
    }
}

fn contents(sections: &[(&str, Load, Vec<Entry<'_>>)]) -> String {
    let mut links: Vec<String> = Vec::new();
    for (index, (scenario, load, _)) in sections.iter().enumerate() {
        links.push(format!(
            "<a href=\"#s{index}\">{}</a>",
            escape(&heading(scenario, *load))
        ));
    }
    links.push("<a href=\"#machines\">Machines and commands</a>".to_owned());
    links.push("<a href=\"#method\">How it was measured</a>".to_owned());
    format!("<nav>{}</nav>\n", links.join(" "))
}

fn heading(scenario: &str, load: Load) -> String {
    let known = match (scenario, load) {
        ("pingpong", _) => "Round trip",
        ("latency", _) => "One way at a fixed rate",
        ("throughput", _) => "Full speed",
        ("fanout", _) => "One publisher, many subscribers",
        ("mesh", _) => "Mesh",
        (other, Load::Closed) => return format!("{other}: round trips"),
        (other, Load::Open) => return format!("{other}: fixed rates"),
        (other, Load::Saturated) => return format!("{other}: full speed"),
    };
    known.to_owned()
}

fn section(
    index: usize,
    scenario: &str,
    load: Load,
    entries: &[Entry<'_>],
    drawn: &[Figure],
) -> String {
    let mut out = format!(
        "<section id=\"s{index}\">\n<h2>{}</h2>\n",
        escape(&heading(scenario, load))
    );
    out.push_str("<div class=\"figures\">\n");
    for figure in drawn {
        out.push_str(&format!(
            "<figure>\n<div class=\"scroll\">{}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
            figure.svg.inline(),
            escape(&figure.caption)
        ));
    }
    out.push_str("</div>\n");
    out.push_str(&tables::rows(load, entries));
    out.push_str(&tables::published(entries));
    out.push_str("</section>\n");
    out
}

/// `name`, with a number where it is taken.
fn unused(name: &str, taken: &[(String, String)]) -> String {
    let is_free = |candidate: &String| taken.iter().all(|(known, _)| known != candidate);
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(is_free).unwrap_or_default()
}
