//! A folder in which the tool runs, and the record of its arguments.

use crate::common::{Running, TestFolder, json, said};
use std::process::Output;
use std::sync::Mutex;

/// What a scene shows about its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The option changes the result.
    Acts,
    /// The command ends with exit code 2 and the option's name.
    Refused,
}

/// Options of a command, and the scene that shows them.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) command: &'static str,
    pub(crate) options: &'static [&'static str],
    pub(crate) how: How,
    pub(crate) act: fn(&Stage),
}

impl Scene {
    pub(crate) const fn acts(
        command: &'static str,
        options: &'static [&'static str],
        act: fn(&Stage),
    ) -> Self {
        Self {
            command,
            options,
            how: How::Acts,
            act,
        }
    }

    pub(crate) const fn refused(
        command: &'static str,
        options: &'static [&'static str],
        act: fn(&Stage),
    ) -> Self {
        Self {
            command,
            options,
            how: How::Refused,
            act,
        }
    }
}

/// A run: its arguments, its exit code if the scene waited, and its output.
type Run = (Vec<String>, Option<i32>, String);

/// A folder of channels, and every command line that ran in it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) place: TestFolder,
    runs: Mutex<Vec<Run>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            place: TestFolder::new(),
            runs: Mutex::default(),
        }
    }

    fn note(&self, words: &[&str], code: Option<i32>, said: String) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.runs.lock().unwrap().push((words, code, said));
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let output = self.place.run(words);
        self.note(words, output.status.code(), said(&output));
        output
    }

    /// Runs to success.
    pub(crate) fn ok(&self, words: &[&str]) -> Output {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output
    }

    /// Standard output of a successful run.
    pub(crate) fn out(&self, words: &[&str]) -> String {
        String::from_utf8_lossy(&self.ok(words).stdout).into_owned()
    }

    /// Runs to this exit code; returns its output.
    pub(crate) fn fails(&self, words: &[&str], code: i32) -> String {
        let output = self.run(words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    pub(crate) fn start(&self, words: &[&str]) -> Running {
        self.note(words, None, String::new());
        self.place.start(words)
    }

    pub(crate) fn ok_with(&self, words: &[&str], input: &[u8]) -> Output {
        let output = self.place.start_with(words, input.to_vec()).output();
        self.note(words, output.status.code(), said(&output));
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output
    }

    /// Runs without the right to real-time priority or locked memory; `None` if the programs that
    /// remove these rights are missing.
    pub(crate) fn run_powerless(&self, words: &[&str]) -> Option<Output> {
        let tool = env!("CARGO_BIN_EXE_olivine");
        let mut fence = vec!["prlimit", "--memlock=0:0", "--rtprio=0:0"];
        if rustix::process::geteuid().is_root() {
            fence.extend(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
        }
        let mut command = std::process::Command::new(fence[0]);
        command.args(&fence[1..]).arg(tool).args(words);
        command.env("OLIVINE_DIR", self.place.path());
        let output = command.output().ok()?;
        self.note(words, output.status.code(), said(&output));
        Some(output)
    }

    /// A path in the folder that no channel has.
    pub(crate) fn path(&self, name: &str) -> String {
        let folder = self.place.path().join("files");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name).display().to_string()
    }

    /// Shows `--json` of a command that ends without a signal: one object with it, none without.
    pub(crate) fn shows_json(&self, words: &[&str]) {
        let plain = self.out(words);
        let plain = plain.lines().last().unwrap_or_default();
        assert!(
            serde_json::from_str::<serde_json::Value>(plain).is_err(),
            "{plain}"
        );
        let output = self.ok(&[words, &["--json"]].concat());
        assert!(json(&output).is_object(), "{words:?}");
    }

    /// Shows `--log-level` of any command: the amount of output, whatever the result.
    pub(crate) fn shows_level(&self, words: &[&str]) {
        let told = |output: &Output| said(output).contains("channels without --dir in");
        assert!(!told(&self.run(words)), "{words:?}");
        assert!(told(
            &self.run(&[words, &["--log-level", "debug"]].concat())
        ));
        assert!(!told(&self.run(&[words, &["--log-level", "off"]].concat())));
    }

    /// Whether the scene ran each of its options, and the command without it.
    pub(crate) fn check(&self, scene: &Scene) {
        let runs = self.runs.lock().unwrap();
        let command: Vec<&str> = scene.command.split(' ').collect();
        let of_command: Vec<&Run> = runs
            .iter()
            .filter(|(words, ..)| words.iter().zip(&command).all(|(a, b)| a == b))
            .collect();
        for option in scene.options {
            let (with, without): (Vec<&Run>, Vec<&Run>) = of_command
                .iter()
                .copied()
                .partition(|(words, ..)| words.iter().any(|word| word == option));
            assert!(!with.is_empty(), "{} {option} was not run", scene.command);
            match scene.how {
                How::Acts => assert!(!without.is_empty(), "nothing ran without {option}"),
                How::Refused => {
                    for (words, code, said) in with {
                        assert_eq!(*code, Some(2), "{words:?}: {said}");
                        assert!(said.contains(option), "{words:?}: {said}");
                    }
                }
            }
        }
    }
}
