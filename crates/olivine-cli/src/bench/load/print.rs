//! Servers under load, as people read it, on a terminal or in a document.

use super::{Form, LeftOut, StreamRow};
use crate::output::table;
use olivine_bench::load::Plan;
use olivine_bench::load::compare::Row;
use olivine_bench::result::ResultFile;
use olivine_bench::spread::Spread;
use olivine_bench::text;

/// A table with what stands above and below it.
struct Sheet {
    title: String,
    heads: &'static [&'static str],
    cells: Vec<Vec<String>>,
    legend: String,
}

impl Sheet {
    /// All columns but the first hold figures.
    fn show(&self, form: Form) -> String {
        let Self {
            title,
            heads,
            cells,
            legend,
        } = self;
        match form {
            Form::Text => {
                let right: Vec<usize> = (1..heads.len()).collect();
                format!("{title}\n{}\n{legend}", table(heads, &right, cells.clone()))
            }
            Form::Markdown => {
                let heads: Vec<String> = heads.iter().map(|head| head.to_lowercase()).collect();
                format!("{}{}\n{legend}", caption(title), markdown(&heads, cells))
            }
        }
    }
}

/// What stands above a table, as one sentence of a document.
fn caption(title: &str) -> String {
    format!("{}:\n\n", title.trim().replace('\n', ", "))
}

/// A table for a document.
fn markdown(heads: &[String], cells: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); heads.len()];
    let body: String = cells.iter().map(|cells| line(cells)).collect();
    line(heads) + &line(&rule) + &body
}

/// One line for each server; for each depth its CPU time for a request, that to the first server's, and the
/// rate. The cheapest of the first depth comes first.
pub(super) fn http_document(rows: &[Row], left_out: &[LeftOut]) -> String {
    let mut depths: Vec<usize> = rows.iter().map(|row| row.plan.depth).collect();
    depths.dedup();
    let of = |server: &str, depth: usize| {
        rows.iter()
            .find(|row| row.server == server && row.plan.depth == depth)
    };
    let cost = |row: &Row| row.server_ns.as_ref().map_or(f64::INFINITY, |ns| ns.median);
    let mut first: Vec<&Row> = rows
        .iter()
        .filter(|row| Some(&row.plan.depth) == depths.first())
        .collect();
    first.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let mut heads = vec!["server".to_owned()];
    for depth in &depths {
        heads.extend([
            format!("depth {depth}: CPU a request"),
            "to the first".to_owned(),
            "requests/s".to_owned(),
        ]);
    }
    let cells: Vec<Vec<String>> = first
        .iter()
        .map(|row| {
            let mut cells = vec![bold_if_ours(&row.server)];
            for depth in &depths {
                let row = of(&row.server, *depth);
                let part = |of: &dyn Fn(&Row) -> Option<&Spread>,
                            show: &dyn Fn(&Spread) -> String| {
                    figure(row.and_then(of), show)
                };
                cells.push(part(&|row| row.server_ns.as_ref(), &|s| {
                    range(s, text::nanos)
                }));
                cells.push(part(&|row| row.server_ns_ratio.as_ref(), &|s| {
                    text::three_figures(s.median)
                }));
                cells.push(part(&|row| row.per_s.as_ref(), &|s| range(s, text::rate)));
            }
            cells
        })
        .collect();
    let mut out = caption(&title("HTTP/1.1, one page", rows)) + &markdown(&heads, &cells);
    let busy: Vec<String> = depths
        .iter()
        .filter_map(|depth| {
            let rows = rows.iter().filter(|row| row.plan.depth == *depth);
            let shares = rows.filter_map(|row| Some(row.client_busy.as_ref()?.median));
            let most = shares.fold(0.0, f64::max);
            (most > 0.0).then(|| format!("{:.0} % at depth {depth}", most * 100.0))
        })
        .collect();
    out.push_str(&format!(
        "\nThe generator's CPU was busy up to {}; where that is near 100 %, the rate is the generator's.\n",
        busy.join(", ")
    ));
    if !left_out.is_empty() {
        let list = left_out
            .iter()
            .map(|server| format!("{} ({})", server.name, server.why));
        out.push_str(&format!(
            "Left out: {}.\n",
            list.collect::<Vec<_>>().join("; ")
        ));
    }
    out.push_str(&remarks(rows));
    out
}

fn bold_if_ours(server: &str) -> String {
    if server.starts_with("olivine") {
        format!("**{server}**")
    } else {
        server.to_owned()
    }
}

pub(super) fn http(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let p = row.latency.as_ref();
        vec![
            row.server.clone(),
            row.plan.depth.to_string(),
            figure(row.per_s.as_ref(), |s| text::rate(s.median)),
            figure(row.per_s.as_ref(), |s| text::rate(s.min)),
            figure(row.per_s.as_ref(), |s| text::rate(s.max)),
            figure(row.server_ns.as_ref(), |s| text::nanos(s.median)),
            figure(row.server_ns_ratio.as_ref(), |s| {
                text::three_figures(s.median)
            }),
            figure(row.server_busy.as_ref(), percent),
            figure(row.client_busy.as_ref(), percent),
            figure(p.and_then(|p| p.p50_ns).as_ref(), |ns| text::nanos(*ns)),
            figure(p.and_then(|p| p.p99_ns).as_ref(), |ns| text::nanos(*ns)),
        ]
    });
    let sheet = Sheet {
        title: title("HTTP/1.1, one page, every answer checked", rows),
        heads: &[
            "SERVER", "DEPTH", "REQ/S", "MIN", "MAX", "CPU", "/FIRST", "BUSY", "GEN", "P50", "P99",
        ],
        cells: cells.collect(),
        legend: "REQ/S, MIN, MAX: median, least and most of the runs, which take turns\n\
             CPU: the server's CPU time for a request; /FIRST: to that of the first server\n\
             BUSY, GEN: share of a CPU that the server and the generator used\n\
             P50, P99: time from request to answer, all runs\n"
            .to_owned(),
    };
    sheet.show(Form::Text) + &remarks(rows)
}

