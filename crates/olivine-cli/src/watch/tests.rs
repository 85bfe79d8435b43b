//! Views of invented samples.

use super::super::finding::Help;
use super::super::sample::{Channel, Lane, LaneTotals, Process, Reader, Sample, Seen, Totals};
use super::super::view::{ChannelView, Participant, Role, Severity, State, View};
use super::Tracker;
use crate::process::Stat;
use olivine::LaneState;

const MS: u64 = 1_000_000;
const CAPACITY: u64 = 4096;
/// The clock at time 0 of a test, later than every wait began.
const START_NS: u64 = 3_600_000 * MS;

fn lane(pid: u64, cursor: u64) -> Lane {
    Lane {
        index: 0,
        pid,
        state: LaneState::Open,
        parked: false,
        cursor,
        waited_ns: 0,
        blocked_ns: 0,
        blocked_by: None,
        frame_bytes: None,
        old_frame_bytes: None,
        totals: LaneTotals::default(),
        failures: None,
    }
}

fn reader(slot: usize, position: u64) -> Reader {
    Reader {
        slot,
        ticket: 1,
        pid: 100 + slot as u64,
        alive: true,
        evicted: false,
        gates: true,
        name: None,
        delivery: olivine::Delivery::Reliable,
        parked: false,
        absent_ns: 0,
        lost_bytes: 0,
        overruns: 0,
        parks: 0,
        positions: vec![position],
    }
}

fn process(command: &str, state: char, ticks: u64) -> Process {
    let stat = Stat {
        state,
        ticks,
        started: 1,
        cpu: Some(3),
    };
    Process {
        command: command.into(),
        stat,
    }
}

fn channel(lanes: Vec<Lane>, readers: Vec<Reader>) -> Channel {
    let ids = lanes
        .iter()
        .map(|one| one.pid)
        .chain(readers.iter().map(|one| one.pid));
    let processes = ids.map(|id| (id, process("feed x", 'S', 0))).collect();
    Channel {
        incarnation: 1,
        capacity: CAPACITY,
        totals: Totals::default(),
        lanes,
        readers,
        processes,
    }
}

fn sample(at_ms: u64, channel: Channel) -> Sample {
    let seen = Seen {
        name: "ticks".to_owned(),
        looked: Ok(channel),
    };
    Sample {
        at_ns: START_NS + at_ms * MS,
        channels: vec![seen],
    }
}

/// The views of the channel after each of these looks.
fn views(looks: Vec<(u64, Channel)>) -> Vec<View> {
    let mut tracker = Tracker::new(Help {
        place: " --dir /d".to_owned(),
        ..Help::default()
    });
    let looks = looks.into_iter();
    looks
        .map(|(at_ms, channel)| tracker.advance(&sample(at_ms, channel)))
        .collect()
}

fn last(looks: Vec<(u64, Channel)>) -> View {
    views(looks).pop().unwrap()
}

/// Two looks at a channel that 'audit' holds, at a healthy one, and at an unreadable one.
pub(crate) fn troubled_samples() -> [Sample; 2] {
    let look = |cursor: u64, at_ms: u64| {
        let mut orders = channel(vec![lane(8, cursor)], vec![reader(0, cursor)]);
        orders.lanes[0].frame_bytes = Some(32.0);
        let mut ticks = held('T');
        ticks.lanes[0].waited_ns += at_ms * MS;
        ticks.lanes[0].blocked_ns += at_ms * MS;
        ticks.lanes[0].frame_bytes = Some(32.0);
        let channels = vec![
            Seen {
                name: "broken".to_owned(),
                looked: Err("layout 3".to_owned()),
            },
            Seen {
                name: "orders".to_owned(),
                looked: Ok(orders),
            },
            Seen {
                name: "ticks".to_owned(),
                looked: Ok(ticks),
            },
        ];
        Sample {
            at_ns: START_NS + at_ms * MS,
            channels,
        }
    };
    [look(0, 0), look(320, 1000)]
}

