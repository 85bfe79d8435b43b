//! The cells of views at several sizes.

use super::super::keys::{Action, Order, Shown};
use super::draw_with;
use crate::watch::tracker::tests::troubled;
use crate::watch::view::View;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

fn cells(view: &View, shown: &mut Shown, width: u16, height: u16, colored: bool) -> Buffer {
    let mut screen = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui_core::terminal::Frame<'_>| {
        draw_with(frame.buffer_mut(), view, shown, colored);
    };
    screen.draw(draw).unwrap();
    screen.backend().buffer().clone()
}

/// The rows, without the spaces at their ends.
fn rows(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui_core::buffer::Cell]| {
        let text: String = cells.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(row).collect()
}

fn drawn(shown: &mut Shown, width: u16, height: u16) -> Vec<String> {
    rows(&cells(&troubled(), shown, width, height, false))
}

fn type_keys(shown: &mut Shown, view: &View, keys: &[KeyCode]) -> Vec<Action> {
    let key = |code: &KeyCode| shown.key(KeyEvent::new(*code, KeyModifiers::NONE), view);
    keys.iter().map(key).collect()
}

#[test]
fn screen_of_80_by_24_names_the_culprit_first() {
    let expected = "\
ticks: held >3.1 s by 'audit' (pid 101, STOPPED), ring 100 %
kill -CONT 101
3 channels, 5 participants, sorted by held
CHANNEL                      RATE   MESSAGES RING        FULL  HELD PUB SUB GONE
ticks                       0 B/s      ~0 /s ██████████ 100 % 100 %   1   2    0
broken                          -          - unreadable     -     -   -   -    -
orders                    320 B/s   ~10.0 /s ░░░░░░░░░░   0 %   0 %   1   1    0

        PID NAME              STATE    CPU  %CPU   BEHIND MESSAGES     AGE  HELD
pub       7 feed x            held       3   0 %                           100 %
sub     101 audit             STOPPED    3   0 %    4 KiB     ~128  >3.1 s 100 %
sub     100 feed x            idle       3   0 %      0 B        -       -   0 %
";
    let seen = drawn(&mut Shown::default(), 80, 24);
    let (upper, lower) = seen.split_at(12);
    assert_eq!(upper.join("\n") + "\n", expected);
    let (keys, empty) = lower.split_last().unwrap();
    assert!(
        keys.starts_with("q quit ") && empty.iter().all(String::is_empty),
        "{lower:?}"
    );
}

#[test]
fn screen_of_20_by_5_has_the_culprit_whole() {
    let expected = [
        "ticks: held >3.1 s",
        "by 'audit' (pid 101,",
        "STOPPED), ring 100 %",
        "kill -CONT 101",
        "ticks    100 % 100 %",
    ];
    assert_eq!(drawn(&mut Shown::default(), 20, 5), expected);
}

/// The command names the process where the text has no room to.
#[test]
fn screen_of_two_rows_has_the_command_that_helps() {
    let drawn = |width, height| drawn(&mut Shown::default(), width, height);
    assert_eq!(drawn(20, 1), ["ticks: held >3.1 s …"]);
    assert_eq!(drawn(20, 2), ["ticks: held >3.1 s …", "kill -CONT 101"]);
    let three = [
        "ticks: held >3.1 s",
        "by 'audit' (pid 101…",
        "kill -CONT 101",
    ];
    assert_eq!(drawn(20, 3), three);
    let whole = "ticks: held >3.1 s by 'audit' (pid 101, STOPPED), ring 100 %";
    assert_eq!(drawn(80, 2), [whole, "kill -CONT 101"]);
    assert_eq!(drawn(80, 3)[..2], [whole, "kill -CONT 101"]);
}

#[test]
fn help_is_read_on_any_screen_with_the_keys_that_move() {
    let mut shown = Shown::default();
    let press = |shown: &mut Shown, code| type_keys(shown, &troubled(), &[code]);
    press(&mut shown, KeyCode::Char('?'));
    let first = drawn(&mut shown, 20, 5);
    assert_eq!(first[..2], ["q Ctrl-C: quit: what", "is wrong stays on"]);
    press(&mut shown, KeyCode::End);
    let last = drawn(&mut shown, 20, 5);
    assert_eq!(last[3..], ["some messages; > may", "be older"]);
    press(&mut shown, KeyCode::Up);
    assert_eq!(drawn(&mut shown, 20, 5)[4], last[3]);
    press(&mut shown, KeyCode::Char('x'));
    assert!(!shown.help && drawn(&mut shown, 20, 5)[0].starts_with("ticks: held"));
}

#[test]
fn every_size_is_drawn() {
    let view = troubled();
    for (width, height) in (1..=90).flat_map(|width| (1..=26).map(move |height| (width, height))) {
        for (detail, help) in [(false, false), (true, false), (false, true)] {
            let mut shown = Shown {
                detail,
                help,
                ..Shown::default()
            };
            cells(&view, &mut shown, width, height, true);
        }
    }
}

#[test]
fn colours_are_left_out_on_request_and_the_culprit_still_stands_out() {
    let view = troubled();
    let with = cells(&view, &mut Shown::default(), 80, 24, true);
    assert_eq!(with[(0, 0)].fg, Color::Red);
    let without = cells(&view, &mut Shown::default(), 80, 24, false);
    assert!(without.content.iter().all(|cell| cell.fg == Color::Reset));
    assert!(without[(0, 0)].modifier.contains(Modifier::BOLD));
    assert_eq!(rows(&with), rows(&without));
}

