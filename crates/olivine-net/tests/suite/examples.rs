//! The examples as their users meet them: by curl and Python where these are installed, and by
//! sockets. `libraries.rs` has other people's HTTP libraries.

#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use crate::example::{each, said};
use crate::support::{client, exchange, skip};

fn curl(words: &[&str]) -> Option<String> {
    let always = [
        "--silent",
        "--show-error",
        "--max-time",
        "60",
        "--path-as-is",
    ];
    said("curl", &[&always, words].concat())
}

#[test]
fn json_answers_routes_of_curl_and_python() {
    each("json", &[], |json, _| {
        assert_eq!(
            json.ask("GET /json", "", "").1,
            "{\"message\":\"Hello, World!\"}"
        );
        let (head, _) = json.ask("PUT /json", "", "");
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
        if let Some(text) = curl(&["-d", "[1, 2, 3.5]", &json.url("/sum")]) {
            assert_eq!(text, "{\"sum\":6.5}");
        }
        let script = "import sys\n\
            try: import requests\n\
            except ImportError: sys.exit('no requests')\n\
            s = requests.Session()\n\
            a = [s.post(sys.argv[1] + '/sum', json=[n, 0.5]).json()['sum'] for n in range(5)]\n\
            print(a, s.get(sys.argv[1] + '/nothing').status_code)";
        match said("python3", &["-c", script, &json.url("")]) {
            Some(text) if text.contains("no requests") => skip("Python has no requests"),
            Some(text) => assert_eq!(text.trim(), "[0.5, 1.5, 2.5, 3.5, 4.5] 404"),
            None => {}
        }
    });
}

#[test]
fn upload_stores_whole_files_and_refuses_from_the_head() {
    each("upload", &["--folder", "stored"], |upload, folder| {
        let sent = folder.join("sent");
        let bytes: Vec<u8> = (0..=250_u8).cycle().take(20_000_000).collect();
        fs::write(&sent, &bytes).unwrap();
        let sent = sent.to_str().unwrap();
        if let Some(text) = curl(&["-T", sent, &upload.url("/name.bin")]) {
            assert_eq!(text, "20000000 bytes\n");
            assert!(fs::read(folder.join("stored/name.bin")).unwrap() == bytes);
            let got = folder.join("got");
            curl(&["-o", got.to_str().unwrap(), &upload.url("/name.bin")]);
            assert!(fs::read(got).unwrap() == bytes);
            // Refused before curl sends the body.
            let status = ["-w", "%{http_code} %{size_upload}", "-T", sent];
            let (taken, hidden) = (upload.url("/name.bin"), upload.url("/.hidden"));
            let words = [&status[..], &[&taken]].concat();
            assert_eq!(curl(&words).unwrap(), "409 0");
            let words = [&status[..], &[&hidden]].concat();
            assert_eq!(curl(&words).unwrap(), "400 0");
        }
        // Half an upload leaves nothing.
        let mut peer = client(upload.address);
        let head = "PUT /half HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello";
        peer.write_all(head.as_bytes()).unwrap();
        drop(peer);
        crate::support::wait_until("nothing of it is left", || {
            let names = fs::read_dir(folder.join("stored")).unwrap();
            names.flatten().all(|name| name.file_name() == "name.bin")
        });
        assert_eq!(upload.ask("PUT /empty", "", "").1, "0 bytes\n");
        let (head, _) = upload.ask("DELETE /empty", "", "");
        assert!(
            head.contains("405 ") && head.contains("Allow: GET, HEAD, PUT"),
            "{head}"
        );
    });
}

#[test]
fn stream_counts_as_far_as_asked_with_a_sum_behind() {
    each("stream", &[], |stream, _| {
        let (head, body) = stream.ask("GET /count?3", "", "");
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        assert_eq!(body, "6\r\n1\n2\n3\n\r\n0\r\nSum: 6\r\n\r\n");
        let (head, _) = stream.ask("GET /count?x", "", "");
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        if let Some(text) = curl(&[&stream.url("/count?1000000")]) {
            assert!(text.ends_with("\n999999\n1000000\n"));
            assert_eq!(text.lines().count(), 1_000_000);
        }
    });
}

