//! Checks that must hold for any input bytes. The fuzz targets (`fuzz/` in the root of the
//! repository) and the replay of the kept inputs run the same checks.
//!
//! A module `fuzz_checks` beside the code has the check `check_NAME`. This module collects them,
//! `olivine::fuzzing` hands them out, and `fuzz/main.rs` runs the check of the target `NAME`.
//! CONTRIBUTING.md says how to add a target.
//!
//! A failed check panics, which fuzzers and tests detect. The fuzz targets run under
//! AddressSanitizer, which detects accesses outside a buffer.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

pub(crate) mod input;
mod refusals;

use crate::error::{LinkError, OpenError, ReceiveError};

#[cfg(feature = "journal")]
pub use crate::bridge::journal::fuzz_checks::check_journal;
#[cfg(feature = "tcp")]
pub use crate::bridge::wire::fuzz_checks::check_wire;
pub use crate::channel::fields::fuzz_checks::check_fields;
pub use crate::channel::sealed::fuzz_checks::check_sealed;
pub use crate::ring::fuzz_checks::check_frames;
pub use crate::uri::fuzz_checks::check_uri;
pub use control::check_control;

/// The files of a channel with damaged words.
mod control {
    use super::input::Input;
    use super::refusals::{ends_reading, is_refusal};
    use crate::admin;
    use crate::channel::publisher::Publisher;
    use crate::channel::subscriber::Subscriber;
    use crate::error::{OpenError, ReceiveError};
    use crate::uri::Config;
    use std::path::{Path, PathBuf};

    /// Messages taken from a damaged lane: it may be endless, a call must return.
    const TAKEN_MAX: usize = 100;

    thread_local! {
        /// One folder for all inputs of a thread, removed with it.
        static TEMPLATE: Template = Template::new();
    }

    /// An unused channel with unread messages.
    struct Template {
        folder: tempfile::TempDir,
        control: Vec<u8>,
        lane: Vec<u8>,
    }

    impl Template {
        fn channel(&self) -> PathBuf {
            self.folder.path().join("claimed")
        }

        fn uri(&self, query: &str) -> String {
            let folder = self.folder.path().display();
            format!(
                "shm://claimed?dir={folder}&capacity=4KiB&publishers_max=3&subscribers_max=4{query}"
            )
        }

        fn new() -> Self {
            let mut made = Self {
                folder: tempfile::tempdir_in("/dev/shm").expect("a folder in shared memory"),
                control: Vec::new(),
                lane: Vec::new(),
            };
            drop(Subscriber::open(&made.uri("&name=durable")).expect("a place"));
            let mut publisher = Publisher::open(&made.uri("")).expect("a lane");
            for length in [0, 8, 100, 250] {
                publisher
                    .publish(&vec![length; length.into()])
                    .expect("room");
            }
            drop(publisher);
            let read = |name| std::fs::read(made.channel().join(name)).expect("left behind");
            (made.control, made.lane) = (read("control"), read("lane-0"));
            made
        }
    }

