//! Keys, and what they change: the selected channel, the order, the filter, pause and detail.

use crate::stop::LOOK;
use crate::watch::format::who;
use crate::watch::view::{ChannelView, Participant, View};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::OptionalActions;
use std::cmp::Ordering;
use std::io::{self, stdout};
use std::time::Duration;

/// What is shown of a view.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The selected channel; the first one if it is not there.
    pub(super) selected: Option<String>,
    pub(super) order: Order,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
    pub(super) detail: bool,
    pub(super) help: bool,
    /// Rows above the first one of a detail or help that is longer than the screen.
    pub(super) scrolled: usize,
}

/// By what channels and participants are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Held,
    Behind,
    Rate,
    Name,
}

impl Order {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Behind => "behind",
            Self::Rate => "rate",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Held => Self::Behind,
            Self::Behind => Self::Rate,
            Self::Rate => Self::Name,
            Self::Name => Self::Held,
        }
    }
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Draw,
    Suspend,
    End,
}

/// Waits for a key, a change of size or the end of the terminal, at most `longest` or [`LOOK`].
pub(super) fn wait(longest: Duration, view: &View, shown: &mut Shown) -> io::Result<Action> {
    // Looked at here, because `poll` and `read` of this library never return once the terminal is
    // gone.
    let found = wait_for_input(longest.min(LOOK))?;
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Ok(Action::End);
    }
    // Without a key too: this call notices changes of size.
    let ready = match poll(Duration::ZERO) {
        // A signal: the caller looks whether it asks to stop.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        ready => ready?,
    };
    if !ready {
        if found.contains(PollFlags::IN) {
            announce_input()?;
        }
        return Ok(Action::Nothing);
    }
    Ok(match read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => shown.key(key, view),
        Event::Resize(..) => Action::Draw,
        _ => Action::Nothing,
    })
}

/// The library waits for the edge of an event, and misses that of a key which comes together with a
/// change of size: the key would stay unread until the next one. Settings that are set again, to
/// what they are, wake all who wait for the terminal.
fn announce_input() -> io::Result<()> {
    let out = stdout();
    let settings = rustix::termios::tcgetattr(&out)?;
    rustix::termios::tcsetattr(&out, OptionalActions::Now, &settings)?;
    Ok(())
}

/// Waits for something to read, at most `longest`; what there is. Nothing after a signal.
fn wait_for_input(longest: Duration) -> io::Result<PollFlags> {
    let time = Timespec::try_from(longest).map_err(io::Error::other)?;
    let out = stdout();
    let mut terminal = [PollFd::new(&out, PollFlags::IN)];
    match rustix::event::poll(&mut terminal, Some(&time)) {
        Ok(_) => Ok(terminal[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

impl Shown {
    /// Does what a key asks for.
    pub(super) fn key(&mut self, key: KeyEvent, view: &View) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::End,
                KeyCode::Char('z') => Action::Suspend,
                KeyCode::Char('l') => Action::Draw,
                _ => Action::Nothing,
            };
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if self.filter.len() < 64 => self.filter.push(c),
                _ => {}
            }
            return Action::Draw;
        }
        let moves = matches!(
            key.code,
            KeyCode::Up
                | KeyCode::Down
                | KeyCode::PageUp
                | KeyCode::PageDown
                | KeyCode::Home
                | KeyCode::End
        );
        if self.help && !moves {
            (self.help, self.scrolled) = (false, 0);
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Action::End,
            KeyCode::Esc if self.detail => self.detail = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => self.detail = !self.detail,
            KeyCode::Char('?' | 'h') => (self.help, self.scrolled) = (true, 0),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.go(view, -1),
            KeyCode::Down | KeyCode::Char('j') => self.go(view, 1),
            KeyCode::PageUp => self.go(view, -10),
            KeyCode::PageDown => self.go(view, 10),
            KeyCode::Home => self.go(view, isize::MIN),
            KeyCode::End => self.go(view, isize::MAX),
            _ => return Action::Nothing,
        }
        Action::Draw
    }

    /// Selects another channel, or moves in a detail or in the help.
    fn go(&mut self, view: &View, by: isize) {
        if self.detail || self.help {
            self.scrolled = self.scrolled.saturating_add_signed(by);
            return;
        }
        let channels = self.channels(view);
        let last = channels.len().saturating_sub(1);
        let to = self.index(&channels).saturating_add_signed(by).min(last);
        self.selected = channels.get(to).map(|channel| channel.name.clone());
    }

    /// Where the selected channel is.
    pub(super) fn index(&self, channels: &[&ChannelView]) -> usize {
        let selected = self.selected.as_ref();
        let at = selected.and_then(|name| channels.iter().position(|one| one.name == *name));
        at.unwrap_or(0)
    }

    /// The channels that the filter keeps, in order.
    pub(super) fn channels<'a>(&self, view: &'a View) -> Vec<&'a ChannelView> {
        let all = view.channels.iter();
        let mut kept: Vec<&ChannelView> = all.filter(|one| self.keeps_channel(one)).collect();
        let found = |one: &ChannelView| {
            let mut findings = view.findings.iter();
            findings
                .position(|finding| finding.channel == one.name)
                .unwrap_or(usize::MAX)
        };
        kept.sort_by(|a, b| {
            let held = || {
                let share = |one: &ChannelView| one.held_share.unwrap_or(0.0);
                let fullest = b.ring_fill.total_cmp(&a.ring_fill);
                found(a)
                    .cmp(&found(b))
                    .then(share(b).total_cmp(&share(a)))
                    .then(fullest)
            };
            let order = match self.order {
                Order::Held => held(),
                Order::Behind => b.behind_bytes.cmp(&a.behind_bytes),
                Order::Rate => faster(a.bytes_per_s, b.bytes_per_s),
                Order::Name => Ordering::Equal,
            };
            order.then_with(|| a.name.cmp(&b.name))
        });
        kept
    }

    /// The participants of a channel that the filter keeps, in order. A filter that the channel's
    /// name fits keeps all.
    pub(super) fn participants<'a>(&self, channel: &'a ChannelView) -> Vec<&'a Participant> {
        let by_name = self.fits(&channel.name);
        let all = channel.participants.iter();
        let mut kept: Vec<&Participant> = all.filter(|one| by_name || self.keeps(one)).collect();
        kept.sort_by(|a, b| {
            let behind = b.behind_bytes.cmp(&a.behind_bytes);
            let order = match self.order {
                Order::Held => {
                    let share = |one: &Participant| one.held_share.unwrap_or(0.0);
                    // Publishers first: their state says whether a publisher waits.
                    let held = a.role.cmp(&b.role).then(share(b).total_cmp(&share(a)));
                    held.then(behind)
                }
                Order::Behind => behind,
                Order::Rate => faster(a.bytes_per_s, b.bytes_per_s),
                Order::Name => who(a).cmp(&who(b)),
            };
            order.then_with(|| (a.role, a.index).cmp(&(b.role, b.index)))
        });
        kept
    }

    fn keeps_channel(&self, channel: &ChannelView) -> bool {
        self.fits(&channel.name) || channel.participants.iter().any(|one| self.keeps(one))
    }

    fn keeps(&self, one: &Participant) -> bool {
        let command = one.command.as_deref().unwrap_or_default();
        self.fits(&who(one)) || self.fits(command) || self.fits(&one.process_id.to_string())
    }

    fn fits(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }
}

/// The higher rate first.
fn faster(a: Option<f64>, b: Option<f64>) -> Ordering {
    b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0))
}