#[test]
fn events_reach_watchers_and_what_was_missed_comes_again() {
    each("events", &[], |events, _| {
        let watch = |fields: &str| {
            let mut peer = client(events.address);
            let request = format!("GET /events HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            peer.write_all(request.as_bytes()).unwrap();
            BufReader::new(peer)
        };
        let until = |peer: &mut BufReader<TcpStream>, end: &str| {
            let mut text = String::new();
            while !text.ends_with(end) {
                assert!(peer.read_line(&mut text).unwrap() > 0, "{text}");
            }
            text
        };
        let mut first = watch("");
        until(&mut first, "\r\n\r\n");
        for text in ["one", "two\nlines"] {
            let (head, _) = events.ask("POST /post", "", text);
            assert!(head.starts_with("HTTP/1.1 202 "), "{head}");
        }
        let text = until(&mut first, "data: lines\n");
        assert!(text.contains("id: 1\ndata: one\n\n"), "{text}");
        assert!(text.contains("id: 2\ndata: two\ndata: lines\n"), "{text}");
        let mut second = watch("Last-Event-ID: 1\r\n");
        let text = until(&mut second, "data: lines\n");
        assert!(!text.contains("one"), "{text}");
    });
}

#[test]
fn files_are_served_whole_and_in_parts_and_none_outside_the_folder() {
    each("files", &["--folder", "."], |files, folder| {
        fs::write(folder.join("page.html"), b"0123456789").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).unwrap();
        let (head, body) = files.ask("GET /page.html", "", "");
        assert!(head.contains("Content-Type: text/html"), "{head}");
        assert_eq!(body, "0123456789");
        for (range, status, part) in [
            ("bytes=2-4", "206", "234"),
            ("bytes=7-", "206", "789"),
            ("bytes=-2", "206", "89"),
            ("bytes=9-100", "206", "9"),
            ("bytes=10-", "416", ""),
            ("bytes=0-1,3-4", "200", "0123456789"),
            ("lines=1-2", "200", "0123456789"),
        ] {
            let field = format!("Range: {range}\r\n");
            let (head, body) = files.ask("GET /page%2Ehtml", &field, "");
            let start = format!("HTTP/1.1 {status} ");
            assert!(
                head.starts_with(&start) && body == part,
                "{range}: {head} {body}"
            );
        }
        for path in [
            "/../etc/hostname",
            "/link",
            "/%2e%2e/x",
            "/%",
            "/%ff",
            "/",
            "/nothing",
        ] {
            let (head, _) = files.ask(&format!("GET {path}"), "", "");
            assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
        }
        if let Some(text) = curl(&["-r", "2-4", &files.url("/page.html")]) {
            assert_eq!(text, "234");
            let head = curl(&["--head", &files.url("/page.html")]).unwrap();
            assert!(head.contains("Content-Length: 10"), "{head}");
        }
    });
}

#[test]
fn rooms_of_hand_off_hear_their_members_only() {
    each("hand_off", &[], |rooms, _| {
        let enter = |room: &str| {
            let mut peer = BufReader::new(client(rooms.address));
            let mut line = String::new();
            peer.read_line(&mut line).unwrap();
            assert_eq!(line, "which room?\n");
            peer.get_mut()
                .write_all(format!("{room}\n").as_bytes())
                .unwrap();
            line.clear();
            peer.read_line(&mut line).unwrap();
            assert!(line.contains(" here, on shard "), "{line}");
            peer
        };
        let (mut a, mut b, mut other) = (enter("red"), enter("red"), enter("blue"));
        a.get_mut().write_all(b"hello\n").unwrap();
        let mut line = String::new();
        b.read_line(&mut line).unwrap();
        assert_eq!(line, "hello\n");
        let mut second = enter("blue");
        second.get_mut().write_all(b"only blue\n").unwrap();
        line.clear();
        other.read_line(&mut line).unwrap();
        assert_eq!(line, "only blue\n");
    });
}

#[test]
fn echo_sends_everything_back() {
    each("echo", &[], |echo, _| {
        let bytes = vec![7; 100_000];
        assert!(exchange(&mut client(echo.address), &bytes, bytes.len()) == bytes);
    });
}

#[test]
fn websocket_echoes_messages_and_closes_in_order() {
    use tungstenite::{Message, client as shake};
    each("websocket", &[], |server, _| {
        let url = format!("ws://{}/", server.address);
        let (mut socket, answer) = shake(url, client(server.address)).unwrap();
        assert_eq!(answer.status().as_u16(), 101);
        for message in [
            Message::text("hello"),
            Message::binary(vec![9; 300_000]),
            Message::text(""),
        ] {
            socket.send(message.clone()).unwrap();
            assert_eq!(socket.read().unwrap(), message);
        }
        socket.send(Message::Ping(vec![1].into())).unwrap();
        assert_eq!(socket.read().unwrap(), Message::Pong(vec![1].into()));
        socket.close(None).unwrap();
        assert!(socket.read().unwrap().is_close());
        let mut rest = Vec::new();
        let _ = socket.get_mut().read_to_end(&mut rest);
        assert!(rest.is_empty());
        // Without an offer, or with another version, there is none.
        assert!(server.ask("GET /", "", "").0.starts_with("HTTP/1.1 404 "));
        let fields = "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 99\r\n";
        assert!(
            server
                .ask("GET /", fields, "")
                .0
                .starts_with("HTTP/1.1 426 ")
        );
    });
}