    /// Checks that with any content of the files, opening, inspecting, reading and sending stay
    /// inside the mapping and return a result or a named error.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn check_control(data: &[u8]) {
        TEMPLATE.with(|template| check(template, data));
    }

    fn check(template: &Template, data: &[u8]) {
        let folder = template.channel();
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut input = Input::new(data);
        let choice = input.byte();
        write(&folder, template, &mut input);

        let uri = template.uri(
            ["", "&from=oldest", "&delivery=latest", "&name=durable"][usize::from(choice) % 4],
        );
        let config = Config::parse(&uri).expect("a good one");
        if let Err(error) = admin::inspect(&config) {
            refused(&error);
        }
        if let Ok(mut subscriber) = Subscriber::open_with(&config).map_err(|error| refused(&error))
        {
            receive(&mut subscriber);
            if let Ok(mut publisher) =
                Publisher::open_with(&config).map_err(|error| refused(&error))
            {
                for length in [0, 40, 900] {
                    let _ = publisher.try_publish(&vec![1; length]);
                }
                receive(&mut subscriber);
            }
        }
        std::fs::remove_dir_all(&folder)
            .or_else(only_if_there)
            .expect("removed");
    }

    fn only_if_there(error: std::io::Error) -> std::io::Result<()> {
        match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }
    }

    fn refused(error: &OpenError) {
        assert!(is_refusal(error), "{error}");
    }

    fn unread(error: &ReceiveError) {
        assert!(ends_reading(error, is_refusal), "{error}");
    }

    /// The original files, except the words and lengths that the input changes.
    fn write(folder: &Path, template: &Template, input: &mut Input<'_>) {
        let (mut control, mut lane) = (template.control.clone(), template.lane.clone());
        input.damage([&mut control, &mut lane]);
        std::fs::write(folder.join("control"), control).expect("written");
        std::fs::write(folder.join("lane-0"), lane).expect("written");
    }

    fn receive(subscriber: &mut Subscriber) {
        let mut sum = 0_u64;
        let read = |message: &[u8]| message.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        match subscriber.poll(|message| sum += read(&message), TAKEN_MAX) {
            Ok(count) => assert!(count <= TAKEN_MAX),
            Err(error) => unread(&error),
        }
        match subscriber.try_receive() {
            Ok(message) => sum += message.map_or(0, |message| read(&message)),
            Err(error) => unread(&error),
        }
        std::hint::black_box((
            sum,
            subscriber.lag(),
            subscriber.position(),
            subscriber.inspect_lanes(),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use std::path::Path;

    /// The program with all targets, and the modules whose tests replay kept inputs.
    const PROGRAM: &str = "fuzz/main.rs";
    const REPLAYS: [&str; 2] = [
        "crates/olivine/src/fuzz_checks.rs",
        "crates/olivine-net/src/http/fuzz_checks.rs",
    ];

    /// Lines of a file of the repository, without comments and the spaces before them.
    fn code(path: &str) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("//"));
        lines.map(str::to_owned).collect()
    }

    /// Checks every kept input of a target. Returns their number.
    fn replay(target: &str, check: fn(&[u8])) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let packed = std::fs::read_to_string(folder.join(format!("{target}.hex")))
            .unwrap_or_else(|error| panic!("corpus of {target}: {error}"));
        for line in packed.lines() {
            println!("{line}");
            check(&HEXLOWER.decode(line.as_bytes()).unwrap());
        }
        let count = packed.lines().count();
        println!("{target}: {count} kept inputs hold");
        count
    }

    /// A target without a line of `replay` would be checked by the fuzzer only, and one without
    /// kept inputs by no test.
    #[test]
    #[cfg_attr(miri, ignore = "reads a folder")]
    fn every_fuzz_target_has_kept_inputs_and_a_replay() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let files = std::fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut kept: Vec<_> = files.collect();
        kept.sort_unstable();
        let program = code(PROGRAM);
        let arms = program.iter();
        let arms = arms.filter_map(|line| line.strip_prefix('"')?.split_once("\" =>"));
        let mut targets: Vec<_> = arms.map(|(name, _)| format!("{name}.hex")).collect();
        targets.sort_unstable();
        assert!(targets.len() >= 8, "{targets:?}");
        assert_eq!(kept, targets, "files of fuzz/corpus, arms of fuzz/main.rs");
        let replays: Vec<_> = REPLAYS.into_iter().flat_map(code).collect();
        for target in targets {
            let name = target.trim_end_matches(".hex");
            let start = format!("assert!(replay(\"{name}\", ");
            let is_replayed = replays.iter().any(|line| line.starts_with(&start));
            assert!(is_replayed, "no test replays the kept inputs of {name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps files")]
    fn kept_fuzz_inputs_pass_all_checks() {
        assert!(replay("uri", check_uri) > 20);
        assert!(replay("control", check_control) > 20);
        assert!(replay("fields", check_fields) > 20);
        assert!(replay("frames", check_frames) > 20);
        assert!(replay("sealed", check_sealed) > 20);
        #[cfg(feature = "tcp")]
        assert!(replay("wire", check_wire) > 20);
        #[cfg(feature = "journal")]
        assert!(replay("journal", check_journal) > 20);
    }
}
