//! Entries of the arena that are a library: the five functions of `olivine_arena.h`.

use libloading::Library;
use olivine_arena::error::{ArenaError, Result, io};
use olivine_arena::method::{Driven, End, Method, Rendezvous, Side, drive};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Error;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;

/// The description as the library writes it.
#[repr(C)]
struct Told {
    name: *const c_char,
    about: *const c_char,
    wait: *const c_char,
    lacks: *const c_char,
    streams: c_int,
}

type Describe = unsafe extern "C" fn(*mut Told);
type Open = unsafe extern "C" fn(c_int, *const c_char, usize) -> *mut c_void;
type Send = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;
type Receive = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);

const DONE: c_int = 0;
const AGAIN: c_int = 1;

#[derive(Clone, Copy)]
struct Functions {
    open: Open,
    send: Send,
    receive: Receive,
    close: Close,
}

/// The functions of the entry that this process has loaded.
static LOADED: OnceLock<Functions> = OnceLock::new();

fn says(message: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "the entry",
        message: message.to_string(),
    }
}

/// Loads the library at `path`: one in a process, until it ends.
///
/// # Errors
///
/// [`ArenaError::Library`] if it cannot be loaded, lacks a function, or has no name.
pub fn load(path: &Path) -> Result<Method> {
    // SAFETY: the person who runs the benchmark named this entry to be run. Its initialisers run
    // here, in a separate process.
    let library = unsafe { Library::new(path) }.map_err(says)?;
    let library: &'static Library = Box::leak(Box::new(library));
    let functions = Functions {
        open: function(library, "arena_open")?,
        send: function(library, "arena_send")?,
        receive: function(library, "arena_receive")?,
        close: function(library, "arena_close")?,
    };
    let describe: Describe = function(library, "arena_describe")?;
    let mut told = Told {
        name: std::ptr::null(),
        about: std::ptr::null(),
        wait: std::ptr::null(),
        lacks: std::ptr::null(),
        streams: 0,
    };
    // SAFETY: the structure is that of the header, and lives.
    unsafe { describe(&raw mut told) };
    let described = Method::new(text(told.name), text(told.about), text(told.wait), open);
    let mut described = described.lacking(text(told.lacks));
    described.streams = told.streams != 0;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if described.name.is_empty() || !described.name.chars().all(is_fine) {
        let name = described.name;
        return Err(says(format!(
            "arena_describe gave the name '{name}': a name has letters, digits and '-'"
        )));
    }
    LOADED.get_or_init(|| functions);
    Ok(described)
}

/// A function of the header; `F` is its type.
fn function<F: Copy>(library: &'static Library, name: &str) -> Result<F> {
    // SAFETY: `load` asks for each function with its type in the header that the entry implements.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|found| *found)
        .map_err(says)
}

/// A text of the entry.
fn text(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: a text of the entry, which ends in a zero byte and lives as long as the process.
    let text = unsafe { CStr::from_ptr(text) };
    Box::leak(text.to_string_lossy().into_owned().into_boxed_str())
}

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let functions = *LOADED.get().ok_or_else(|| says("no entry is loaded"))?;
    let folder = rendezvous.folder().join("entry");
    if side == Side::Client {
        std::fs::create_dir(&folder).map_err(io("make a folder for the entry"))?;
    } else {
        let _opened = rendezvous.hear()?;
    }
    let path = CString::new(folder.as_os_str().as_bytes()).map_err(says)?;
    // SAFETY: as the header promises the entry; the text lives during the call.
    let opened = unsafe { (functions.open)(side.pick(0, 1), path.as_ptr(), size) };
    if opened.is_null() {
        return Err(io("open an end of the entry")(Error::last_os_error()));
    }
    let end = Opened {
        functions,
        opened,
        stage: vec![0; size],
    };
    if side == Side::Client {
        rendezvous.tell("opened")?;
    }
    rendezvous.exchange("both")?;
    Ok(drive(end, size))
}

/// An open end.
struct Opened {
    functions: Functions,
    opened: *mut c_void,
    stage: Vec<u8>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it is open, and not used again.
        unsafe { (self.functions.close)(self.opened) };
    }
}

/// Calls until it is not asked to do so again.
#[inline(always)]
fn until_done(what: &'static str, mut call: impl FnMut() -> c_int) -> Result<()> {
    loop {
        match call() {
            DONE => return Ok(()),
            AGAIN => {}
            _ => return Err(io(what)(Error::last_os_error())),
        }
    }
}

impl Opened {
    #[inline(always)]
    fn send_stage(&mut self) -> Result<()> {
        let (send, opened) = (self.functions.send, self.opened);
        let message = self.stage.as_ptr().cast::<c_void>();
        // SAFETY: the end is open, and used by this thread only; the message has the size that it
        // was opened for.
        until_done("send by the entry", || unsafe { send(opened, message) })
    }
}

impl End for Opened {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.stage);
        self.send_stage()
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (receive, opened) = (self.functions.receive, self.opened);
        let room = self.stage.as_mut_ptr().cast::<c_void>();
        // SAFETY: as in `send_stage`; there is room for a message.
        until_done("receive by the entry", || unsafe { receive(opened, room) })?;
        Ok(handle(&self.stage))
    }

    /// Sent back from where it was received.
    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let fits = self.receive(check)?;
        if fits {
            self.send_stage()?;
        }
        Ok(fits)
    }
}
