//! An unusable folder or file: one clear line, exit code 1, and no change.

use crate::common::{TestFolder, said};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// Checks that `words` fail with `text`, in one line, with exit code 1.
fn refused(output: &Output, words: &[&str], what: &str) {
    let complaint = said(output);
    assert_eq!(output.status.code(), Some(1), "{what}: {complaint}");
    assert_eq!(complaint.lines().count(), 1, "{what}: {complaint}");
    assert!(complaint.starts_with("olivine: "), "{what}: {complaint}");
    assert!(output.stdout.is_empty(), "{what}: something on stdout");
    for word in words {
        assert!(complaint.contains(word), "{what}, '{word}': {complaint}");
    }
}

/// Both roles are refused with `words`, and leave `folder` unchanged.
fn both_refused(place: &TestFolder, words: &[&str], what: &str) {
    let entries = |path: &Path| {
        let names = fs::read_dir(path).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    };
    let before = entries(place.path());
    for command in [
        &["pub", "shm://bad", "hello"][..],
        &["sub", "shm://bad", "--count", "1"],
    ] {
        refused(&place.run(command), words, what);
    }
    assert_eq!(entries(place.path()), before, "{what}");
}

#[test]
fn foreign_or_shared_folder_is_refused() {
    let place = TestFolder::new();
    for mode in [0o770, 0o777, 0o1777] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        both_refused(
            &place,
            &["folder", "may write to it"],
            &format!("mode {mode:o}"),
        );
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    // Only root can change the owner of a folder.
    if chown(place.path(), Some(65_534), None).is_ok() {
        both_refused(
            &place,
            &["belongs to user 65534", "you are user 0"],
            "another's folder",
        );
    }
}

#[test]
fn foreign_file_at_the_channel_path_is_refused() {
    type Make = fn(&Path);
    let makers: [(&str, Make); 4] = [
        ("a link", |path| symlink("/", path).unwrap()),
        ("a dangling link", |path| symlink("nowhere", path).unwrap()),
        ("a file", |path| fs::write(path, "precious").unwrap()),
        ("a FIFO", |path| {
            let made = Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
    ];
    for (what, make) in makers {
        let place = TestFolder::new();
        make(&place.path().join("bad"));
        both_refused(&place, &["bad", "remove it or use another name"], what);
    }
}

/// A publisher leaves unread messages: the files of a channel.
fn leave_behind(place: &TestFolder) {
    let output = place.run(&["pub", "shm://bad", "hello"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(place.left(), ["bad"]);
}

#[test]
fn damaged_channel_files_are_refused() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, &str, Damage); 6] = [
        ("empty", "control", Vec::clear),
        ("cut", "control", |bytes| bytes.truncate(5000)),
        ("foreign", "control", |bytes| {
            bytes[..8].copy_from_slice(b"NOT MINE")
        }),
        ("older", "control", |bytes| {
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes())
        }),
        ("a lane cut", "lane-0", |bytes| bytes.truncate(4096)),
        ("a lane with a foreign header", "lane-0", |bytes| {
            bytes[..8].fill(b'#')
        }),
    ];
    for (what, name, damage) in damages {
        let place = TestFolder::new();
        leave_behind(&place);
        let path = place.path().join("bad").join(name);
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        both_refused(&place, &[name], what);
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: touched");
    }
}

#[test]
fn publisher_above_the_limit_is_refused() {
    let place = TestFolder::new();
    let first = place.start(&["pub", "shm://bad?publishers_max=1", "--rate", "1"]);
    place.await_publishing("bad");
    let second = place.run(&["pub", "shm://bad", "hello"]);
    refused(&second, &["'bad'", "publishers_max="], "a second publisher");
    drop(first);
}

