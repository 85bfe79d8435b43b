//! `tcp://` between two network namespaces, over a link that delays and loses packets and is cut
//! for a while, with bridges that are killed. Needs root, `ip`, Python and `/dev/net/tun`.

#![cfg(not(loom))]

mod common;

use common::{bridges, setting};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The other processes.
#[test]
fn role() {
    if common::my_role().is_some() {
        bridges::role();
    }
}

fn ip(words: &[&str]) -> bool {
    let status = Command::new("ip")
        .args(words)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Two namespaces and the link between them; removed when dropped.
struct Wire {
    namespaces: [String; 2],
    carrier: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Wire {
    /// Creates them, or prints why this is impossible here.
    fn new(seed: u64) -> Option<Self> {
        let name = |side| format!("olivine-{}-{side}", std::process::id());
        let mut wire = Self {
            namespaces: [name("a"), name("b")],
            carrier: None,
        };
        for namespace in &wire.namespaces {
            if !ip(&["netns", "add", namespace]) {
                common::skip(
                    "no network namespace to be had here: that needs root and `ip` of iproute2",
                );
                return None;
            }
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire.py");
        let mut carrier = Command::new("python3")
            .arg(script)
            .args([&wire.namespaces[0], "10.77.0.1/30"])
            .args([&wire.namespaces[1], "10.77.0.2/30"])
            .arg(seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let input = carrier.stdin.take().expect("piped");
        let output = BufReader::new(carrier.stdout.take().expect("piped"));
        wire.carrier = Some((carrier, input, output));
        if wire.hear().as_deref() != Some("ready") {
            common::skip("no wire to be had here: that needs /dev/net/tun");
            return None;
        }
        Some(wire)
    }

    fn hear(&mut self) -> Option<String> {
        let (_, _, output) = self.carrier.as_mut()?;
        let mut line = String::new();
        let length = output.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim().to_owned())
    }

    /// Gives an order, and waits until it is done.
    fn order(&mut self, words: &str) -> String {
        let (_, input, _) = self.carrier.as_mut().expect("a wire");
        // In one write: a reader of a split line would misread the second part.
        let line = format!("{words}\n");
        input.write_all(line.as_bytes()).expect("an order");
        self.hear().expect("an answer")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some((mut carrier, input, _)) = self.carrier.take() {
            // The end of its input ends it.
            drop(input);
            let _ = carrier.wait();
        }
        for namespace in &self.namespaces {
            ip(&["netns", "del", namespace]);
        }
    }
}

#[test]
fn lossy_link_and_killed_bridges_lose_and_repeat_nothing() {
    let count = setting("OLIVINE_WIRE_MESSAGES", 120_000);
    let cut_s = setting("OLIVINE_WIRE_CUT_S", 2);
    let seed = setting("OLIVINE_WIRE_SEED", 1);
    let Some(mut wire) = Wire::new(seed) else {
        return;
    };
    eprintln!("seed {seed}");
    wire.order("set 4 0.5");
    let uri = "tcp://10.77.0.1:9000/wire?capacity=64KiB&timeout=1s";
    let [near, far] = &wire.namespaces;
    let mut pair = bridges::Pair::new(uri, uri);
    pair.namespaces = [Some(near.clone()), Some(far.clone())];
    pair.carry_and_kill(count, count / 6, |number| {
        if number == count / 2 {
            let answer = wire.order(&format!("cut {cut_s}"));
            assert_ne!(answer, "lost 0", "no packet was sent");
        }
    });
    assert_eq!(wire.order("set 0 0"), "set", "the wire was there all along");
    eprintln!(
        "{count} messages with a bridge killed after each {}, over 4 ms and a loss of 0.5 %, cut \
        for {cut_s} s: none lost, none repeated",
        count / 6
    );
}
