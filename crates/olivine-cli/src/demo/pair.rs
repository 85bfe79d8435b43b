//! A publisher and a subscriber as separate processes, watched until they end.
//!
//! A Ctrl-C ends the publisher through its pipe, and the subscriber still receives every sent
//! message.

use super::process::Process;
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::stop::Stop;
use olivine::admin;
use olivine_bench::channel::TemporaryChannel;
use olivine_bench::kernel::waited_ns;
use olivine_bench::latency::Percentiles;
use olivine_bench::tally::Counts;
use olivine_bench::text;
use serde::Serialize;
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Interval of checks of the processes.
const LOOK: Duration = Duration::from_millis(50);
/// How much longer than planned both may take.
const GRACE: Duration = Duration::from_secs(20);
/// Bytes before the payload in the ring.
const HEADER_BYTES: u64 = 8;

/// The task of the two processes.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) size: u64,
    pub(super) capacity: u64,
    pub(super) cpus: Option<(u32, u32)>,
}

/// The result of one phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PhaseResult {
    sent_count: u64,
    received_count: u64,
    elapsed_ns: u64,
    messages_per_s: f64,
    bytes_per_s: f64,
    /// Time that one of the two was ready and had no CPU.
    pub(super) waited_for_cpu_ns: u64,
    #[serde(flatten)]
    pub(super) counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency: Option<Percentiles>,
    commands: [String; 2],
}

impl PhaseResult {
    /// The share of the time in which one of the two waited for a CPU.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(super) fn waited_share(&self) -> f64 {
        (self.waited_for_cpu_ns as f64 / (self.elapsed_ns as f64).max(1.0)).min(1.0)
    }

    /// One line for the terminal.
    #[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
    pub(super) fn line(&self, name: &str) -> String {
        format!(
            "{name:<11} {:>7}  {:>14} messages  {:>9}  {:>9}\n",
            text::nanos(self.elapsed_ns as f64),
            text::count(self.received_count),
            text::rate(self.messages_per_s),
            text::byte_rate(self.bytes_per_s),
        )
    }
}

