//! Servers under load, as people read it.

use super::StreamRow;
use crate::output::table;
use olivine_bench::load::compare::Row;
use olivine_bench::spread::Spread;
use olivine_bench::text;

pub(super) fn http(rows: &[Row]) -> String {
    let mut out = title("HTTP/1.1, one page, every answer checked", rows);
    let heads = [
        "SERVER", "DEPTH", "REQ/S", "MIN", "MAX", "CPU", "/FIRST", "BUSY", "GEN", "P50", "P99",
    ];
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
    out.push_str(&table(
        &heads,
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        cells.collect(),
    ));
    out.push_str(
        "\nREQ/S, MIN, MAX: median, least and most of the runs, which take turns\n\
         CPU: the server's CPU time for a request; /FIRST: to that of the first server\n\
         BUSY, GEN: share of a CPU that the server and the generator used\n\
         P50, P99: time from request to answer, all runs\n",
    );
    out.push_str(&remarks(rows));
    out
}

pub(super) fn echo(rows: &[Row], size: u64) -> String {
    let what = format!("{} there and back, every byte checked", text::bytes(size));
    let mut out = title(&what, rows);
    let heads = [
        "SERVER", "MESSAGES", "MIN", "P50", "P99", "P99.9", "MAX", "/LAST",
    ];
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
            figure(row.p50_ratio.as_ref(), |s| {
                let edges = (text::three_figures(s.min), text::three_figures(s.max));
                format!(
                    "{} ({} to {})",
                    text::three_figures(s.median),
                    edges.0,
                    edges.1
                )
            }),
        ]
    });
    out.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6, 7], cells.collect()));
    out.push_str("\n/LAST: p50 to that of the last server, run by run\n");
    out.push_str(&remarks(rows));
    out
}

pub(super) fn stream(rows: &[StreamRow]) -> String {
    let mut out = "32 B frames one way, decoded and checked by the receiver\n\n".to_owned();
    let heads = ["SERVER", "BATCH", "FRAMES", "MIN", "MAX", "BYTES", "CPU"];
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
    out.push_str(&table(&heads, &[1, 2, 3, 4, 5, 6], cells.collect()));
    out.push_str("\nBATCH: frames in a send; CPU: the receiver's CPU time for a frame\n");
    out
}

fn title(what: &str, rows: &[Row]) -> String {
    let Some(plan) = rows.first().map(|row| &row.plan) else {
        return String::new();
    };
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
    format!("{what}\n{connections} connection{plural}, {loop_kind}\n\n")
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
