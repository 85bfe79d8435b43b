//! Somebody between two sides of a connection, who can cut it and listens.

use olivine::{Publisher, Subscriber};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections, keeps the first bytes of each direction, and cuts all of them whenever it is told to.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cuts: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<u8>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Bytes that are kept.
const HEARD_MAX: usize = 1 << 20;

impl Proxy {
    /// To the port `to` of this machine.
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let thread = std::thread::spawn({
            let (cuts, stop, heard) = (Arc::clone(&cuts), Arc::clone(&stop), Arc::clone(&heard));
            move || {
                let mut open: Vec<TcpStream> = Vec::new();
                let mut seen = 0;
                while !stop.load(Ordering::Acquire) {
                    let wanted = cuts.load(Ordering::Acquire);
                    if wanted != seen {
                        seen = wanted;
                        for stream in open.drain(..) {
                            let _ = stream.shutdown(Shutdown::Both);
                        }
                    }
                    let Ok((near, _)) = listener.accept() else {
                        std::thread::yield_now();
                        continue;
                    };
                    near.set_nonblocking(false).unwrap();
                    let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else {
                        continue;
                    };
                    for (from, into) in [(&near, &far), (&far, &near)] {
                        let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                        let heard = Arc::clone(&heard);
                        std::thread::spawn(move || forward(from, into, &heard));
                    }
                    open.extend([near, far]);
                }
            }
        });
        Self {
            port,
            cuts,
            stop,
            heard,
            thread: Some(thread),
        }
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Release);
    }

    /// Whether `text` went by.
    pub(crate) fn has_heard(&self, text: &[u8]) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.windows(text.len()).any(|window| window == text)
    }

    /// Bytes that went by, as far as they are kept.
    pub(crate) fn heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

/// Sends `count` numbers from `publish` to `subscribe`, a way that leads through `proxy`, which cuts it every now and
/// then: each number arrives once, in order.
pub(crate) fn nothing_is_lost_in_cuts(proxy: &Proxy, publish: &str, subscribe: &str, count: u64) {
    let uri = publish.to_owned();
    let publishing = std::thread::spawn(move || {
        let mut publisher = Publisher::open(&uri).unwrap();
        for number in 0..count {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        publisher.close().unwrap();
    });
    let mut subscriber = Subscriber::open(subscribe).unwrap();
    for number in 0..count {
        let received = subscriber.receive().unwrap();
        assert_eq!(*received, number.to_le_bytes(), "{publish}");
        if number % (count / 10) == count / 20 {
            proxy.cut();
        }
    }
    publishing.join().unwrap();
    let status = subscriber.link_status().unwrap();
    assert!(status.failures > 0, "nothing was cut: {status:?}");
    assert_eq!(status.messages, count);
}

fn forward(mut from: TcpStream, mut into: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        {
            let mut heard = heard.lock().unwrap();
            let room = HEARD_MAX - heard.len();
            heard.extend(&bytes[..count.min(room)]);
        }
        if into.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Write);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