pub(super) fn echo(rows: &[Row], size: u64, form: Form) -> String {
    let what = format!("{} there and back, every byte checked", text::bytes(size));
    let cells = rows.iter().map(|row| {
        let p = row.latency.as_ref();
        let nanos = |value: Option<f64>| figure(value.as_ref(), |ns| text::nanos(*ns));
        vec![
            row.server.clone(),
            figure(row.per_s.as_ref(), |s| text::rate(s.median)),
            nanos(p.map(|p| p.min_ns)),
            nanos(p.and_then(|p| p.p50_ns)),
            nanos(p.and_then(|p| p.p99_ns)),
            nanos(p.and_then(|p| p.p99_9_ns)),
            nanos(p.map(|p| p.max_ns)),
            figure(row.p50_ratio.as_ref(), |s| range(s, text::three_figures)),
        ]
    });
    let sheet = Sheet {
        title: title(&what, rows),
        heads: &[
            "SERVER", "MESSAGES", "MIN", "P50", "P99", "P99.9", "MAX", "/LAST",
        ],
        cells: cells.collect(),
        legend: "/LAST: p50 to that of the last server, run by run\n".to_owned(),
    };
    sheet.show(form) + &remarks(rows)
}

pub(super) fn stream(rows: &[StreamRow], form: Form) -> String {
    let cells = rows.iter().map(|row| {
        vec![
            row.server.clone(),
            row.batch.to_string(),
            text::rate(row.frames_per_s.median),
            text::rate(row.frames_per_s.min),
            text::rate(row.frames_per_s.max),
            text::byte_rate(row.bytes_per_s.median),
            figure(row.server_ns.as_ref(), |s| text::nanos(s.median)),
        ]
    });
    let sheet = Sheet {
        title: "32 B frames one way, decoded and checked by the receiver\n".to_owned(),
        heads: &["SERVER", "BATCH", "FRAMES", "MIN", "MAX", "BYTES", "CPU"],
        cells: cells.collect(),
        legend: "BATCH: frames in a send; CPU: the receiver's CPU time for a frame\n".to_owned(),
    };
    sheet.show(form)
}

/// What it was measured on and how, in sentences.
pub(super) fn conditions_document(file: &ResultFile) -> String {
    let cpus: Vec<String> = file.cpus.iter().map(u32::to_string).collect();
    let machine = &file.machine;
    let kind = if machine.virtual_machine {
        "A virtual machine"
    } else {
        "A machine"
    };
    let quotable = if file.is_quotable() {
        ""
    } else {
        " Not a figure to quote: too few whole runs."
    };
    format!(
        "\nMedian (least to most) of {} runs of {} s, in turns; server and generator on CPUs {}, every \
         answer checked. {kind} with {} CPUs ({}), Linux {}, load {:.1} before the start, olivine {} ({}): \
         `{}`.{quotable}\n",
        file.runs,
        text::three_figures(file.seconds_per_variant / f64::from(file.runs.max(1))),
        cpus.join(" and "),
        machine.cpus_allowed,
        machine.cpu_model,
        machine.kernel,
        machine.load_average_1m,
        machine.version,
        machine.commit,
        machine.command,
    )
}

fn title(what: &str, rows: &[Row]) -> String {
    let Some(plan) = rows.first().map(|row| &row.plan) else {
        return String::new();
    };
    format!("{what}\n{}\n", loop_of(plan))
}

/// How many connections there are and what keeps them busy.
fn loop_of(plan: &Plan) -> String {
    let loop_kind = plan.rate_per_s.map_or_else(
        || "closed loop".to_owned(),
        |rate| {
            format!(
                "open loop at {}, latency from when each was due",
                text::rate(rate)
            )
        },
    );
    let connections = plan.connections;
    let plural = if connections == 1 { "" } else { "s" };
    format!("{connections} connection{plural}, {loop_kind}")
}

/// Median, least and most; what all three end with is said once.
fn range(spread: &Spread, unit: impl Fn(f64) -> String) -> String {
    let [median, least, most] = [spread.median, spread.min, spread.max].map(unit);
    let parts = [&median, &least, &most].map(|text| text.split_once(' '));
    match parts {
        [Some((_, unit)), Some((least, a)), Some((most, b))] if a == unit && b == unit => {
            format!("{median} ({least} to {most})")
        }
        _ => format!("{median} ({least} to {most})"),
    }
}

fn figure<T>(value: Option<&T>, show: impl Fn(&T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

fn percent(share: &Spread) -> String {
    format!("{:.0} %", share.median * 100.0)
}

/// What did not go as it should.
fn remarks(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows {
        let place = format!("{}, depth {}", row.server, row.plan.depth);
        if let Some(failure) = &row.failure {
            out.push_str(&format!("{place}: FAILED: {failure}\n"));
        }
        for (count, what) in [
            (row.cut_count, "connections ended inside an answer"),
            (row.closed_count, "connections were closed by the server"),
            (row.unanswered_count, "requests were not answered"),
        ] {
            if count > 0 {
                out.push_str(&format!("{place}: {} {what}\n", text::count(count)));
            }
        }
        if let Some(delay) = row.send_delay.as_ref().and_then(|delay| delay.p99_ns) {
            out.push_str(&format!(
                "{place}: requests left up to {} late (p99)\n",
                text::nanos(delay)
            ));
        }
    }
    out
}
