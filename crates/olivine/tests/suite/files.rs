//! Files in place of a channel are checked before use, and a full file system is an error.

use crate::common::{TestFolder, WATCHDOG, kill, spawn, until};
use olivine::{Config, OpenError, Outgoing, Publisher, ReceiveError, Subscriber, admin};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt, symlink};
use std::path::Path;

/// Offsets of words of the control file and of a lane's header, see `docs/layout.md`.
const MAGIC: u64 = 0;
const VERSION: u64 = 8;
/// The second record: it counts once a publisher has opened.
const GEOMETRY: u64 = 2048 + 24 * 8;
const BOOT: u64 = 23 * 8;
const INCARNATION: u64 = 5 * 8;
const CURSOR: u64 = 16 * 8;
const LIMIT: u64 = 32 * 8;

fn write_word(path: &Path, offset: u64, word: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&word.to_le_bytes(), offset).unwrap();
}

/// A channel whose files stay without participants: it holds an unread message.
fn leave_behind(place: &TestFolder) -> String {
    let uri = place.uri("bad", "capacity=4KiB");
    Publisher::open(&uri).unwrap().publish(b"unseen").unwrap();
    assert!(place.channel("bad").join("lane-0").exists());
    uri
}

fn refused(uri: &str) -> [OpenError; 2] {
    [
        Publisher::open(uri).map(|_| ()),
        Subscriber::open(uri).map(|_| ()),
    ]
    .map(Result::unwrap_err)
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn irregular_files_are_refused_and_kept() {
    for name in ["control", "lane-0"] {
        for kind in ["link", "dangling", "fifo", "folder"] {
            let place = TestFolder::new();
            let uri = leave_behind(&place);
            let path = place.channel("bad").join(name);
            let target = place.file("target");
            std::fs::write(&target, "precious").unwrap();
            std::fs::remove_file(&path).unwrap();
            match kind {
                "link" => symlink(&target, &path).unwrap(),
                "dangling" => symlink("nowhere", &path).unwrap(),
                "fifo" => fifo(&path),
                _ => std::fs::create_dir(&path).unwrap(),
            }
            for error in refused(&uri) {
                assert!(
                    matches!(error, OpenError::NotAChannel { .. }),
                    "{name} {kind}: {error}"
                );
            }
            assert!(std::fs::symlink_metadata(&path).is_ok(), "{name} {kind}");
            assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        }
    }
}

#[test]
fn damaged_files_are_refused_and_kept() {
    type Damage = (&'static str, fn(&Path), bool);
    let damages: [Damage; 13] = [
        ("control", |path| truncate(path, 0), false),
        ("control", |path| truncate(path, 4095), false),
        ("control", |path| truncate(path, 4096), false),
        (
            "control",
            |path| write_word(path, MAGIC, u64::from_le_bytes(*b"NOT MINE")),
            false,
        ),
        ("control", |path| write_word(path, VERSION, 1), true),
        ("control", |path| write_word(path, VERSION, 5), true),
        (
            "control",
            |path| write_word(path, GEOMETRY, u64::MAX),
            false,
        ),
        (
            "control",
            |path| write_word(path, GEOMETRY + 16, 1 << 40),
            false,
        ),
        ("lane-0", |path| truncate(path, 4096), false),
        ("lane-0", |path| write_word(path, MAGIC, 0), false),
        ("lane-0", |path| write_word(path, VERSION, 7), true),
        ("lane-0", |path| write_word(path, CURSOR, 3), false),
        ("lane-0", |path| write_word(path, INCARNATION, 1), false),
    ];
    for (step, (name, damage, is_version)) in damages.into_iter().enumerate() {
        let place = TestFolder::new();
        let uri = leave_behind(&place);
        let path = place.channel("bad").join(name);
        damage(&path);
        let before = std::fs::read(&path).unwrap();
        for error in refused(&uri) {
            let expected = match error {
                OpenError::Layout { expected: 6, .. } => is_version,
                OpenError::NotAChannel { .. } => !is_version,
                _ => false,
            };
            assert!(expected, "step {step}: {error}");
            assert!(error.to_string().contains(name), "step {step}: {error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "step {step}");
    }
}

fn truncate(path: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

/// Shared words may hold anything: readers stay inside the ring, and report an error or continue.
#[test]
fn damaged_words_never_leave_the_ring() {
    let nonsense = [8, 1 << 20, 1 << 40, 1 << 62, u64::MAX - 7, u64::MAX];
    for offset in [CURSOR, LIMIT, 4096, 4096 + 24] {
        for word in nonsense {
            let place = TestFolder::new();
            let uri = leave_behind(&place);
            write_word(&place.channel("bad").join("lane-0"), offset, word);
            let mut got = 0;
            if let Ok(mut subscriber) = Subscriber::open(&place.uri("bad", "from=oldest")) {
                while subscriber
                    .poll(|message| got += message.len(), 100)
                    .is_ok_and(|n| n > 0)
                {
                    assert!(got < 1 << 20, "it walks for ever: {offset} {word}");
                }
            }
            if let Ok(mut publisher) = Publisher::open(&uri) {
                for _ in 0..1000 {
                    let _ = publisher.try_publish(&[7; 100]);
                }
            }
        }
    }
}

#[test]
fn channel_of_an_earlier_boot_is_replaced() {
    for opener in ["subscriber", "publisher", "gc", "rm"] {
        let place = TestFolder::new();
        let uri = leave_behind(&place);
        let control = place.channel("bad").join("control");
        write_word(&control, BOOT, 7);
        let config = Config::parse(&uri).unwrap();
        let error = admin::inspect(&config).unwrap_err();
        assert!(matches!(error, OpenError::EarlierBoot { .. }), "{error}");
        let listed = admin::list(&place.dir()).unwrap();
        assert!(listed[0].result.is_err());
        match opener {
            "subscriber" => {
                let oldest = place.uri("bad", "from=oldest");
                let mut subscriber = Subscriber::open(&oldest).unwrap();
                assert!(subscriber.try_receive().unwrap().is_none());
                let mut publisher = Publisher::open(&uri)
                    .unwrap_or_else(|_| Publisher::open(&place.uri("bad", "")).unwrap());
                publisher.publish(b"new").unwrap();
                assert_eq!(&*subscriber.receive().unwrap(), b"new");
            }
            "publisher" => {
                let mut publisher = Publisher::open(&uri).unwrap();
                publisher.publish(b"new").unwrap();
                let oldest = place.uri("bad", "from=oldest");
                let mut subscriber = Subscriber::open(&oldest).unwrap();
                assert_eq!(&*subscriber.receive().unwrap(), b"new");
            }
            "gc" => {
                assert_eq!(admin::collect(&place.dir(), true).unwrap().len(), 1);
                assert!(control.exists());
                assert_eq!(admin::collect(&place.dir(), false).unwrap().len(), 1);
            }
            _ => {
                admin::remove(&config, false).unwrap();
            }
        }
        assert!(!place.channel("bad").exists(), "{opener}");
    }
    // A process uses it, so it cannot be of an earlier boot.
    let place = TestFolder::new();
    let uri = place.uri("bad", "");
    let publisher = Publisher::open(&uri).unwrap();
    write_word(&place.channel("bad").join("control"), BOOT, 7);
    for error in refused(&uri) {
        assert!(matches!(error, OpenError::Folder { .. }), "{error}");
    }
    assert!(place.channel("bad").join("control").exists());
    drop(publisher);
}

/// The last participants of a channel, which are killed.
pub(crate) fn last_participants() {
    let uri = std::env::var("OLIVINE_DEATH_URI").unwrap();
    let _subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    for tag in 1..=3 {
        publisher.publish(Outgoing::new(b"").tag(tag)).unwrap();
    }
    loop {
        std::thread::park();
    }
}

/// They end without removing the channel: `docs/messages.md` and ADR 0005 say so.
#[test]
fn killed_last_participant_leaves_its_files_to_the_next_opener_or_to_gc() {
    let place = TestFolder::new();
    let config = Config::parse(&place.uri("left", "from=oldest")).unwrap();
    let left = || {
        let child = spawn(
            "files.last",
            &[("OLIVINE_DEATH_URI", place.uri("left", ""))],
        );
        until("it has published", || {
            let found = admin::inspect(&config);
            found.is_ok_and(|found| found.publishers.iter().any(|lane| lane.cursor >= 3 * 8))
        });
        kill(child);
        assert!(place.channel("left").join("control").exists());
    };
    left();
    let mut subscriber = Subscriber::open_with(&config).unwrap();
    for tag in 1..=3 {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(message.tag(), tag);
    }
    // The last participant that closes removes the channel.
    subscriber.close();
    assert!(!place.channel("left").exists());
    left();
    admin::remove(&config, false).unwrap();
    assert!(!place.channel("left").exists());
}

#[test]
fn handles_report_removed_files() {
    let place = TestFolder::new();
    let uri = place.uri("gone", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(b"before").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"before");
    assert!(!publisher.check_unlinked() && !subscriber.check_unlinked());
    std::fs::remove_dir_all(place.channel("gone")).unwrap();
    assert!(publisher.check_unlinked() && subscriber.check_unlinked());
    publisher.publish(b"after").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"after");
    // A new participant gets a new channel.
    let newcomer = Publisher::open(&uri).unwrap();
    assert!(
        !newcomer.check_unlinked() && publisher.check_unlinked() && subscriber.check_unlinked()
    );
    assert!(!Publisher::open("inproc://gone").unwrap().check_unlinked());
}

#[test]
fn lane_of_an_earlier_channel_is_created_anew() {
    // Up to laps of the ring, and both orders of opening.
    for old in [1_u32, 100, 1_000] {
        for subscriber_first in [true, false] {
            let place = TestFolder::new();
            let uri = place.uri("again", "capacity=4KiB");
            let mut publisher = Publisher::open(&uri).unwrap();
            for _ in 0..old {
                publisher.publish(b"of the earlier channel").unwrap();
            }
            drop(publisher);
            std::fs::remove_file(place.channel("again").join("control")).unwrap();
            assert!(place.channel("again").join("lane-0").exists());
            let early = subscriber_first.then(|| Subscriber::open(&uri).unwrap());
            let mut publisher = Publisher::open(&uri).unwrap();
            let mut subscriber = early
                .unwrap_or_else(|| Subscriber::open(&place.uri("again", "from=oldest")).unwrap());
            for number in 0..1_000_u32 {
                publisher.publish(&number.to_le_bytes()).unwrap();
                let step = format!("{old} old messages, message {number}");
                crate::common::receive(&mut subscriber, |message| {
                    assert_eq!(**message, number.to_le_bytes(), "{step}");
                });
            }
        }
    }
}

#[test]
fn folder_writable_by_others_is_refused() {
    let place = TestFolder::new();
    let folder = |mode| {
        let path = place.dir();
        let _ = std::fs::remove_dir(&path);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (mode, query, is_fine) in [
        (0o700, "", true),
        (0o755, "", true),
        (0o770, "", false),
        (0o777, "", false),
        (0o1777, "", false),
        (0o770, "mode=0660", true),
        (0o777, "mode=0660", false),
    ] {
        folder(mode);
        match Subscriber::open(&place.uri("folder", query)) {
            Ok(_) => assert!(is_fine, "{mode:o} {query}"),
            Err(OpenError::Folder { .. }) => assert!(!is_fine, "{mode:o} {query}"),
            Err(other) => panic!("{mode:o} {query}: {other}"),
        }
        assert_eq!(
            std::fs::read_dir(place.dir()).unwrap().count(),
            0,
            "{mode:o} {query}"
        );
    }
}

#[test]
fn symlinked_folder_is_refused() {
    let place = TestFolder::new();
    let elsewhere = place.file("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, place.dir()).unwrap();
    for error in refused(&place.uri("folder", "")) {
        // It may be anything that a person named by mistake: no advice to remove it.
        assert!(matches!(error, OpenError::Folder { .. }), "{error}");
        assert!(!error.to_string().contains("remove"), "{error}");
    }
    std::fs::remove_file(place.dir()).unwrap();
    std::fs::create_dir(place.dir()).unwrap();
    symlink(&elsewhere, place.channel("folder")).unwrap();
    for error in refused(&place.uri("folder", "")) {
        assert!(matches!(error, OpenError::NotAChannel { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn new_files_ignore_the_umask() {
    let place = TestFolder::new();
    let publisher = Publisher::open(&place.uri("private", "")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = place.channel("private");
    assert_eq!((mode(&place.dir()), mode(&folder)), (0o700, 0o700));
    for name in ["control", "lane-0"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    drop(publisher);
    assert!(!folder.exists());
}

#[test]
fn removed_files_do_not_harm_participants() {
    let place = TestFolder::new();
    let uri = place.uri("unlinked", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    publisher.publish(b"found").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"found");
    // A subscriber that has not found its publisher yet cannot find it any more, and reports that.
    let unaware = place.uri("unaware", "");
    let mut lost = Subscriber::open(&unaware).unwrap();
    let held = Publisher::open(&unaware).unwrap();
    std::fs::remove_dir_all(place.channel("unaware")).unwrap();
    let error = lost.receive().map(|_| ()).unwrap_err();
    assert!(
        matches!(error, ReceiveError::Lane { lane: 0, .. }),
        "{error}"
    );
    drop((held, lost));
    std::fs::remove_dir_all(place.channel("unlinked")).unwrap();
    for n in 0..10_000_u32 {
        publisher.publish(&n.to_le_bytes()).unwrap();
        assert_eq!(*subscriber.receive().unwrap(), n.to_le_bytes());
    }
    // A new participant starts its own channel, separate from the old one.
    let newcomer = Publisher::open(&uri).unwrap();
    drop((publisher, subscriber));
    assert!(place.channel("unlinked").join("lane-0").exists());
    drop(newcomer);
    assert!(!place.channel("unlinked").exists());
}

/// Runs inside its own mount namespace, on a file system of 256 KiB.
#[test]
fn role() {
    if crate::common::my_role().as_deref() != Some("cramped") {
        return;
    }
    let root = std::path::PathBuf::from(std::env::var("OLIVINE_DEATH_ROOT").unwrap());
    let uri = |name: &str, capacity: &str| {
        format!(
            "shm://{name}?dir={}/channels&subscribers_max=4&publishers_max=2&capacity={capacity}",
            root.display()
        )
    };
    let entries = || std::fs::read_dir(root.join("channels")).unwrap().count();
    for capacity in ["256KiB", "1MiB", "1GiB"] {
        let error = Publisher::open(&uri("large", capacity)).unwrap_err();
        assert!(
            matches!(error, OpenError::NoSpace { .. }),
            "{capacity}: {error}"
        );
        assert_eq!(entries(), 0, "{capacity}: nothing stays behind");
    }
    // Pages are taken away one by one: each attempt either works in full or is refused.
    let filler = std::fs::File::create(root.join("filler")).unwrap();
    let mut outcomes = [0, 0];
    for pages in 1..=64 {
        let bytes = pages * 4096;
        if rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, bytes).is_err() {
            break;
        }
        match Publisher::open(&uri("small", "16KiB")) {
            Ok(mut publisher) => {
                let mut subscriber = Subscriber::open(&uri("small", "16KiB")).unwrap();
                for n in 0..100_u8 {
                    publisher.publish(&[n; 1000]).unwrap();
                    assert_eq!(*subscriber.receive().unwrap(), [n; 1000]);
                }
                outcomes[0] += 1;
            }
            Err(OpenError::NoSpace { .. }) => outcomes[1] += 1,
            Err(other) => panic!("{pages} pages: {other}"),
        }
        assert_eq!(entries(), 0, "{pages} pages: nothing stays behind");
    }
    assert!(outcomes.iter().all(|count| *count > 3), "{outcomes:?}");
    // The test outside this namespace checks for it.
    std::fs::write(std::env::var("OLIVINE_DEATH_DONE").unwrap(), "done").unwrap();
}

#[test]
fn full_file_system_is_an_error_without_leftovers() {
    let place = TestFolder::new();
    let root = place.file("small");
    std::fs::create_dir(&root).unwrap();
    let done = std::env::temp_dir().join(format!("olivine-done-{}", std::process::id()));
    let me = std::env::current_exe().unwrap();
    // Private propagation: only this process sees the mount, which ends with it.
    let script = "mount -t tmpfs -o size=256k,mode=700 none \"$OLIVINE_DEATH_ROOT\" || exit 77; \
                  exec \"$OLIVINE_DEATH_SELF\" --exact files::role --nocapture";
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .env("OLIVINE_DEATH_ROLE", "cramped")
        .env("OLIVINE_DEATH_ROOT", &root)
        .env("OLIVINE_DEATH_SELF", me)
        .env("OLIVINE_DEATH_DONE", &done)
        .status();
    let finished = std::fs::remove_file(&done).is_ok();
    match status {
        Ok(status) if status.success() => assert!(finished),
        Ok(status) if !matches!(status.code(), Some(1 | 77)) || finished => {
            panic!("on a full file system: {status}")
        }
        refused => crate::common::skip(&format!("no mount namespace to be had here ({refused:?})")),
    }
}

/// `hugepages=`: the kernel reports the required large pages, and messages pass as usual.
mod large_pages {
    use crate::common::TestFolder;
    use olivine::{OpenError, Publisher, Subscriber};

    /// KiB of lane 0 of the channel `large` that this process has mapped as large pages.
    fn large_kib(place: &TestFolder) -> usize {
        let lane = place.channel("large").join("lane-0");
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_lane = false;
        let mut sum = 0;
        for line in maps.lines() {
            if let Some(kib) = line.strip_prefix("ShmemPmdMapped:") {
                let kib = kib.trim().trim_end_matches(" kB");
                sum += if is_lane { kib.parse().unwrap() } else { 0 };
            } else if line.contains(" rw-s ") || line.contains(" r--s ") {
                is_lane = line.ends_with(lane.to_str().unwrap());
            }
        }
        sum
    }

    #[test]
    fn required_large_pages_are_used() {
        let place = TestFolder::new();
        for (capacity, mib) in [("2MiB", 2), ("8MiB", 8)] {
            let uri = place.uri("large", &format!("hugepages=require&capacity={capacity}"));
            let mut publisher = match Publisher::open(&uri) {
                Ok(publisher) => publisher,
                // Only if the machine has none.
                Err(OpenError::HugePages { problem })
                    if problem.contains("the kernel gives none") =>
                {
                    return crate::common::skip(&format!("hugepages=require: {problem}"));
                }
                Err(other) => panic!("{other}"),
            };
            let mut subscriber = Subscriber::open(&uri).unwrap();
            // Each end has whole large pages in the first half; the header cuts the first large
            // page of the second half.
            let each = mib * 1024 + (mib - 2) * 1024;
            assert_eq!(large_kib(&place), 2 * each, "{capacity}");
            // Three laps, so that messages cross every page border.
            for n in 0..3 * mib as u64 * 1024 {
                let message = [n.to_le_bytes(); 128];
                publisher.publish(message.as_flattened()).unwrap();
                assert_eq!(&*subscriber.receive().unwrap(), message.as_flattened());
            }
            drop((publisher, subscriber));
            assert_eq!(large_kib(&place), 0, "{capacity}: unmapped");
        }
    }

    #[test]
    fn ring_below_a_large_page_is_refused_if_required() {
        let place = TestFolder::new();
        let error = Publisher::open(&place.uri("small", "hugepages=require&capacity=1MiB"));
        let error = error.unwrap_err();
        assert!(matches!(error, OpenError::HugePages { .. }), "{error}");
        assert!(error.to_string().contains("below 2MiB"), "{error}");
        assert!(!place.channel("small").join("lane-0").exists());
        // The same if others use the channel.
        let _subscriber = Subscriber::open(&place.uri("used", "capacity=1MiB")).unwrap();
        Publisher::open(&place.uri("used", "hugepages=require")).unwrap_err();
        assert!(!place.channel("used").join("lane-0").exists());
        // `try` is not `require`: a normal channel.
        Publisher::open(&place.uri("small", "hugepages=try&capacity=1MiB")).unwrap();
    }
}
