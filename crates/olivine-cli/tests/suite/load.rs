//! Servers under load: our own, a faulty one, a stopped one, and a missing one.

use crate::common::{TestFolder, json, said, skip, until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Output, Stdio};

/// Measures for a moment, or for longer if a busy machine gives a server no time to answer in it.
/// Returns the arguments too.
fn measured<'a>(place: &TestFolder, words: &[&'a str]) -> (Vec<&'a str>, Output) {
    for seconds in ["0.2", "2", "20"] {
        let words = [words, &["--seconds", seconds]].concat();
        let output = place.run(&words);
        let text = said(&output) + &String::from_utf8_lossy(&output.stdout);
        if !text.contains("measure for longer") {
            assert_eq!(output.status.code(), Some(0), "{words:?}: {text}");
            return (words, output);
        }
    }
    panic!("{words:?}: no answer in 20 s");
}

#[test]
fn every_own_server_is_measured_and_checked() {
    let place = TestFolder::new();
    let quick = ["--runs", "1", "--json"];
    for (words, rows) in [
        (
            &["bench", "http", "--depth", "1,16", "--connections", "4"][..],
            2,
        ),
        (
            &["bench", "http", "--ours", "unparsed,floor", "--depth", "64"],
            2,
        ),
        (&["bench", "http", "--depth", "4", "--rate", "2K"], 1),
        (
            &[
                "bench", "tcp", "--wait", "block", "--size", "16", "--depth", "8",
            ],
            1,
        ),
    ] {
        let (_, output) = measured(&place, &[words, &quick].concat());
        let found = &json(&output)["results"];
        assert_eq!(found.as_array().unwrap().len(), rows, "{words:?}");
        for row in found.as_array().unwrap() {
            for name in ["messages_per_s", "cpu_ns", "busy", "generator_busy"] {
                let value = row["values"][name]["median"].as_f64();
                assert!(value.is_some_and(|value| value > 0.0), "{name}: {row}");
            }
            for name in ["user_busy", "system_busy", "softirq_busy"] {
                assert!(row["values"][name]["median"].is_f64(), "{name}: {row}");
            }
            assert!(row["distribution"]["count"].as_u64().unwrap() > 0, "{row}");
        }
    }
    let words = [
        "bench", "tcp", "--frames", "--wait", "block", "--batch", "100",
    ];
    let (_, output) = measured(&place, &[&words[..], &quick].concat());
    let found = json(&output);
    let rate = &found["results"][0]["values"]["messages_per_s"];
    assert!(rate["median"].as_f64().unwrap() > 0.0);
}

#[test]
fn io_uring_generator_checks_every_reply() {
    let place = TestFolder::new();
    let quick = ["--generator", "io-uring", "--runs", "1"];
    let refused = [&["bench", "tcp", "127.0.0.1:1"], &quick[..]].concat();
    let output = place.run(&refused);
    if said(&output).contains("the generator cannot run on io_uring") {
        skip("io_uring is left out: this machine forbids it");
        return;
    }
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("0 of 1 connections can be made"), "{table}");
    for words in [
        &["bench", "http", "--depth", "1,16,300"][..],
        &["bench", "tcp", "--wait", "block", "--connections", "3"],
    ] {
        let (_, output) = measured(&place, &[words, &quick, &["--json"]].concat());
        for row in json(&output)["results"].as_array().unwrap() {
            assert_eq!(row["status"], "measured", "{row}");
            assert_eq!(row["settings"], "generator=io_uring", "{row}");
        }
    }
}

