//! A server of the tool, and a client that says exactly what it sends.
#![allow(dead_code, reason = "each test file uses its part")]

use crate::common::{Running, TestFolder, said};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer needs on a busy machine; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) running: Running,
    /// What it printed: the URL of its page.
    pub(crate) url: String,
    pub(crate) address: String,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Server {
    /// Starts a command that serves, on any free port.
    pub(crate) fn start(place: &TestFolder, words: &[&str]) -> Self {
        let (command, more) = words.split_first().unwrap();
        Self::new(place.start(&[&[*command, "--listen", "127.0.0.1:0"], more].concat()))
    }

    /// Reads the URL of a command that has been started.
    pub(crate) fn new(mut running: Running) -> Self {
        let stdout = running.child.stdout.as_mut().unwrap();
        let mut url = String::new();
        // One byte after the other: the rest is for others to read.
        while !url.ends_with('\n') {
            let mut byte = [0];
            if stdout.read(&mut byte).unwrap() == 0 {
                let output = running.output();
                panic!("no URL: {}", said(&output));
            }
            url.push(char::from(byte[0]));
        }
        let url = url.trim().to_owned();
        let shown = url
            .trim_start_matches(|c: char| c != 'h')
            .trim_end_matches(['}', '"']);
        let address = shown.strip_prefix("http://").unwrap();
        let address = address.split('/').next().unwrap().to_owned();
        Self {
            running,
            url,
            address,
        }
    }

    /// Connects, and sends these bytes.
    pub(crate) fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// The answer to a request with these lines behind the first.
    pub(crate) fn ask(&self, first: &str, lines: &[&str]) -> Answer {
        let mut text = format!("{first} HTTP/1.1\r\nConnection: close\r\n");
        for line in lines {
            text.push_str(line);
            text.push_str("\r\n");
        }
        if !lines
            .iter()
            .any(|line| line.to_lowercase().starts_with("host:"))
        {
            text.push_str("Host: localhost\r\n");
        }
        text.push_str("\r\n");
        self.raw(text.as_bytes())
    }

    /// The answer to these bytes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut all = Vec::new();
        self.send(bytes).read_to_end(&mut all).unwrap();
        let text = String::from_utf8(all).unwrap();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), &[])
    }

    /// The JSON of a path.
    pub(crate) fn json(&self, path: &str) -> serde_json::Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// A stream of events, with its head read.
    pub(crate) fn events(&self) -> Events {
        let request = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut lines = BufReader::new(self.send(request));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        Events { lines, head }
    }
}

impl Answer {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// Server-sent events as they come.
#[derive(Debug)]
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    pub(crate) head: String,
}

impl Events {
    /// Name and data of the next one; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<(String, serde_json::Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            } else if line == "0" {
                return None;
            }
        }
    }
}