/// `--dir` and `$OLIVINE_DIR` alike.
#[test]
fn folder_that_is_relative_or_missing_or_a_file_is_refused() {
    let place = TestFolder::new();
    let file = place.path().join("file").display().to_string();
    fs::write(&file, "precious").unwrap();
    let missing = place.path().join("none").display().to_string();
    for (folder, words) in [
        ("rel", "does not begin with '/'"),
        (file.as_str(), "is not a folder"),
        (missing.as_str(), "does not exist"),
    ] {
        for command in [
            &["ls"][..],
            &["gc"],
            &["top", "--once"],
            &["metrics", "--once"],
            &["serve", "--snapshot", "/no/x.html"],
        ] {
            let by_option = place.run(&[command, &["--dir", folder]].concat());
            let mut by_variable = place.olivine(command);
            let by_variable = by_variable
                .env("OLIVINE_DIR", folder)
                .current_dir(place.path());
            for output in [by_option, by_variable.output().unwrap()] {
                let complaint = said(&output);
                let code = output.status.code();
                assert!(matches!(code, Some(1 | 2)), "{command:?}: {complaint}");
                assert!(complaint.contains(words), "{command:?}: {complaint}");
                assert!(!complaint.contains("remove it"), "{command:?}: {complaint}");
                assert!(output.stdout.is_empty(), "{command:?}");
            }
        }
    }
    for folder in ["rel", &file] {
        for command in [&["pub", "x", "hello"][..], &["inspect", "x"], &["rm", "x"]] {
            let mut program = place.olivine(command);
            let program = program.env("OLIVINE_DIR", folder).current_dir(place.path());
            let words = [if folder == "rel" {
                "does not begin with '/'"
            } else {
                "not a folder"
            }];
            refused(
                &program.output().unwrap(),
                &words,
                "a folder of $OLIVINE_DIR",
            );
        }
    }
    assert!(!place.path().join("rel").exists());
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn name_of_an_attached_subscriber_is_not_forgotten() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "kept", "--name", "audit"]);
    place.await_subscribers("kept", 1);
    let output = place.run(&["rm", "kept", "--name", "audit"]);
    let words = ["'audit'", "end it there first", "[admin.subscriber-in-use]"];
    refused(&output, &words, "an attached subscriber");
    assert!(!said(&output).contains("name="), "{}", said(&output));
    drop(subscriber);
}