/// What these looks show.
pub(crate) fn troubled() -> View {
    let mut tracker = Tracker::default();
    let [first, second] = troubled_samples();
    tracker.advance(&first);
    tracker.advance(&second)
}

fn only(view: &View) -> &ChannelView {
    let [channel] = &view.channels[..] else {
        panic!("{view:?}")
    };
    channel
}

fn subscriber(view: &View, slot: usize) -> &Participant {
    let mut all = only(view).participants.iter();
    all.find(|one| one.role == Role::Subscriber && one.index == slot)
        .unwrap()
}

/// Slot 1 of two keeps a full ring; its process is in `state`.
fn held(state: char) -> Channel {
    let mut full = lane(7, 4096);
    (full.blocked_ns, full.waited_ns, full.blocked_by) = (2100 * MS, 2100 * MS, Some(1));
    let mut readers = vec![reader(0, 4096), reader(1, 0)];
    readers[1].name = Some("audit".to_owned());
    let mut held = channel(vec![full], readers);
    held.processes.insert(101, process("feed x", state, 0));
    held
}

/// The same before its ring was full.
fn held_by_none() -> Channel {
    let mut before = held('S');
    before.lanes[0].cursor = 0;
    before.lanes[0].blocked_ns = 0;
    before.readers[0].positions = vec![0];
    before
}

#[test]
fn stopped_subscriber_that_blocks_the_ring_is_named_on_the_first_look() {
    let view = last(vec![(0, held('T'))]);
    let [found] = &view.findings[..] else {
        panic!("{view:?}")
    };
    assert_eq!(
        found.text,
        "ticks: held >2.1 s by 'audit' (pid 101, STOPPED), ring 100 %"
    );
    assert_eq!(found.remedy, "kill -CONT 101");
    assert_eq!(
        (found.severity, found.state),
        (Severity::Held, State::Stopped)
    );
    assert_eq!(found.publisher_process_ids, [7]);
    let oldest = subscriber(&view, 1);
    assert_eq!(
        (oldest.behind_ns, oldest.behind_ns_is_minimum),
        (Some(2100 * MS), true)
    );
    assert_eq!(only(&view).participants[0].state, State::Held);
}

/// A publisher that gives up and tries again starts its own clock anew.
#[test]
fn hold_lasts_since_its_start_if_the_publisher_tries_again() {
    let look = |waited_ms: u64| {
        let mut channel = held('T');
        channel.lanes[0].blocked_ns = 60 * MS;
        channel.lanes[0].waited_ns = waited_ms * MS;
        channel
    };
    let held = |looks: Vec<(u64, Channel)>| last(looks).findings[0].held_ns;
    let (first, second, third) = ((0, look(100)), (1000, look(1050)), (2000, look(2000)));
    assert_eq!(held(vec![first.clone()]), Some(60 * MS));
    assert_eq!(held(vec![first.clone(), second.clone()]), Some(1060 * MS));
    assert_eq!(held(vec![first, second, third]), Some(2060 * MS));
    // It began between the looks: its start is known.
    let mut before = held_by_none();
    before.lanes[0].waited_ns = 100 * MS;
    let view = last(vec![(0, before), (1000, look(950)), (2000, look(1950))]);
    assert!(
        view.findings[0]
            .text
            .starts_with("ticks: held 1.9 s by 'audit' ")
    );
    assert!(!view.findings[0].held_ns_is_minimum);
}

/// A publisher that polls never reports a wait.
#[test]
fn full_ring_that_does_not_move_is_a_hold() {
    let look = |cursor: u64, position: u64| {
        let mut lane = lane(7, cursor);
        lane.frame_bytes = Some(32.0);
        channel(vec![lane], vec![reader(0, position)])
    };
    let full = (1000, look(4096, 0));
    let view = last(vec![(0, look(4096, 0)), full.clone()]);
    assert_eq!(view.findings[0].held_ns, Some(1000 * MS));
    assert_eq!(only(&view).held_share, Some(1.0));
    // There is room for a frame; it moves; the subscriber moves.
    for (first, second) in [
        (look(4064, 0), look(4064, 0)),
        (look(4064, 0), look(4096, 0)),
        (look(4096, 0), look(4096, 32)),
    ] {
        let view = last(vec![(0, first), (1000, second)]);
        assert_eq!(only(&view).held_share, Some(0.0));
        assert!(
            view.findings.iter().all(|one| one.held_ns.is_none()),
            "{view:?}"
        );
    }
}