#[test]
fn markdown_tables_name_machine_command_and_missing_servers() {
    let place = TestFolder::new();
    let quick = ["--markdown", "--runs", "2"];
    for (words, parts) in [
        (
            &["bench", "http", "--depth", "16,1", "--peers", "hyper"][..],
            &[
                "| method | depth | p50 | ",
                "| situation | usr | sys | softirq |",
                " | messages |",
                "| **olivine** | ",
                "hyper is left out: it has not been built: see rivals/http/build",
            ][..],
        ),
        (
            &["bench", "tcp"],
            &[
                // A busy machine gives too few answers for a p99.
                "| method | p50 | ",
                " | messages |",
                "| **olivine** | ",
                "| bare loop | ",
            ],
        ),
        (
            &["bench", "tcp", "--frames", "--batch", "64"],
            &["32 B, batches of 64, ", "| **olivine** | "],
        ),
    ] {
        let (words, output) = measured(&place, &[words, &quick].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let command = format!("`olivine {}`", words.join(" "));
        let conditions = ["Linux ", " CPUs,", "Not a figure to quote", &command];
        for part in parts.iter().chain(&conditions) {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    }
}

#[test]
fn invalid_load_is_refused() {
    let place = TestFolder::new();
    for (words, code, what) in [
        (
            &["bench", "http", "ftp://127.0.0.1/"][..],
            2,
            "only http://",
        ),
        (
            &["bench", "http", "http://127.0.0.1:1/"],
            1,
            "cannot connect to 127.0.0.1:1",
        ),
        (&["bench", "http", "--depth", "0"], 2, "1..=10000"),
        (
            &["bench", "http", "--peers", "apache"],
            2,
            "--peers apache is not known",
        ),
        (&["bench", "tcp", "--size", "8"], 2, "--size 8 is too small"),
        (
            &["--json", "bench", "tcp", "--markdown"],
            2,
            "leave one out",
        ),
        (
            &["bench", "http", "--rate", "1K", "--generator", "io-uring"],
            2,
            "leave out --rate",
        ),
        (
            &["bench", "tcp", "--frames", "--generator", "io-uring"],
            2,
            "does not go with --frames",
        ),
        (&["bench", "http", "--fifo"], 2, "--fifo does not go with"),
        (
            &["bench", "tcp", "--frames", "--mlock"],
            2,
            "--mlock does not go with",
        ),
    ] {
        let output = place.run(&[words, &["--seconds", "0.1", "--runs", "1"]].concat());
        let said = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(what), "{words:?}: {said}");
    }
}

#[test]
fn results_are_saved_in_every_supported_format() {
    let place = TestFolder::new();
    let path = |name: &str| place.path().join(name).display().to_string();
    let (kept, table) = (path("kept.json"), path("table.md"));
    let others = ["csv", "hlog", "html", "tex"].map(|ending| path(&format!("x.{ending}")));
    let quick = ["--runs", "1", "--json", "--save"];
    for (words, cell) in [
        (&["bench", "http", "--depth", "1"][..], "| **olivine** | "),
        (&["bench", "tcp", "--wait", "block"], "| **olivine** | "),
        (
            &["bench", "tcp", "--frames", "--batch", "64"],
            "| **olivine** | ",
        ),
    ] {
        let mut words = [words, &quick, &[&kept, "--save", &table]].concat();
        words.extend(others.iter().flat_map(|path| ["--save", path.as_str()]));
        let (_, output) = measured(&place, &words);
        assert_eq!(std::fs::read(&kept).unwrap(), output.stdout, "{words:?}");
        assert_eq!(json(&output)["schema"], "olivine-bench/2", "{words:?}");
        let text = std::fs::read_to_string(&table).unwrap();
        assert!(text.contains(cell), "{words:?}: {text}");
        for other in &others {
            assert!(std::fs::metadata(other).unwrap().len() > 0, "{other}");
        }
    }
}

/// A server on a thread of the test that sends each of these replies to each request, one
/// connection at a time.
fn faulty_server(answers: &'static [&'static [u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut request = [0; 1024];
            for answer in answers {
                // The generator leaves when it has an error.
                if !matches!(socket.read(&mut request), Ok(1..))
                    || socket.write_all(answer).is_err()
                {
                    break;
                }
            }
        }
    });
    url
}

#[test]
fn wrong_reply_has_no_figure() {
    let place = TestFolder::new();
    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const OTHER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho";
    const MISSING: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    const TWICE: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: \
        2\r\n\r\nhi";
    for (answers, what) in [
        (&[GOOD, GOOD, OTHER][..], "differs from the first one"),
        (&[MISSING], "the server answers 404"),
        (&[b"what?\r\n\r\n"], "cannot be read as HTTP/1.1"),
        (&[GOOD, TWICE], "answers without a request"),
    ] {
        let url = faulty_server(answers);
        let words = ["bench", "http", &url, "--depth", "1", "--connections", "1"];
        let output = place.run(&[&words[..], &["--seconds", "0.5", "--runs", "1"]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{what}: {text}");
        assert!(text.contains(what), "{what}: {text}");
    }
}

/// A server that is killed if the test ends before it.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts our own server as a process, which runs until its standard input closes; `None` if it
/// prints no address.
fn serve(place: &TestFolder, backend: &str) -> Option<(Served, String)> {
    let mut command = place.olivine(&["__serve", "hello", backend, "block", "0"]);
    let mut server = Served(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let address = line.trim().to_owned();
    (!address.is_empty()).then_some((server, address))
}

/// CPU time that a process has used so far.
fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let times = tasks.map(|task| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    times.sum()
}

/// SIGTERM while the generator runs at full speed: every begun reply arrives whole.
#[test]
fn server_stopped_under_load_completes_its_replies() {
    let place = TestFolder::new();
    for backend in ["mio", "io-uring"] {
        for depth in ["1", "16"] {
            let Some((mut server, address)) = serve(&place, backend) else {
                assert_eq!(backend, "io-uring", "the server gives no address");
                skip("io_uring is left out: this machine forbids it");
                continue;
            };
            let url = format!("http://{address}/plaintext");
            let words = [
                "bench",
                "http",
                &url,
                "--depth",
                depth,
                "--connections",
                "32",
            ];
            let load =
                place.start(&[&words[..], &["--seconds", "300", "--runs", "1", "--json"]].concat());
            // More than the generator's warm-up of 0.3 s can use.
            until("the load to run", || cpu_ns(server.0.id()) > 700_000_000);
            kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
            let output = load.output();
            let row = &json(&output)["results"][0];
            let failure = row["reason"].as_str().unwrap_or_default();
            let answers = failure.split_once("was gone before the time was over, after ");
            let answers = answers.and_then(|(_, rest)| rest.split(' ').next());
            let answers = answers.and_then(|answers| answers.parse().ok());
            assert!(
                answers.is_some_and(|answers: u64| answers > 0),
                "{backend}, depth {depth}: {row}"
            );
            assert!(
                failure.ends_with("; 0 connections ended inside an answer"),
                "{backend}, depth {depth}: {row}"
            );
            assert_eq!(
                output.status.code(),
                Some(1),
                "{backend}, depth {depth}: {row}"
            );
            assert!(
                server.0.wait().unwrap().success(),
                "{backend}, depth {depth}"
            );
        }
    }
}