#[test]
fn address_that_is_none_is_refused_with_an_example() {
    let place = TestFolder::new();
    for command in ["metrics", "serve"] {
        let output = place.run(&[command, "--listen", "foo"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(
            said(&output).contains("such as 127.0.0.1:"),
            "{}",
            said(&output)
        );
    }
}

/// In a new mount namespace with a file system of 256 KiB.
#[test]
fn full_file_system_is_refused() {
    let place = TestFolder::new();
    let words = ["pub", "shm://bad?capacity=1MiB", "hello"];
    let tool = place.olivine(&words);
    // Counted inside: the mount ends with the process.
    let script = "mount -t tmpfs -o size=256k,mode=700 none \"$OLIVINE_DIR\" || exit 77\n\
                  \"$@\"; code=$?; [ -z \"$(ls -A \"$OLIVINE_DIR\")\" ] || exit 78; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]);
    command.arg(tool.get_program()).args(tool.get_args());
    command.env("OLIVINE_DIR", place.path());
    match command.output() {
        Ok(output)
            if !matches!(output.status.code(), Some(77)) && !said(&output).contains("unshare") =>
        {
            refused(&output, &["bytes are needed", "free"], "a full file system");
        }
        other => crate::common::skip(&format!("no mount namespace to be had here ({other:?})")),
    }
}

/// Files that are read whole: what `--help` states is what is refused.
#[test]
fn help_states_the_most_bytes_of_a_file_and_larger_ones_are_refused() {
    let place = TestFolder::new();
    let file = place.path().join("large.json");
    let path = file.to_str().unwrap();
    let cases: [(&[&str], &[&str], u64); 4] = [
        (&["bridge"], &["--config", path], 1),
        (&["bench", "sweep"], &[path], 1),
        (&["bench", "report"], &[path], 64),
        (&["bench", "compare"], &[path, path], 64),
    ];
    for (command, arguments, most) in cases {
        let help = place.run(&[command, &["--help"]].concat());
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.contains(&format!("{most} MiB")), "{command:?}: {help}");
        // Without blocks on the disk.
        let large = fs::File::create(&file).unwrap();
        large.set_len((most << 20) + 1).unwrap();
        let output = place.run(&[command, arguments].concat());
        let told = said(&output);
        let limit = format!("at most {} are allowed", most << 20);
        assert!(
            !output.status.success() && told.contains(&limit),
            "{command:?}: {told}"
        );
    }
}

/// Every accepted flag has an effect: flags of the other role, and flags without an effect, are
/// refused.
mod roles {
    use crate::common::{TestFolder, json, said};
    use olivine::journal::{Lane, Recorder, RecorderSettings};

    #[test]
    fn flag_without_effect_is_refused() {
        let cases: [(&[&str], &str); 12] = [
            (&["sub", "x", "--subscribers", "3"], "--subscribers"),
            (&["sub", "x", "--linger", "1s"], "--linger"),
            (&["sub", "x", "--numa", "0"], "--numa"),
            (&["pub", "x", "a", "--delivery", "latest"], "--delivery"),
            (&["pub", "x", "a", "--from", "oldest"], "--from"),
            (&["pub", "x", "a", "--name", "n"], "--name has no meaning"),
            (&["pub", "x", "a", "--stats", "latency"], "olivine sub"),
            (&["pub", "x", "a", "--interval", "2s"], "--stats interval"),
            (&["sub", "x", "--interval", "2s"], "--stats interval"),
            (
                &["pub", "x", "--stdin", "frames", "--tag", "7"],
                "--tag has no meaning",
            ),
            (
                &["pub", "x", "--stdin", "lines", "--size", "7"],
                "--size has no meaning",
            ),
            (
                &["inspect", "file:///no/journal", "--dir", "/x"],
                "--dir has no meaning",
            ),
        ];
        for (words, named) in cases {
            let place = TestFolder::new();
            let output = place.run(words);
            assert_eq!(
                output.status.code(),
                Some(2),
                "{words:?}: {}",
                said(&output)
            );
            assert!(
                said(&output).contains(named),
                "{words:?}: {}",
                said(&output)
            );
            assert_eq!(place.left(), Vec::<String>::new(), "{words:?}");
        }
    }

    #[test]
    fn bare_name_is_a_local_channel_in_each_command() {
        let place = TestFolder::new();
        let ok = |words: &[&str]| {
            let output = place.run(words);
            assert!(output.status.success(), "{words:?}: {}", said(&output));
            output
        };
        ok(&["pub", "ticks", "hello"]);
        assert_eq!(json(&ok(&["inspect", "ticks", "--json"]))["name"], "ticks");
        let received = ok(&[
            "sub",
            "ticks?from=oldest",
            "--count",
            "1",
            "--json",
            "--out",
            "json",
        ]);
        let first = String::from_utf8(received.stdout).unwrap();
        let line: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
        assert_eq!(line["text"], "hello");
        // A date after this test was written.
        assert!(line["received_unix_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000);
        ok(&["pub", "ticks", "again"]);
        ok(&["rm", "ticks"]);
        assert_eq!(place.left(), Vec::<String>::new());
    }

    #[test]
    fn inspect_shows_contents_and_ending_of_a_journal() {
        let place = TestFolder::new();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.olv");
        let uri = format!("file://{}", path.display());
        let published = place.run(&["pub", &uri, "one", "two", "three", "--log-level", "off"]);
        assert!(published.status.success(), "{}", said(&published));
        let output = place.run(&["inspect", &uri, "--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let found = json(&output);
        assert_eq!(found["state"], "complete", "{found}");
        assert_eq!(found["lanes"][0]["messages"], 3, "{found}");
        assert_eq!(found["lanes"][0]["payload_bytes"], 11, "{found}");
        let text = place.run(&["inspect", &uri]);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.contains("complete: closed by its recorder"), "{text}");
        // Messages that were not recorded are listed.
        let holes = tempfile::tempdir().unwrap();
        let holed = holes.path().join("holed.olv");
        let settings = RecorderSettings::default();
        let mut recorder = Recorder::open(&holed, &settings).unwrap();
        let lane = recorder.lane(&Lane::new("ticks", 3, 8, 1)).unwrap();
        for at in [64, 640] {
            recorder
                .append(lane, at, 5, &[8, 0, 0, 0, 1, 0, 0, 0])
                .unwrap();
        }
        recorder.close().unwrap();
        let holed = format!("file://{}", holed.display());
        let found = json(&place.run(&["inspect", &holed, "--json"]));
        assert_eq!(found["state"], "incomplete", "{found}");
        let hole = &found["holes"][0];
        assert_eq!(hole["channel"], "ticks", "{found}");
        assert_eq!(hole["publisher"], 3, "{found}");
        assert_eq!(hole["missed_bytes"], 640 - 72, "{found}");
        assert_eq!(hole["lane_position_bytes"], 72, "{found}");
        assert_eq!(hole["position_bytes"], 8, "{found}");
        assert_eq!(found["holes"].as_array().unwrap().len(), 1, "{found}");
        let text = place.run(&["inspect", &holed]);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(
            text.contains("incomplete: closed by its recorder; 568 bytes"),
            "{text}"
        );
        assert!(text.contains("MISSING BYTES"), "{text}");
        // A flipped bit is reported, and fails.
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap();
        let file = file.unwrap().path();
        let file = if file.is_dir() {
            std::fs::read_dir(file)
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path()
        } else {
            file
        };
        let mut bytes = std::fs::read(&file).unwrap();
        let place_of_text = bytes
            .windows(3)
            .position(|window| window == b"two")
            .unwrap();
        bytes[place_of_text] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let output = place.run(&["inspect", &uri, "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert_eq!(json(&output)["state"], "damaged");
    }
}
