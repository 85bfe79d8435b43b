//! CSV and histogram logs hold what the JSON holds.

mod common;

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
        let histogram: Histogram<u64> = deserializer.deserialize(&mut bytes.as_slice()).unwrap();
        let table = &measured[read].distribution.as_ref().unwrap().percentiles;
        assert_eq!(histogram.len(), table.count);
        let p50 = histogram.value_at_quantile(0.5) as f64;
        assert!((p50 - table.p50_ns.unwrap()).abs() <= p50 * 0.01 + 1.0);
        assert!(interval.tag().unwrap().as_str().starts_with("pingpong/"));
        read += 1;
    }
    assert_eq!(read, measured.len());
}
