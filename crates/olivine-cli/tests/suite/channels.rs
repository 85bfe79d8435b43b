//! `ls`, `inspect`, `rm`, `gc` with living and dead participants.

use crate::common::{TestFolder, json, said, until};
use rustix::process::Signal;

#[test]
fn live_channel_is_listed_and_not_removed() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://live", "--once", "--name", "audit"]);
    place.await_subscribers("live", 1);
    let publisher = place.start(&["pub", "shm://live", "--rate", "1000"]);
    place.await_publishing("live");
    let listing = json(&place.run(&["ls", "--json"]));
    assert_eq!(listing["channels"][0]["name"], "live");
    assert_eq!(listing["channels"][0]["state"], "live");
    let shown = json(&place.run(&["inspect", "shm://live", "--json"]));
    assert_eq!(shown["subscribers"][0]["name"], "audit");
    assert_eq!(
        shown["publishers"][0]["process_id"],
        u64::from(publisher.child.id())
    );
    let counters = [
        "subscribers_ever_count",
        "evictions_count",
        "reclaims_count",
    ];
    assert_eq!(
        counters.map(|name| shown[name].as_u64()),
        [Some(1), Some(0), Some(0)]
    );
    let table = place.run(&["inspect", "shm://live"]);
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(text.contains("audit") && text.contains("open"), "{text}");
    let counters = "counters     1 subscribers ever, 0 evicted, 0 dead reclaimed\n";
    assert!(text.contains(counters), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let refused = place.run(&["rm", "shm://live"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains(&publisher.child.id().to_string()),
        "{}",
        said(&refused)
    );
    let forced = place.run(&["rm", "shm://live", "--force"]);
    assert_eq!(
        (forced.status.code(), said(&forced)),
        (Some(0), String::new())
    );
    assert_eq!(place.left(), Vec::<String>::new());
    // Attached processes keep their mappings and end in order.
    publisher.signal(Signal::INT);
    assert_eq!(publisher.output().status.code(), Some(0));
    assert_eq!(subscriber.output().status.code(), Some(0));
}

#[test]
fn gc_removes_only_unused_channels() {
    let place = TestFolder::new();
    let dead = place.start(&["sub", "shm://dead"]);
    let alive = place.start(&["sub", "shm://alive"]);
    place.await_subscribers("dead", 1);
    place.await_subscribers("alive", 1);
    dead.signal(Signal::KILL);
    drop(dead);
    place.await_subscribers("dead", 0);
    let listing = String::from_utf8_lossy(&place.run(&["ls"]).stdout).into_owned();
    assert!(
        listing
            .lines()
            .any(|l| l.starts_with("dead") && l.contains("unused")),
        "{listing}"
    );
    let dry = place.run(&["gc", "--dry-run"]);
    assert!(
        String::from_utf8_lossy(&dry.stdout).starts_with("would remove dead ("),
        "{dry:?}"
    );
    assert_eq!(place.left().len(), 2);
    let collected = json(&place.run(&["gc", "--json"]));
    assert_eq!(collected["collected"][0]["name"], "dead");
    assert_eq!(place.left(), ["alive"]);
    alive.signal(Signal::INT);
    assert_eq!(alive.output().status.code(), Some(0));
}

/// It held what a killed publisher with a name had sent, and no place of a subscriber.
#[test]
fn gc_keeps_the_ring_of_a_killed_publisher_elsewhere() {
    let place = TestFolder::new();
    let uri = "tcp://127.0.0.1:0/numbers?name=feed";
    let publisher = place.start(&["pub", uri, "--rate", "1000"]);
    until("it has sent", || {
        let shown = place.run(&["inspect", uri, "--json"]);
        shown.status.success() && json(&shown)["publishers"][0]["cursor_bytes"].as_u64() > Some(0)
    });
    publisher.signal(Signal::KILL);
    drop(publisher);
    until("nothing uses it", || {
        let shown = json(&place.run(&["inspect", uri, "--json"]));
        shown["publishers"][0]["state"] == "dead"
    });
    let kept = String::from_utf8(place.run(&["gc"]).stdout).unwrap();
    assert!(
        kept.contains(": the next publisher of its name= delivers"),
        "{kept}"
    );
    assert_eq!(place.left().len(), 1);
    assert!(place.run(&["rm", uri]).status.success());
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Its name only begins as that of a ring of a channel elsewhere: it was kept.
#[test]
fn gc_removes_a_channel_whose_name_begins_as_a_ring_elsewhere() {
    let place = TestFolder::new();
    let publisher = place.start(&["pub", "shm://link.foo", "--rate", "1000"]);
    let shown = || place.run(&["inspect", "link.foo", "--json"]);
    until("it has sent", || {
        let shown = shown();
        shown.status.success() && json(&shown)["publishers"][0]["cursor_bytes"].as_u64() > Some(0)
    });
    publisher.signal(Signal::KILL);
    drop(publisher);
    until("nothing uses it", || {
        json(&shown())["publishers"][0]["state"] == "dead"
    });
    let removed = String::from_utf8(place.run(&["gc"]).stdout).unwrap();
    assert!(removed.starts_with("removed link.foo"), "{removed}");
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn rm_of_a_journal_says_what_its_files_are() {
    let place = TestFolder::new();
    let output = place.run(&["rm", "file:///tmp/x.olv"]);
    assert_eq!(output.status.code(), Some(2));
    let told = "file:///tmp/x.olv is a journal: its files are /tmp/x.olv and, if it has several, \
                /tmp/x.olv.000001 and so on";
    assert!(said(&output).contains(told), "{}", said(&output));
}

#[test]
fn gc_names_the_subscribers_that_keep_an_unused_channel() {
    let place = TestFolder::new();
    let named = place.start(&["sub", "x", "--name", "audit", "--out", "none"]);
    place.await_subscribers("x", 1);
    named.signal(Signal::KILL);
    drop(named);
    place.await_subscribers("x", 0);
    let text = String::from_utf8(place.run(&["gc"]).stdout).unwrap();
    let kept = "kept x: its subscriber 'audit' may return; 'olivine rm x' removes it\n";
    assert!(text.starts_with("nothing to collect in "), "{text}");
    assert!(text.ends_with(kept), "{text}");
    let shown = json(&place.run(&["gc", "--json"]));
    let expected = serde_json::json!([{ "name": "x", "subscribers": ["audit"] }]);
    assert_eq!(shown["kept"], expected, "{shown}");
    assert!(place.run(&["rm", "x"]).status.success());
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn shells_complete_commands_options_and_names_of_channels() {
    let place = TestFolder::new();
    place.run(&["pub", "ticks", "a"]);
    place.run(&["pub", "timer", "a"]);
    // A name that no channel can have.
    std::fs::create_dir(place.path().join("ti;rm")).unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = place.run(&["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && script.contains("OLIVINE_COMPLETE"),
            "{shell}"
        );
        // What its script asks for.
        let offered = |words: &[&str]| {
            let mut command = place.olivine(&["--", "olivine"]);
            command.args(words).env("OLIVINE_COMPLETE", shell);
            command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
            command.env("_CLAP_IFS", "\n");
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let value = |line: &str| {
                let end = line.find(['\t', ':', ' ']).unwrap_or(line.len());
                line[..end].to_owned()
            };
            text.lines().map(value).collect::<Vec<_>>()
        };
        assert!(
            offered(&["insp"]).contains(&"inspect".to_owned()),
            "{shell}"
        );
        assert!(
            offered(&["bench", "pi"]).contains(&"pingpong".to_owned()),
            "{shell}"
        );
        assert!(
            offered(&["sub", "--wo"]).contains(&"--worst".to_owned()),
            "{shell}"
        );
        assert_eq!(offered(&["sub", "ti"]), ["ticks", "timer"], "{shell}");
        assert_eq!(offered(&["top", "tim"]), ["timer"], "{shell}");
    }
}

/// The script in the shell itself.
#[test]
fn bash_completes_the_name_of_a_channel() {
    let place = TestFolder::new();
    place.run(&["pub", "ticks", "a"]);
    let script = place.run(&["completions", "bash"]).stdout;
    let script = String::from_utf8(script).unwrap();
    let tool = env!("CARGO_BIN_EXE_olivine");
    let press = "COMP_WORDS=(olivine sub tic); COMP_CWORD=2; COMP_TYPE=9\n\
                 _clap_complete_olivine olivine tic sub; echo \"${COMPREPLY[*]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args([
        "-c",
        &format!("olivine() {{ {tool} \"$@\"; }}\n{script}\n{press}"),
    ]);
    bash.env("OLIVINE_DIR", place.path());
    match bash.output() {
        Ok(output) => assert_eq!(output.stdout, b"ticks\n", "{}", said(&output)),
        Err(error) => crate::common::skip(&format!("bash: {error}")),
    }
}

#[test]
fn man_pages_name_every_command() {
    let place = TestFolder::new();
    let page = place.run(&["man"]);
    assert!(
        String::from_utf8_lossy(&page.stdout).contains(".TH olivine"),
        "{page:?}"
    );
    let page = place.run(&["man", "bench", "latency"]);
    assert!(
        String::from_utf8_lossy(&page.stdout).contains(".TH olivine-bench-latency"),
        "{page:?}"
    );
}

/// A publisher without room is listed with the subscriber it waits for, while it waits.
#[test]
fn ls_and_inspect_name_the_stopped_slow_subscriber() {
    let place = TestFolder::new();
    let reader = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    reader.signal(Signal::STOP);
    let writer = place.start(&[
        "pub",
        "x",
        "--size",
        "512",
        "--capacity",
        "4KiB",
        "--count",
        "1000",
    ]);
    let shown = || json(&place.run(&["inspect", "x", "--json"]));
    until("the publisher to have no room", || {
        let shown = shown();
        shown["publishers"][0]["blocked_ns"].as_u64() > Some(0)
            && shown["subscribers"][0]["process"] == "stopped"
    });
    let lane = &shown()["publishers"][0];
    assert_eq!(lane["blocked_by_slot"], 0, "{lane}");
    assert!(lane["back_pressure_ns"].as_u64() >= lane["blocked_ns"].as_u64());
    let held = format!("held back    x: publisher {} for ", writer.child.id());
    let by = format!(" by subscriber {} (stopped)\n", reader.child.id());
    for words in [&["ls"][..], &["inspect", "x"]] {
        let text = String::from_utf8(place.run(words).stdout).unwrap();
        assert!(text.contains(&held) && text.contains(&by), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
    let table = String::from_utf8(place.run(&["inspect", "x"]).stdout).unwrap();
    assert!(!table.contains("awake"), "{table}");
    reader.signal(Signal::CONT);
    assert!(writer.output().status.success());
    until("the end of the wait", || {
        shown()["publishers"][0]["blocked_ns"] == 0
    });
}

/// What a subscriber and a lane counted is in every output.
#[test]
fn parks_overruns_and_failures_are_shown() {
    let place = TestFolder::new();
    let uri = |query: &str| format!("shm://x?dir={}&{query}", place.path().display());
    let mut publisher = olivine::Publisher::open(&uri("capacity=4KiB")).unwrap();
    let mut subscriber = olivine::Subscriber::open(&uri("delivery=latest&wait=park")).unwrap();
    let waited = subscriber.wait(std::time::Duration::from_millis(1));
    assert!(!waited.unwrap());
    for _ in 0..1000 {
        publisher.publish(&[1; 24]).unwrap();
    }
    subscriber.try_receive().unwrap_err();
    publisher.close_failed("no route").unwrap();
    // `top` shows no lane that is closed.
    let _next = olivine::Publisher::open(&uri("capacity=4KiB")).unwrap();
    let shown = json(&place.run(&["inspect", "x", "--json"]));
    let (lane, slot) = (&shown["publishers"][0], &shown["subscribers"][0]);
    assert_eq!(
        (&lane["failures_count"], &lane["last_failure"]),
        (&1.into(), &"no route".into())
    );
    assert!(lane["since_last_failure_ns"].as_u64() > Some(0), "{lane}");
    assert_eq!(
        lane["since_first_failure_ns"],
        lane["since_last_failure_ns"]
    );
    assert_eq!(slot["overruns_count"], 1);
    let parks = &slot["parks_count"];
    assert!(parks.as_u64() > Some(0), "{slot}");
    let seen = json(&place.run(&["top", "x", "--once", "--json", "-d", "100ms"]));
    let of_role = |role: &str| {
        let all = seen["channels"][0]["participants"].as_array().unwrap();
        all.iter().find(|one| one["role"] == role).unwrap()
    };
    let lane = of_role("publisher");
    assert_eq!(
        lane["since_first_failure_ns"],
        lane["since_last_failure_ns"]
    );
    assert_eq!(
        (&lane["failures_count"], &lane["last_failure"]),
        (&1.into(), &"no route".into())
    );
    let slot = of_role("subscriber");
    assert_eq!(
        (&slot["overruns_count"], &slot["parks_count"]),
        (&1.into(), parks)
    );
    let text = |words: &[&str]| String::from_utf8(place.run(words).stdout).unwrap();
    let table = text(&["inspect", "x"]);
    assert!(table.contains(" in 1 overrun\n"), "{table}");
    assert!(table.contains("\nfailed       lane 0: 1 failure, the first "));
    assert!(table.contains(" ago: no route\n"), "{table}");
    let metrics = text(&["metrics", "x", "--once"]);
    let of_slot = "{channel=\"x\",slot=\"0\",subscriber=\"\"}";
    for line in [
        "olivine_failures_total{channel=\"x\",lane=\"0\"} 1\n".to_owned(),
        format!("olivine_overruns_total{of_slot} 1\n"),
        format!("olivine_parks_total{of_slot} {parks}\n"),
    ] {
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

/// As an interrupted start leaves it.
#[test]
fn ls_says_what_an_empty_folder_is() {
    let place = TestFolder::new();
    std::fs::create_dir(place.path().join("half")).unwrap();
    let listed = place.run(&["ls"]);
    let table = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        table.contains("half") && table.contains("unreadable"),
        "{table}"
    );
    let line = "half: its folder holds no channel";
    assert!(said(&listed).contains(line), "{}", said(&listed));
    let shown = json(&place.run(&["ls", "--json"]));
    let error = shown["channels"][0]["error"].as_str().unwrap();
    assert!(error.contains("'olivine rm'"), "{error}");
    assert!(place.run(&["rm", "half"]).status.success());
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Processes that use removed files are named: the folder shows another channel of the name, or
/// none.
#[test]
fn ls_and_inspect_name_processes_of_a_removed_channel() {
    let place = TestFolder::new();
    let words = |words: &[&str]| place.run(words);
    let reader = place.start(&["sub", "x", "--out", "none"]);
    place.await_subscribers("x", 1);
    // It only watches, and keeps what it has mapped until its next look.
    let watcher = place.start(&["top", "x", "-d", "1h"]);
    let maps = format!("/proc/{}/maps", watcher.child.id());
    let has_mapped = |suffix| {
        let maps = std::fs::read_to_string(&maps).unwrap();
        maps.lines().any(|line| line.ends_with(suffix))
    };
    until("the watcher to look", || has_mapped("/x/control"));
    assert!(!String::from_utf8_lossy(&words(&["ls"]).stdout).contains("unlinked"));
    assert!(words(&["rm", "x", "--force"]).status.success());
    let line = format!(
        "unlinked     x: its files were removed while used by process {};\n",
        reader.child.id()
    );
    let listed = String::from_utf8(words(&["ls"]).stdout).unwrap();
    assert!(has_mapped("/x/control (deleted)"));
    assert!(listed.starts_with("no channels in"), "{listed}");
    assert!(listed.contains(&line), "{listed}");
    let missing = words(&["inspect", "x"]);
    assert_eq!(missing.status.code(), Some(1));
    let used = format!("used by process {};", reader.child.id());
    assert!(said(&missing).contains(&used), "{}", said(&missing));
    // Another channel of this name.
    assert!(words(&["pub", "x", "a"]).status.success());
    let shown = json(&words(&["inspect", "x", "--json"]));
    assert_eq!(shown["unlinked_process_ids"][0], reader.child.id());
    let shown = json(&words(&["ls", "--json"]));
    assert_eq!(shown["unlinked"][0]["name"], "x");
    let text = String::from_utf8(words(&["inspect", "x"]).stdout).unwrap();
    assert!(text.contains(&line), "{text}");
}

/// `olivine doctor` on this machine: exit codes, JSON, and that it changes nothing.
mod doctor {
    use crate::common::{TestFolder, json, said};
    use rustix::process::Signal;
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    /// Files of a folder with their lengths and times of change.
    fn contents(folder: &Path, found: &mut BTreeMap<String, (u64, SystemTime)>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let about = entry.metadata().unwrap();
            let path = entry.path();
            found.insert(
                path.display().to_string(),
                (about.len(), about.modified().unwrap()),
            );
            if about.is_dir() {
                contents(&path, found);
            }
        }
    }

    fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|one| one["id"] == id);
        found.unwrap_or_else(|| panic!("no check {id} in {report}"))
    }

    #[test]
    fn this_machine_is_checked_as_json_and_nothing_is_written() {
        let place = TestFolder::new();
        let output = place.run(&["doctor", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let report = json(&output);
        assert_eq!(report["ok"], true, "{report}");
        let checks = report["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 22, "{report}");
        let words = ["good", "note", "unknown", "warning", "problem"];
        for word in words {
            let count = checks.iter().filter(|one| one["status"] == word).count();
            assert_eq!(report[format!("{word}_count")], count, "{report}");
        }
        for one in checks {
            let is_text = |key: &str| one[key].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_text("id") && is_text("value") && is_text("why"), "{one}");
            let needs_mend = ["note", "warning", "problem"].map(Value::from);
            assert_eq!(
                is_text("mend"),
                needs_mend.contains(&one["status"]),
                "{one}"
            );
        }
        assert_eq!(place.left(), Vec::<String>::new());
    }

    #[test]
    fn text_has_a_row_for_each_check_and_no_control_characters() {
        let place = TestFolder::new();
        let output = place.run(&["doctor"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().skip(1).take_while(|line| !line.is_empty());
        assert_eq!(rows.count(), 22, "{text}");
        assert!(
            text.ends_with('\n')
                && text.contains("\nno problem found on this machine; no channel was looked at"),
            "{text}"
        );
        assert!(
            text.chars().all(|one| one == '\n' || !one.is_control()),
            "{text:?}"
        );
    }

    /// A link in place of the folder is refused by the library, and so by the doctor.
    #[test]
    fn unusable_folder_is_a_problem_and_exit_code_1() {
        let place = TestFolder::new();
        let folder = place.path().join("link");
        std::os::unix::fs::symlink("/tmp", &folder).unwrap();
        let output = place.run(&["doctor", "--json", "--dir", folder.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let report = json(&output);
        assert_eq!(report["ok"], false, "{report}");
        assert_eq!(check(&report, "folder")["status"], "problem", "{report}");
    }

    #[test]
    fn wrong_uris_are_wrong_use_and_a_missing_channel_is_a_failure() {
        let place = TestFolder::new();
        let cases = [
            ("tcp://h:1/x", 2, "tcp://h:1/x"),
            ("shm://x?no=1", 2, "'no'"),
            ("absent", 1, "absent"),
        ];
        for (uri, code, named) in cases {
            let output = place.run(&["doctor", uri]);
            assert_eq!(output.status.code(), Some(code), "{uri}: {}", said(&output));
            assert!(said(&output).contains(named), "{}", said(&output));
        }
    }

    /// A publisher waits for an absent durable subscriber without bound.
    #[test]
    fn absent_durable_subscriber_that_holds_a_publisher_is_a_problem() {
        let place = TestFolder::new();
        let reader = place.start(&["sub", "x", "--name", "audit", "--out", "none"]);
        place.await_subscribers("x", 1);
        let report = json(&place.run(&["doctor", "x", "--json"]));
        assert_eq!(check(&report, "channel-held")["status"], "good", "{report}");
        let text = String::from_utf8(place.run(&["doctor", "x"]).stdout).unwrap();
        assert!(
            text.ends_with("no problem found on this machine or in x; --all explains the notes\n")
                || text.ends_with("no problem found on this machine or in x\n"),
            "{text}"
        );
        let writer = place.start(&["pub", "x", "--rate", "1000", "--capacity", "64KiB"]);
        place.await_publishing("x");
        reader.signal(Signal::KILL);
        drop(reader);
        crate::common::until("the publisher to be held", || {
            let info = place.look("x").unwrap();
            !info.subscribers[0].alive && info.publishers[0].blocked_ns > 0
        });
        let output = place.run(&["doctor", "x", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let report = json(&output);
        let held = check(&report, "channel-held");
        assert_eq!(held["status"], "problem", "{held}");
        assert_eq!(held["mend"], "olivine rm shm://x --name audit", "{held}");
        let value = held["value"].as_str().unwrap();
        let is_named = value.starts_with("held ") && value.contains(" by 'audit' (");
        assert!(is_named && value.contains("gone"), "{value}");
        let text = String::from_utf8(place.run(&["doctor", "x"]).stdout).unwrap();
        assert!(text.contains("a problem stops Olivine here"), "{text}");
        drop(writer);
    }

    /// Two participants on one CPU, one of them stopped.
    #[test]
    fn stopped_and_crowded_participants_are_named_without_touching_the_channel() {
        let place = TestFolder::new();
        let cpu = olivine_bench::cpus::allowed()[0].to_string();
        let reader = place.start(&["sub", "busy", "--cpu", &cpu, "--wait", "park"]);
        place.await_subscribers("busy", 1);
        let writer = place.start(&["pub", "busy", "--cpu", &cpu, "--rate", "1000"]);
        place.await_publishing("busy");
        for running in [&reader, &writer] {
            running.signal(Signal::STOP);
        }
        let stopped = || {
            place.look("busy").unwrap().subscribers[0]
                .process
                .to_string()
        };
        crate::common::until("the subscriber is stopped", || stopped() == "stopped");
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        contents(place.path(), &mut before);
        let output = place.run(&["doctor", "busy", "--json"]);
        contents(place.path(), &mut after);
        assert_eq!(before, after);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let report = json(&output);
        assert_eq!(report["channel"], "busy");
        let crowded = check(&report, "channel-cpus");
        assert_eq!(crowded["status"], "warning", "{crowded}");
        let stopped = check(&report, "channel-stopped");
        assert_eq!(stopped["status"], "warning", "{stopped}");
        let id = reader.child.id().to_string();
        assert!(stopped["mend"].as_str().unwrap().contains(&id), "{stopped}");
        for running in [&reader, &writer] {
            running.signal(Signal::CONT);
        }
    }
}

/// A program elsewhere keeps a ring here under its `name=`. Its channel's name is a hash.
#[test]
fn ring_of_a_channel_elsewhere_is_found_by_its_uri_and_name() {
    let place = TestFolder::new();
    let uri = "tcp://127.0.0.1:9/numbers?role=connect";
    let named = format!("{uri}&name=ledger");
    let look = |words: &[&str]| place.run(words);
    let nothing = look(&["inspect", &named]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        said(&nothing).contains("no program has a ring for tcp://127.0.0.1:9/numbers"),
        "{}",
        said(&nothing)
    );
    let nameless = look(&["inspect", uri]);
    assert_eq!(nameless.status.code(), Some(2));
    assert!(
        said(&nameless).contains("?name=NAME"),
        "{}",
        said(&nameless)
    );
    let settings = ["--duration", "10ms", "--log-level", "off"];
    look(&[&["sub", &named][..], &settings].concat());
    let shown = json(&look(&["inspect", &named, "--json"]));
    assert_eq!(shown["subscribers"][0]["name"], "ledger", "{shown}");
    look(&[&["pub", &named, "one", "--linger", "1ms"][..], &settings].concat());
    let both = look(&["inspect", &named]);
    assert_eq!(both.status.code(), Some(2));
    let (of_publisher, of_subscriber) = ("of the publisher or shm://link.", "of the subscriber");
    assert!(
        said(&both).contains(of_publisher) && said(&both).contains(of_subscriber),
        "{}",
        said(&both)
    );
    // `--name` names the ring as well as the place in it.
    let channel = shown["name"].as_str().unwrap();
    let removed = place.run(&["rm", &format!("shm://{channel}"), "--name", "ledger"]);
    assert_eq!(removed.status.code(), Some(0), "{}", said(&removed));
    look(
        &[
            &["sub", "tcp://127.0.0.1:9/other?name=ledger"][..],
            &settings,
        ]
        .concat(),
    );
    let removed = place.run(&["rm", "tcp://127.0.0.1:9/other", "--name", "ledger"]);
    assert_eq!(removed.status.code(), Some(0), "{}", said(&removed));
}

/// The list of channels says of which URI each ring is: its name is a hash.
#[test]
fn ring_of_a_channel_elsewhere_names_its_uri_without_the_token() {
    let place = TestFolder::new();
    let uri = "tcp://127.0.0.1:9/numbers?name=ledger";
    let secret = format!("{uri}&role=connect&token=hunter2-hunter2");
    let settings = ["--duration", "10ms", "--log-level", "off"];
    place.run(&[&["sub", &secret][..], &settings].concat());
    place.run(&[&["pub", &secret, "one", "--linger", "1ms"][..], &settings].concat());
    let printed = |words: &[&str]| String::from_utf8(place.run(words).stdout).unwrap();
    let listed = json(&place.run(&["ls", "--json"]));
    let listed = listed["channels"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let lines = printed(&["ls"]);
    for end in ["publisher", "subscriber"] {
        let whose = serde_json::json!({ "end": end, "uri": uri });
        let ring = listed.iter().find(|one| one["elsewhere"] == whose);
        let name = ring.unwrap()["name"].as_str().unwrap();
        let line = format!("ring         {name} of the {end} of {uri}\n");
        assert!(lines.contains(&line), "{lines}");
        let shown = printed(&["inspect", name]);
        let line = format!("channel      {name}, of the {end} of {uri}\n");
        assert!(shown.contains(&line), "{shown}");
        let kept = printed(&["gc"]);
        let line = format!("kept {name} of the {end} of {uri}: ");
        assert!(kept.contains(&line), "{kept}");
        // What does not fit the name of the ring is not believed.
        let note = place.path().join(name).join("uri");
        let told = std::fs::read_to_string(&note).unwrap();
        assert!(!told.contains("hunter2"), "{told}");
        std::fs::write(&note, told.replace("ledger", "other")).unwrap();
        let shown = json(&place.run(&["inspect", name, "--json"]));
        assert!(shown["elsewhere"].is_null(), "{shown}");
        let removed = place.run(&["rm", name]);
        assert_eq!(removed.status.code(), Some(0), "{}", said(&removed));
        assert!(!place.path().join(name).exists());
    }
}
