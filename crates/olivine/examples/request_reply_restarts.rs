//! Requests and answers between two programs that are killed: each piece of work is done once.
//!
//! `docs/request_reply.md` says what happens at each place of a kill. This program starts a server
//! and a client, connected by shared memory, and kills each of them twice; then again over
//! `tcp://`.

#![allow(
    clippy::disallowed_methods,
    reason = "the work takes 1 ms, and each look at a file waits for 1 ms"
)]

use olivine::{Publisher, ReceiveError, Subscriber};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, thread};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const REQUESTS: u64 = 60;

/// Receives requests, does the work, and sends the answers.
fn serve(channels: &Channels) -> Outcome {
    let mut requests = Subscriber::open(&channels.uri(&channels.requests, "server"))?;
    // The first answer waits for the client.
    let answers = channels.uri(&channels.answers, "server") + "&subscribers=1";
    let mut answers = Publisher::open(&answers)?;
    let mut done = Notes::open(&channels.folder.join("server"))?;
    loop {
        let id = match requests.receive() {
            Ok(request) => id_of(&request)?,
            Err(ReceiveError::Closed) => break,
            Err(error) => return Err(error.into()),
        };
        // It comes again if this program was killed before its next `receive`, or if the client
        // was killed and sent it again.
        if !done.ids.contains(&id) {
            thread::sleep(Duration::from_millis(1)); // The work.
            done.add(id)?;
        }
        answers.publish(&id.to_le_bytes())?;
    }
    answers.close()?;
    Ok(())
}

/// Sends one request at a time and waits for its answer.
fn ask(channels: &Channels) -> Outcome {
    // Before the first request, so that the answer finds this name.
    let mut answers = Subscriber::open(&channels.uri(&channels.answers, "client"))?;
    let requests = channels.uri(&channels.requests, "client") + "&subscribers=1";
    let mut requests = Publisher::open(&requests)?;
    let mut done = Notes::open(&channels.folder.join("client"))?;
    let mut repeated = 0;
    for id in done.ids.len() as u64 + 1..=REQUESTS {
        // After a kill with the id of before: it may have been sent already.
        requests.publish(&id.to_le_bytes())?;
        // An answer with another id is an earlier one, again.
        while id_of(&answers.receive()?)? != id {
            repeated += 1;
        }
        done.add(id)?;
    }
    requests.close()?;
    // The server closes, too. Over `tcp://` its close waits until this name has everything.
    loop {
        match answers.receive() {
            Ok(_) => repeated += 1,
            Err(ReceiveError::Closed) => break,
            Err(error) => return Err(error.into()),
        }
    }
    println!("the last client dropped {repeated} answers that came again");
    Ok(())
}

fn id_of(message: &[u8]) -> Outcome<u64> {
    Ok(u64::from_le_bytes(message.try_into()?))
}

/// Ids of finished requests in a file, which outlives this program.
struct Notes {
    ids: Vec<u64>,
    file: File,
}

impl Notes {
    fn open(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let text = fs::read_to_string(path)?;
        let ids = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { ids, file })
    }

    fn add(&mut self, id: u64) -> Outcome {
        self.ids.push(id);
        Ok(self.file.write_all(format!("{id}\n").as_bytes())?)
    }
}

/// The two channels, and a folder for files and for what `name=` keeps.
struct Channels {
    requests: String,
    answers: String,
    folder: PathBuf,
}

impl Channels {
    /// What a program has not read or not delivered waits for the next of its `name`.
    fn uri(&self, channel: &str, name: &str) -> String {
        let mut uri = format!("{channel}?dir={}&name={name}", self.folder.display());
        if channel.starts_with("tcp:") {
            uri += match name {
                "server" => "&role=listen",
                _ => "&role=connect",
            };
        }
        uri
    }

    fn start(&self, role: &str) -> Outcome<Started> {
        let mut command = Command::new(env::current_exe()?);
        let command = command.args([role, &self.requests, &self.answers]);
        Ok(Started(command.arg(&self.folder).spawn()?))
    }

    fn run(&self) -> Outcome {
        fs::create_dir(&self.folder)?;
        let outcome = self.kill_both();
        fs::remove_dir_all(&self.folder)?;
        outcome
    }

    fn kill_both(&self) -> Outcome {
        let mut programs = [self.start("serve")?, self.start("ask")?];
        for round in 1..=4 {
            while Notes::open(&self.folder.join("client"))?.ids.len() < round * 10 {
                for program in &mut programs {
                    if program.0.try_wait()?.is_some() {
                        return Err("a program ended early".into());
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            let which = round % 2;
            programs[which].kill()?;
            programs[which] = self.start(["serve", "ask"][which])?;
        }
        for program in &mut programs {
            if !program.0.wait()?.success() {
                return Err("a program failed".into());
            }
        }
        // Each request was worked on once, and answered.
        for side in ["server", "client"] {
            let ids = Notes::open(&self.folder.join(side))?.ids;
            assert_eq!(ids, (1..=REQUESTS).collect::<Vec<_>>(), "{side}");
        }
        println!("{REQUESTS} requests, 4 kills: each was worked on once and answered");
        Ok(())
    }
}

/// A program that ends with this one.
struct Started(Child);

impl Started {
    fn kill(&mut self) -> Outcome {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn main() -> Outcome {
    let words: Vec<String> = env::args().collect();
    let channels = |requests: &str, answers: &str, folder: &Path| Channels {
        requests: requests.to_owned(),
        answers: answers.to_owned(),
        folder: folder.to_owned(),
    };
    if let [_, role, requests, answers, folder] = &words[..] {
        let channels = channels(requests, answers, Path::new(folder));
        return match &**role {
            "serve" => serve(&channels),
            _ => ask(&channels),
        };
    }
    let folder = env::temp_dir().join(format!("request_reply_{}", std::process::id()));
    channels("shm://requests", "shm://answers", &folder).run()?;
    // Ports that are free now, one for each channel.
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
    let [requests, answers] = ports.map(|port| port?.local_addr());
    let requests = format!("tcp://{}/requests", requests?);
    let answers = format!("tcp://{}/answers", answers?);
    channels(&requests, &answers, &folder).run()
}