/// In colours of the background a full ring would look empty.
#[test]
fn bar_of_the_selected_channel_is_not_reversed() {
    let cells = cells(&troubled(), &mut Shown::default(), 80, 24, true);
    let row: Vec<_> = (0..80).map(|x| &cells[(x, 4)]).collect();
    let (bar, text): (Vec<_>, Vec<_>) = row.into_iter().partition(|one| one.symbol() == "█");
    assert_eq!(bar.len(), 10);
    let is_reversed = |one: &&ratatui_core::buffer::Cell| one.modifier.contains(Modifier::REVERSED);
    assert!(text.iter().all(is_reversed) && !bar.iter().any(is_reversed));
}

#[test]
fn names_of_others_are_shown_escaped_in_every_place() {
    let mut view = troubled();
    let hostile = "a\u{1b}]0;x\u{7}\t\n\u{202e}b";
    for channel in &mut view.channels {
        channel.error = channel.error.as_ref().map(|_| hostile.to_owned());
        for one in &mut channel.participants {
            (one.name, one.command) = (Some(hostile.to_owned()), Some(hostile.into()));
        }
    }
    view.findings[0].text = hostile.to_owned();
    for detail in [false, true] {
        let mut shown = Shown {
            detail,
            ..Shown::default()
        };
        let seen = rows(&cells(&view, &mut shown, 120, 40, true)).join("\n");
        assert!(seen.contains("a\\x1b]0;x\\x07\\t\\n\\u{202e}b"), "{seen}");
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!seen.contains(obeyed), "{seen:?}");
    }
}

#[test]
fn keys_select_sort_filter_and_end() {
    use KeyCode::{Char, Down, End, Enter, Esc, Up};
    let view = troubled();
    let mut shown = Shown::default();
    let names = |shown: &Shown| {
        let channels = shown.channels(&view).into_iter();
        channels
            .map(|one| one.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(&shown), "ticks broken orders");
    type_keys(&mut shown, &view, &[Down]);
    assert_eq!(shown.selected.as_deref(), Some("broken"));
    type_keys(&mut shown, &view, &[End, Down, Up, Up, Up]);
    assert_eq!(shown.selected.as_deref(), Some("ticks"));
    type_keys(&mut shown, &view, &[Char('s'), Char('s')]);
    assert_eq!(
        (shown.order, names(&shown).as_str()),
        (Order::Rate, "orders broken ticks")
    );
    // A part of a name, of a participant's name, of a process number; and none.
    for (typed, kept) in [
        ("ORD", "orders"),
        ("audit", "ticks"),
        ("101", "ticks"),
        ("zz", ""),
    ] {
        type_keys(&mut shown, &view, &[Char('/')]);
        type_keys(
            &mut shown,
            &view,
            &typed.chars().map(Char).collect::<Vec<_>>(),
        );
        assert_eq!(names(&shown), kept, "{typed}");
        assert!(rows(&cells(&view, &mut shown, 80, 24, true))[2].contains(typed));
        type_keys(&mut shown, &view, &[Enter, Esc]);
        assert_eq!(shown.filter, "");
    }
    assert_eq!(
        type_keys(&mut shown, &view, &[Char('p'), Char('x')]),
        [Action::Draw, Action::Nothing]
    );
    assert!(shown.paused);
    assert_eq!(
        type_keys(
            &mut shown,
            &view,
            &[Enter, Esc, Char('?'), Char('q'), Char('q')]
        )[4],
        Action::End
    );
    let control =
        |shown: &mut Shown, c| shown.key(KeyEvent::new(Char(c), KeyModifiers::CONTROL), &view);
    assert_eq!(control(&mut shown, 'c'), Action::End);
    assert_eq!(control(&mut shown, 'z'), Action::Suspend);
    // While a filter is typed, letters are letters; Ctrl-C still ends it.
    type_keys(&mut shown, &view, &[Char('/'), Char('q')]);
    assert_eq!(shown.filter, "q");
    assert_eq!(control(&mut shown, 'c'), Action::End);
}

#[test]
fn detail_says_all_about_each_participant_and_scrolls() {
    let mut shown = Shown {
        detail: true,
        ..Shown::default()
    };
    let seen = drawn(&mut shown, 80, 24).join("\n");
    for part in [
        "sub 1 audit 101 STOPPED",
        "command feed x",
        "behind 4\n  KiB, ~128 messages, >3.1 s",
    ] {
        assert!(seen.contains(part), "{seen}");
    }
    let mut view = troubled();
    type_keys(&mut shown, &view, &[KeyCode::End]);
    let seen = rows(&cells(&view, &mut shown, 80, 10, true)).join("\n");
    assert!(
        !seen.contains("pub 0") && seen.contains("lost 0 B; 0 overruns; 0 parks"),
        "{seen}"
    );
    // What is not known is left out.
    let all = view.channels.iter_mut();
    for one in all.flat_map(|channel| &mut channel.participants) {
        (one.command, one.cpu, one.cpu_share) = (None, None, None);
        one.behind_messages_estimate = None;
    }
    let seen = rows(&cells(&view, &mut shown, 120, 40, true)).join("\n");
    assert!(
        seen.contains("command not visible; 0 B/s; held 100 %, "),
        "{seen}"
    );
    assert!(seen.contains("; behind 4 KiB, >3.1 s; "), "{seen}");
}