/// The publisher is refused a large message. Its small ones were there at the first look.
#[test]
fn size_of_old_frames_is_shown_and_does_not_hide_a_hold() {
    let look = |cursor: u64, old: Option<f64>| {
        let mut lane = lane(7, cursor);
        lane.old_frame_bytes = old;
        channel(vec![lane], vec![reader(0, 0)])
    };
    let view = last(vec![(0, look(3968, Some(32.0))), (1000, look(3968, None))]);
    assert_eq!(view.findings[0].held_ns, Some(1000 * MS));
    assert_eq!(only(&view).held_share, Some(1.0));
    assert_eq!(subscriber(&view, 0).behind_messages_estimate, Some(124.0));
    // The frames that were published since the first look count, once there are some.
    let mut moved = look(3968, None);
    moved.lanes[0].frame_bytes = Some(64.0);
    let view = last(vec![
        (0, look(3904, Some(32.0))),
        (1000, moved),
        (2000, look(3968, None)),
    ]);
    assert_eq!(only(&view).held_share, Some(0.0));
    assert_eq!(subscriber(&view, 0).behind_messages_estimate, Some(62.0));
}

/// The ring stays full, and no publisher waits.
#[test]
fn full_ring_of_a_publisher_that_ended_is_not_held() {
    for state in [LaneState::Closed, LaneState::Dead] {
        let look = || {
            let mut channel = held('T');
            (channel.lanes[0].state, channel.lanes[0].blocked_ns) = (state, 0);
            channel
        };
        let view = last(vec![(0, look()), (1000, look())]);
        let shown = only(&view);
        assert_eq!((shown.ring_fill, shown.held_share), (1.0, Some(0.0)));
        let shares = shown.participants.iter().map(|one| one.held_share);
        assert!(shares.eq(shown.participants.iter().map(|_| Some(0.0))));
        assert_eq!(subscriber(&view, 1).held_ns, 0);
    }
}

#[test]
fn remedy_fits_the_state_of_the_culprit() {
    let remedy = |change: fn(&mut Channel)| {
        let (mut before, mut after) = (held('S'), held('S'));
        change(&mut before);
        change(&mut after);
        last(vec![(0, before), (1000, after)])
            .findings
            .remove(0)
            .remedy
    };
    assert_eq!(remedy(|_| {}), "sudo head /proc/101/task/*/stack");
    let record = |channel: &mut Channel| {
        channel.readers[1].name = Some("bridge.0123456789abcdef".to_owned());
        channel
            .processes
            .insert(101, process("olivine record", 'S', 0));
    };
    assert_eq!(
        remedy(record),
        "readlink /proc/101/fd/2  # the log of olivine record: is its disk full?"
    );
    assert_eq!(
        remedy(|channel| channel.readers[1].alive = false),
        "olivine rm shm://ticks --name audit --dir /d"
    );
    assert_eq!(
        remedy(|channel| {
            channel.readers[1].alive = false;
            channel.readers[1].name = Some("it's; rm -rf".to_owned());
        }),
        "olivine rm shm://ticks --name 'it'\\''s; rm -rf' --dir /d"
    );
    // A name that cannot be typed, and a number that may belong to another process.
    assert_eq!(
        remedy(|channel| {
            channel.readers[1].alive = false;
            channel.readers[1].name = Some("a\u{1b}[2J".to_owned());
        }),
        "olivine inspect shm://ticks --dir /d"
    );
    assert_eq!(
        remedy(|channel| drop(channel.processes.remove(&101))),
        "olivine doctor shm://ticks --dir /d"
    );
}

