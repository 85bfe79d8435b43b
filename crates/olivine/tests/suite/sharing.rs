//! Files of other users in place of a shared channel are refused; sharing in a group works.

use crate::common::TestFolder;
use olivine::{Config, OpenError, Publisher, Subscriber, admin};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// The sharing group, and another one. No such users or groups need to exist.
const TEAM: u32 = 44_001;
const OTHERS: u32 = 44_002;
/// Users: two of the team, and one of another group.
const ADA: u32 = 45_001;
const BEN: u32 = 45_002;
const MALLORY: u32 = 45_003;
/// The user of the tests that change owners.
const ROOT: u32 = 0;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        crate::common::skip("files of other users: that needs root");
    }
    root
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Owner and mode of a file.
#[derive(Clone, Copy, Debug)]
struct Rights {
    user: u32,
    group: u32,
    mode: u32,
}

const fn rights(user: u32, group: u32, mode: u32) -> Rights {
    Rights { user, group, mode }
}

fn give(path: &Path, rights: Rights) {
    chown(path, Some(rights.user), Some(rights.group)).unwrap();
    permit(path, rights.mode);
}

/// A channel of the team with an unread message, so that its files stay.
fn left_by_the_team(place: &TestFolder) -> String {
    let query = format!("mode=0660&group={TEAM}&capacity=4KiB");
    let uri = place.uri("shared", &query);
    Publisher::open(&uri).unwrap().publish(b"unseen").unwrap();
    uri
}

/// The parts of a channel of the team, with their modes.
fn parts(place: &TestFolder) -> [(&'static str, PathBuf, u32); 4] {
    let channel = place.channel("shared");
    [
        ("base folder", place.dir(), 0o770),
        ("channel folder", channel.clone(), 0o770),
        ("control", channel.join("control"), 0o660),
        ("lane", channel.join("lane-0"), 0o660),
    ]
}

/// The errors of all ways to open or inspect `uri`.
fn errors(uri: &str) -> Vec<(&'static str, String)> {
    let config = Config::parse(uri).unwrap();
    let mut errors = Vec::new();
    let mut note = |way, error: Option<OpenError>| {
        if let Some(error) = error {
            assert!(
                matches!(error, OpenError::Folder { .. }),
                "{way} fails otherwise: {error:?}"
            );
            errors.push((way, error.to_string()));
        }
    };
    note("inspect", admin::inspect(&config).err());
    note("publish", Publisher::open_with(&config).err());
    note("subscribe", Subscriber::open_with(&config).err());
    errors
}

#[test]
fn shared_channel_with_a_wrong_owner_group_or_mode_is_refused() {
    if !is_root() {
        return;
    }
    let team = format!("mode=0660&group={TEAM}");
    // Owner, group, additional mode bits, settings, whether it is refused, and text of the error.
    let cases: &[(u32, u32, u32, &str, Option<&str>)] = &[
        (ADA, TEAM, 0, &team, None),
        (ROOT, TEAM, 0, &team, None),
        // Another user made it.
        (MALLORY, OTHERS, 0, &team, Some("45003")),
        (MALLORY, OTHERS, 0, "mode=0660", Some("45003")),
        (MALLORY, TEAM, 0, "mode=0660", Some("45003")),
        (MALLORY, TEAM, 0, "", Some("45003")),
        // Another group may use it.
        (ROOT, OTHERS, 0, &team, Some("44002")),
        (ADA, OTHERS, 0, &team, Some("44002")),
        // Every user may use it.
        (ROOT, TEAM, 0o006, &team, Some("every user")),
        (ADA, TEAM, 0o006, &team, Some("every user")),
        (ROOT, TEAM, 0o006, "mode=0660", Some("every user")),
    ];
    for (user, group, more, query, expected) in cases {
        for part in 0..4 {
            let place = TestFolder::new();
            left_by_the_team(&place);
            let (name, path, mode) = &parts(&place)[part];
            let wide = if *mode == 0o770 {
                more | more >> 1
            } else {
                *more
            };
            if query.is_empty() {
                // Otherwise the base folder alone would be refused.
                permit(&place.dir(), 0o750);
            }
            give(path, rights(*user, *group, mode | wide));
            let found = errors(&place.uri("shared", query));
            let step = format!("{name} of {user}:{group} {:o} with '{query}'", mode | wide);
            let Some(expected) = expected else {
                assert!(found.is_empty(), "{step}: {found:?}");
                continue;
            };
            // Inspecting counts unreadable lanes as absent; opening maps each lane.
            let ways = if *name == "lane" { 2 } else { 3 };
            assert_eq!(found.len(), ways, "{step}: {found:?}");
            for (way, error) in found {
                assert!(error.contains(expected), "{step}, {way}: {error}");
                let shown = path.display().to_string();
                assert!(error.contains(&shown), "{step}, {way}: {error}");
            }
            // Nothing was used, changed or removed.
            let meta = std::fs::metadata(path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (*user, *group), "{step}");
            assert_eq!(meta.permissions().mode() & 0o777, mode | wide, "{step}");
        }
    }
}

#[test]
fn rm_and_gc_keep_another_users_channel() {
    if !is_root() {
        return;
    }
    let place = TestFolder::new();
    let uri = left_by_the_team(&place);
    let stranger = rights(MALLORY, OTHERS, 0o770);
    give(&place.channel("shared"), stranger);
    let config = Config::parse(&uri).unwrap();
    for force in [false, true] {
        let error = admin::remove(&config, force).unwrap_err();
        assert!(error.to_string().contains("45003"), "{error}");
    }
    let error = admin::forget(&config, "any").unwrap_err();
    assert!(error.to_string().contains("45003"), "{error}");
    // The parent folder, which is ours.
    permit(&place.dir(), 0o700);
    let listed = admin::list(&place.dir()).unwrap();
    let refused = listed[0].result.as_ref().unwrap_err();
    assert!(refused.to_string().contains("45003"), "{refused}");
    assert!(admin::collect(&place.dir(), false).unwrap().is_empty());
    assert!(place.channel("shared").join("control").exists());
    // A folder of another user is not listed.
    give(&place.dir(), rights(MALLORY, OTHERS, 0o755));
    assert!(admin::list(&place.dir()).is_err());
    assert!(admin::collect(&place.dir(), false).is_err());
}

#[test]
fn program_without_settings_uses_channels_its_user_shares() {
    let place = TestFolder::new();
    let group = rustix::process::getegid().as_raw();
    let uri = place.uri("own", &format!("mode=0660&group={group}"));
    let mut publisher = Publisher::open(&uri).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let channel = place.channel("own");
    assert_eq!((mode(&place.dir()), mode(&channel)), (0o770, 0o770));
    for name in ["control", "lane-0"] {
        assert_eq!(mode(&channel.join(name)), 0o660, "{name}");
    }
    // The folder of all channels is not shared with a group by default.
    let error = Subscriber::open(&place.uri("own", "")).unwrap_err();
    assert!(error.to_string().contains("mode 0770"), "{error}");
    permit(&place.dir(), 0o755);
    let mut subscriber = Subscriber::open(&place.uri("own", "")).unwrap();
    publisher.publish(b"hello").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"hello");
}

