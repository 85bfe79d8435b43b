//! A Unix stream socket, in Rust.
//!
//! # Safety
//!
//! The benchmark calls each function as `olivine_arena.h` says.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

#[repr(C)]
pub struct Description {
    texts: [*const c_char; 4],
    streams: c_int,
}

struct End {
    listener: Option<UnixListener>,
    stream: Option<UnixStream>,
    size: usize,
}

impl End {
    // The client accepts when it first uses its end.
    fn stream(&mut self) -> std::io::Result<&mut UnixStream> {
        if let Some(listener) = self.listener.take() {
            self.stream = Some(listener.accept()?.0);
        }
        self.stream.as_mut().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }
}

/// # Safety: as above
#[no_mangle]
pub unsafe extern "C" fn arena_describe(is: *mut Description) {
    let about = c"Unix stream socket, in Rust, blocking";
    let texts = [c"socket-rust", about, c"block", c""].map(CStr::as_ptr);
    *is = Description { texts, streams: 1 };
}
/// # Safety: as above
#[no_mangle]
pub unsafe extern "C" fn arena_open(end: c_int, folder: *const c_char, size: usize) -> *mut c_void {
    let path = format!("{}/socket", CStr::from_ptr(folder).to_string_lossy());
    let (listener, stream) = match end {
        0 => (UnixListener::bind(path).ok(), None),
        _ => (None, UnixStream::connect(path).ok()),
    };
    let is_open = listener.is_some() || stream.is_some();
    let end = is_open.then(|| Box::into_raw(Box::new(End { listener, stream, size })).cast());
    end.unwrap_or(std::ptr::null_mut())
}
/// # Safety: as above
#[no_mangle]
pub unsafe extern "C" fn arena_send(opened: *mut c_void, message: *const c_void) -> c_int {
    let end = &mut *opened.cast::<End>();
    let message = std::slice::from_raw_parts(message.cast::<u8>(), end.size);
    end.stream().and_then(|stream| stream.write_all(message)).map_or(-1, |()| 0)
}
/// # Safety: as above
#[no_mangle]
pub unsafe extern "C" fn arena_receive(opened: *mut c_void, message: *mut c_void) -> c_int {
    let end = &mut *opened.cast::<End>();
    let message = std::slice::from_raw_parts_mut(message.cast::<u8>(), end.size);
    end.stream().and_then(|stream| stream.read_exact(message)).map_or(-1, |()| 0)
}
/// # Safety: as above
#[no_mangle]
pub unsafe extern "C" fn arena_close(opened: *mut c_void) {
    drop(Box::from_raw(opened.cast::<End>()));
}