/// The name that a recorder gives itself says nothing to people.
#[test]
fn recorder_and_bridge_are_named_by_their_command() {
    for command in ["olivine record", "olivine bridge"] {
        let look = || {
            let mut channel = held('S');
            channel.readers[1].name = Some("bridge.0123456789abcdef".to_owned());
            channel.processes.insert(101, process(command, 'S', 0));
            channel
        };
        let view = last(vec![(0, look()), (1000, look())]);
        let found = &view.findings[0];
        let named = format!("by 'bridge.0123456789abcdef' ({command}, pid 101, reads nothing)");
        assert!(found.text.contains(&named), "{found:?}");
        assert!(found.remedy.contains(command), "{found:?}");
    }
}

#[test]
fn hold_that_a_stopped_publisher_reports_is_not_believed() {
    let mut channel = held('S');
    channel.processes.insert(7, process("feed x", 'T', 0));
    let view = last(vec![(0, channel)]);
    assert!(view.findings.is_empty(), "{:?}", view.findings);
    assert_eq!(only(&view).participants[0].state, State::Stopped);
}

#[test]
fn rates_states_and_ages_are_of_the_window() {
    let look = |cursor: u64, first: u64, second: u64, ticks: u64| {
        let mut lane = lane(7, cursor);
        lane.frame_bytes = Some(32.0);
        let mut channel = channel(vec![lane], vec![reader(0, first), reader(1, second)]);
        channel.processes.insert(100, process("feed x", 'R', ticks));
        channel
    };
    let view = last(vec![
        (0, look(0, 0, 0, 0)),
        (1000, look(1024, 1024, 0, 10)),
        (2000, look(2048, 2048, 512, 110)),
    ]);
    let channel = only(&view);
    assert_eq!(channel.bytes_per_s, Some(1024.0));
    assert_eq!(channel.messages_per_s_estimate, Some(32.0));
    assert!((channel.ring_fill - 0.375).abs() < 1e-9);
    assert_eq!(channel.participants[0].state, State::Moving);
    let (first, second) = (subscriber(&view, 0), subscriber(&view, 1));
    assert_eq!((first.behind_bytes, first.behind_ns), (0, None));
    assert_eq!(
        (first.bytes_per_s, first.cpu_share),
        (Some(1024.0), Some(1.0))
    );
    assert_eq!(second.behind_messages_estimate, Some(48.0));
    // Position 512 was published half a second after the first look.
    assert_eq!(
        (second.behind_ns, second.behind_ns_is_minimum),
        (Some(1500 * MS), false)
    );
    assert!(view.findings.is_empty(), "{:?}", view.findings);
}

#[test]
fn participants_without_work_are_parked_spinning_or_idle() {
    let look = |ticks: u64| {
        let mut readers: Vec<Reader> = (0..3).map(|slot| reader(slot, 64)).collect();
        readers[0].parked = true;
        let mut channel = channel(vec![lane(7, 64)], readers);
        channel.processes.insert(101, process("feed x", 'R', ticks));
        channel
    };
    let view = last(vec![(0, look(0)), (1000, look(99))]);
    let states: Vec<State> = (0..3).map(|slot| subscriber(&view, slot).state).collect();
    assert_eq!(states, [State::Parked, State::Spinning, State::Idle]);
}

#[test]
fn share_of_time_held_goes_to_the_slowest_subscriber() {
    let look = |cursor: u64, waited_ms: u64| {
        let mut lane = lane(7, cursor);
        lane.waited_ns = waited_ms * MS;
        channel(
            vec![lane],
            vec![reader(0, cursor), reader(1, cursor - 4000)],
        )
    };
    let view = last(vec![
        (0, look(4096, 100)),
        (1000, look(8192, 400)),
        (2000, look(9216, 650)),
    ]);
    assert_eq!(only(&view).held_share, Some(0.25));
    let (first, second) = (subscriber(&view, 0), subscriber(&view, 1));
    assert_eq!((first.held_share, first.held_ns), (Some(0.0), 0));
    assert_eq!((second.held_share, second.held_ns), (Some(0.25), 550 * MS));
    let found = &view.findings[0];
    assert_eq!(found.severity, Severity::Slowed);
    assert_eq!(
        found.text,
        "ticks: held 25 % of the time by feed x (pid 101, reads), ring 98 %"
    );
}