/// Another user's program: changes its user, opens the channel, and sends or receives.
#[test]
fn role() {
    let Some(role) = crate::common::my_role() else {
        return;
    };
    let variable = |name| std::env::var(name).unwrap();
    let number = |name| variable(name).parse().unwrap();
    let (user, group) = (number("OLIVINE_TEST_USER"), number("OLIVINE_TEST_GROUP"));
    // SAFETY: with no entries no list is read.
    assert_eq!(unsafe { libc::setgroups(0, std::ptr::null()) }, 0);
    // SAFETY: integers only; no other thread depends on the user of this process.
    assert_eq!(unsafe { libc::setresgid(group, group, group) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
    let uri = variable("OLIVINE_TEST_URI");
    let done = variable("OLIVINE_TEST_DONE");
    let told = match role.as_str() {
        "send" => Publisher::open(&uri).map(|mut publisher| {
            publisher
                .publish(format!("from {user}").as_bytes())
                .unwrap();
        }),
        "receive" => Subscriber::open(&uri).map(|mut subscriber| {
            crate::common::receive(&mut subscriber, |message| {
                assert_eq!(&**message, b"for the team");
            });
        }),
        other => panic!("no such role: {other}"),
    };
    let told = told.map_or_else(|error| error.to_string(), |()| "done".to_owned());
    std::fs::write(done, told).unwrap();
}

/// Runs a role as `user` of `group`; returns its output.
fn as_user(
    place: &TestFolder,
    role: &str,
    user: u32,
    group: u32,
    uri: &str,
) -> (PathBuf, crate::common::Other) {
    let done = place.file(&format!("done-{role}-{user}"));
    std::fs::write(&done, "").unwrap();
    permit(&done, 0o666);
    let child = crate::common::spawn(
        &format!("sharing::{role}"),
        &[
            ("OLIVINE_TEST_USER", user.to_string()),
            ("OLIVINE_TEST_GROUP", group.to_string()),
            ("OLIVINE_TEST_URI", uri.to_owned()),
            ("OLIVINE_TEST_DONE", done.display().to_string()),
        ],
    );
    (done, child)
}

fn said(done: &Path, child: crate::common::Other) -> String {
    crate::common::finished(child);
    std::fs::read_to_string(done).unwrap()
}

#[test]
fn users_of_one_group_share_a_channel_and_others_are_refused() {
    if !is_root() {
        return;
    }
    let place = TestFolder::new();
    permit(place.dir().parent().unwrap(), 0o755);
    let uri = place.uri("team", &format!("mode=0660&group={TEAM}&wait=park"));
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let (done, child) = as_user(&place, "send", ADA, TEAM, &uri);
    crate::common::receive(&mut subscriber, |message| {
        assert_eq!(&**message, b"from 45001");
    });
    assert_eq!(said(&done, child), "done");
    let mut publisher = Publisher::open(&uri).unwrap();
    let (done, child) = as_user(&place, "receive", BEN, TEAM, &uri);
    // Ours is the first, Ben's the second.
    assert!(
        publisher
            .wait_for_subscribers(2, Some(crate::common::WATCHDOG))
            .unwrap()
    );
    publisher.publish(b"for the team").unwrap();
    assert_eq!(said(&done, child), "done");
    let (done, child) = as_user(&place, "send", MALLORY, OTHERS, &uri);
    let refused = said(&done, child);
    assert!(
        refused.contains(&place.dir().display().to_string()),
        "{refused}"
    );
}

#[test]
fn group_that_the_user_is_not_in_is_named_by_the_error() {
    if !is_root() {
        return;
    }
    let place = TestFolder::new();
    permit(place.dir().parent().unwrap(), 0o755);
    let own = place.file("own");
    std::fs::create_dir(&own).unwrap();
    give(&own, rights(ADA, TEAM, 0o700));
    let own = own.display();
    for uri in [
        format!("shm://x?dir={own}&group={OTHERS}"),
        format!("shm+fd://{own}/x.sock?group={OTHERS}"),
    ] {
        let (done, child) = as_user(&place, "send", ADA, TEAM, &uri);
        let refused = said(&done, child);
        let wanted = "to group=44002: name a group";
        assert!(refused.contains(wanted), "{uri}: {refused}");
    }
}
