//! The terminal: raw mode and the second screen, given back at every end, and cells as escape
//! sequences.

use crossterm::cursor::{Hide, MoveTo, Show, position};
use crossterm::style::{Attribute, Color as Ink, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, Clear, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui_core::backend::{self, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use signal_hook::consts::SIGTSTP;
use std::io::{self, BufWriter, Stdout, Write, stdout};

/// Raw mode and the second screen. Dropping it gives the terminal back, also in a panic.
#[derive(Debug)]
pub(super) struct Tty(());

impl Tty {
    pub(super) fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on it is given back also if the rest fails.
        let tty = Self(());
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(tty)
    }

    /// Stops this process as Ctrl-Z does elsewhere, until the shell continues it.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        leave();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        leave();
    }
}

/// Errors do not matter: the terminal may be gone.
fn leave() {
    let _ = execute!(stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Standard output for cells.
#[derive(Debug)]
pub(super) struct Backend {
    out: BufWriter<Stdout>,
}

impl Backend {
    pub(super) fn new() -> Self {
        Self {
            out: BufWriter::with_capacity(1 << 16, stdout()),
        }
    }
}

/// The colours that `draw` uses.
fn ink(color: Color) -> Ink {
    match color {
        Color::Red => Ink::Red,
        Color::Yellow => Ink::Yellow,
        Color::Green => Ink::Green,
        Color::Cyan => Ink::Cyan,
        _ => Ink::Reset,
    }
}

const ATTRIBUTES: [(Modifier, Attribute); 3] = [
    (Modifier::BOLD, Attribute::Bold),
    (Modifier::DIM, Attribute::Dim),
    (Modifier::REVERSED, Attribute::Reverse),
];

impl backend::Backend for Backend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut style = (Color::Reset, Modifier::empty());
        let mut expected = None;
        for (x, y, cell) in content {
            if expected != Some((x, y)) {
                queue!(self.out, MoveTo(x, y))?;
            }
            // Wide characters move the cursor by two: the next cell is placed anew.
            expected = cell.symbol().is_ascii().then_some((x + 1, y));
            if (cell.fg, cell.modifier) != style {
                style = (cell.fg, cell.modifier);
                queue!(self.out, SetAttribute(Attribute::Reset))?;
                for (_, attribute) in ATTRIBUTES.iter().filter(|(m, _)| style.1.contains(*m)) {
                    queue!(self.out, SetAttribute(*attribute))?;
                }
                if style.0 != Color::Reset {
                    queue!(self.out, SetForegroundColor(ink(style.0)))?;
                }
            }
            queue!(self.out, Print(cell.symbol()))?;
        }
        queue!(self.out, SetAttribute(Attribute::Reset))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        execute!(self.out, Hide)
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        execute!(self.out, Show)
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        let (x, y) = position()?;
        Ok(Position { x, y })
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        execute!(self.out, MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, kind: ClearType) -> io::Result<()> {
        execute!(
            self.out,
            Clear(match kind {
                ClearType::All => terminal::ClearType::All,
                ClearType::AfterCursor => terminal::ClearType::FromCursorDown,
                ClearType::BeforeCursor => terminal::ClearType::FromCursorUp,
                ClearType::CurrentLine => terminal::ClearType::CurrentLine,
                ClearType::UntilNewLine => terminal::ClearType::UntilNewLine,
            })
        )
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = terminal::size()?;
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size()?,
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