impl Pair {
    /// Runs one phase: for `time`, at `rate` or at full speed.
    #[expect(
        clippy::disallowed_methods,
        reason = "two processes are looked at now and then"
    )]
    pub(super) fn run(
        &self,
        serial: u32,
        time: Duration,
        rate: Option<f64>,
        stop: &Stop,
        bar: &Progress,
    ) -> Outcome<PhaseResult> {
        let wait = if self.cpus.is_some() {
            "spin"
        } else {
            "adaptive"
        };
        let settings = format!("capacity={}&wait={wait}", self.capacity);
        let channel = TemporaryChannel::new("demo", serial, &settings)?;
        let uri = channel.uri();
        let mut sub = words(&["sub", &uri, "--once", "--verify", "--json"]);
        let mut publ = words(&["pub", &uri, "--subscribers", "1", "--json", "--size"]);
        publ.push(self.size.to_string());
        publ.extend(["--duration".to_owned(), format!("{}ms", time.as_millis())]);
        if let Some(rate) = rate {
            sub.extend(words(&["--stats", "latency"]));
            publ.extend(["--rate".to_owned(), rate.to_string()]);
        }
        if let Some((first, second)) = self.cpus {
            publ.extend(["--cpu".to_owned(), first.to_string()]);
            sub.extend(["--cpu".to_owned(), second.to_string()]);
        }
        let mut subscriber = Process::start("subscriber", &sub, Stdio::inherit())?;
        let mut publisher = Process::start("publisher", &publ, Stdio::inherit())?;
        let begun = Instant::now();
        let ids = [publisher.id(), subscriber.id()].map(u64::from);
        let mut waited_for_cpu_ns = 0;
        while !(publisher.has_ended()? && subscriber.has_ended()?) {
            // The counters of an ended process cannot be read.
            waited_for_cpu_ns = waited_for_cpu_ns.max(ids.map(waited_ns).iter().sum());
            if stop.now() {
                // The publisher ends and closes; the subscriber reads to the end of the stream.
                publisher.close_stdin();
            }
            if publisher.has_failed() {
                subscriber.close_stdin();
            }
            if subscriber.has_failed() {
                publisher.close_stdin();
            }
            if begun.elapsed() > time + GRACE {
                return Err(Failure::failed(format!(
                    "publisher and subscriber did not end within {} s",
                    (time + GRACE).as_secs()
                )));
            }
            self.show(bar, &channel, begun.elapsed(), time);
            std::thread::sleep(LOOK);
        }
        let (sent, received) = (publisher.summary()?, subscriber.summary()?);
        let command = |words: &[String]| format!("olivine {}", words.join(" "));
        let commands = [command(&publ), command(&sub)];
        Ok(PhaseResult {
            waited_for_cpu_ns,
            ..result(&sent, &received, commands)?
        })
    }

    /// Reads the publisher's cursor from outside, at no cost for the two processes.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bar"
    )]
    fn show(&self, bar: &Progress, channel: &TemporaryChannel, elapsed: Duration, time: Duration) {
        if !bar.is_shown() {
            return;
        }
        let cursor = admin::inspect(channel.config())
            .ok()
            .and_then(|info| info.publishers.first().map(|publisher| publisher.cursor));
        let frame = (self.size + HEADER_BYTES).next_multiple_of(8);
        let share = (elapsed.as_secs_f64() / time.as_secs_f64()).min(1.0);
        let messages = cursor.map_or(0, |cursor| cursor / frame);
        bar.show(
            (share * 1000.0) as u64,
            format!("{} messages", text::count(messages)),
        );
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Combines the reports of both sides.
fn result(sent: &Value, received: &Value, commands: [String; 2]) -> Outcome<PhaseResult> {
    let missing = || Failure::failed("a process gave an incomplete account of what it did");
    let number = |value: &Value, key: &str| value[key].as_u64().ok_or_else(missing);
    let figure = |key: &str| received[key].as_f64().ok_or_else(missing);
    let mut counts: Counts =
        serde_json::from_value(received["verified"].clone()).map_err(|_| missing())?;
    let sent_count = number(sent, "messages_count")?;
    let received_count = number(received, "messages_count")?;
    // Messages missing at the end leave no gap in the numbers.
    let known = counts.intact + counts.corrupt + counts.lost;
    counts.lost += sent_count.saturating_sub(known);
    Ok(PhaseResult {
        sent_count,
        received_count,
        elapsed_ns: number(received, "elapsed_ns")?,
        messages_per_s: figure("messages_per_s")?,
        bytes_per_s: figure("bytes_per_s")?,
        waited_for_cpu_ns: 0,
        counts,
        latency: serde_json::from_value(received["latency"].clone()).unwrap_or(None),
        commands,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn received(count: u64, lost: u64) -> Value {
        json!({
            "messages_count": count, "elapsed_ns": 5, "messages_per_s": 1.0, "bytes_per_s": 2.0,
            "verified": {
                "intact_count": count, "lost_count": lost,
                "repeated_count": 0, "reordered_count": 0,
                "corrupt_count": 0
            }
        })
    }

    #[test]
    fn messages_missing_at_the_end_count_as_lost() {
        let commands = || [String::new(), String::new()];
        let sent = json!({ "messages_count": 10 });
        assert_eq!(
            result(&sent, &received(10, 0), commands())
                .unwrap()
                .counts
                .lost,
            0
        );
        assert_eq!(
            result(&sent, &received(7, 0), commands())
                .unwrap()
                .counts
                .lost,
            3
        );
        assert_eq!(
            result(&sent, &received(7, 2), commands())
                .unwrap()
                .counts
                .lost,
            3
        );
        assert!(result(&json!({}), &received(7, 2), commands()).is_err());
    }
}