#[test]
fn stopped_subscriber_is_reported_before_the_ring_is_full() {
    let look = |cursor: u64| {
        let mut channel = channel(vec![lane(7, cursor)], vec![reader(0, 0)]);
        channel.processes.insert(100, process("audit", 'T', 0));
        channel
    };
    let view = last(vec![(0, look(0)), (1000, look(1024))]);
    let found = &view.findings[0];
    assert_eq!(found.severity, Severity::Risk);
    assert_eq!(
        found.text,
        "ticks: audit (pid 100, STOPPED) does not read, ring 25 %, full in 3.0 s"
    );
}

#[test]
fn worst_finding_is_first() {
    let mut tracker = Tracker::default();
    let seen = |name: &str, channel: Channel| Seen {
        name: name.to_owned(),
        looked: Ok(channel),
    };
    let mut longer = held('T');
    longer.lanes[0].blocked_ns = 5000 * MS;
    let mut risk = held('T');
    risk.lanes[0].blocked_ns = 0;
    let channels = vec![seen("a", risk), seen("b", held('T')), seen("c", longer)];
    let view = tracker.advance(&Sample {
        at_ns: START_NS,
        channels,
    });
    let order: Vec<&str> = view
        .findings
        .iter()
        .map(|one| one.channel.as_str())
        .collect();
    assert_eq!(order, ["c", "b", "a"]);
}

#[test]
fn channel_that_was_made_again_starts_anew() {
    let mut again = channel(vec![lane(7, 64)], vec![reader(0, 64)]);
    again.incarnation = 2;
    let view = last(vec![
        (0, channel(vec![lane(7, 4096)], vec![reader(0, 0)])),
        (1000, again),
    ]);
    assert_eq!(only(&view).bytes_per_s, None);
    assert_eq!(subscriber(&view, 0).state, State::Unknown);
}

#[test]
fn unreadable_channel_is_shown_and_comes_back() {
    let mut tracker = Tracker::default();
    let error = Seen {
        name: "ticks".to_owned(),
        looked: Err("layout 3".to_owned()),
    };
    let view = tracker.advance(&Sample {
        at_ns: START_NS,
        channels: vec![error],
    });
    assert_eq!(only(&view).error.as_deref(), Some("layout 3"));
    let view = tracker.advance(&sample(2, channel(vec![lane(7, 0)], vec![])));
    assert_eq!(
        (only(&view).error.as_deref(), only(&view).publishers_count),
        (None, 1)
    );
}

/// Words of shared memory hold any number.
#[test]
fn impossible_numbers_give_a_view() {
    let values = [0, 1, CAPACITY, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    for cursor in values {
        for position in values {
            for slot in [None, Some(0), Some(9), Some(usize::MAX)] {
                let look = |cursor: u64| {
                    let mut lane = lane(position, cursor);
                    lane.frame_bytes = Some(8.0);
                    (lane.waited_ns, lane.blocked_ns, lane.blocked_by) = (cursor, position, slot);
                    let mut readers = vec![reader(0, position), reader(1, cursor)];
                    readers[0].absent_ns = cursor;
                    readers[1].positions.clear();
                    channel(vec![lane], readers)
                };
                for view in views(vec![
                    (0, look(cursor)),
                    (1, look(position)),
                    (2, look(cursor)),
                ]) {
                    let fill = only(&view).ring_fill;
                    assert!((0.0..=1.0).contains(&fill), "{fill}");
                    serde_json::to_string(&view).unwrap();
                }
            }
        }
    }
}
