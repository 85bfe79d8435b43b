//! What `olivine serve` does not do: keep old looks and removed channels, look for other sites,
//! and serve more than its limits.

use crate::common::{TestFolder, until};
use crate::web::Server;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Streams of events at one time.
const STREAMS_MAX: usize = 64;
/// Connections at one time.
const CONNECTIONS_MAX: usize = 256;

fn serve(place: &TestFolder) -> Server {
    Server::start(place, &["serve", "--interval", "50ms"])
}

/// Looks at the channels that the server has taken, that of this scrape included.
fn looks(server: &Server) -> u64 {
    let text = server.get("/metrics").body;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("olivine_looks_total "));
    value.unwrap().parse().unwrap()
}

#[test]
fn page_that_does_not_read_misses_looks_and_then_gets_the_newest() {
    const LOOKS: u64 = 150;
    let place = TestFolder::new();
    for at in 0..40 {
        let made = place.run(&["pub", &format!("channel-{at}"), "a"]);
        assert!(made.status.success());
    }
    let server = serve(&place);
    let mut slow = server.events();
    let (name, first) = slow.next().unwrap();
    assert_eq!(name, "view");
    let mut quick = server.events();
    let begun = looks(&server);
    let mut newest = 0;
    until("many looks", || {
        newest = quick.next().unwrap().1["at_unix_ms"].as_u64().unwrap();
        looks(&server) > begun + LOOKS
    });
    let mut before = first["at_unix_ms"].as_u64().unwrap();
    let mut seen = 0;
    while before < newest {
        let at = slow.next().unwrap().1["at_unix_ms"].as_u64().unwrap();
        assert!(at > before, "each event is newer");
        (before, seen) = (at, seen + 1);
    }
    // Each scrape is a look, too: half of the looks are of the page.
    println!("{seen} of at least {} looks were kept", LOOKS / 2);
    assert!(seen < LOOKS / 3, "{seen} looks were kept");
    let view = server.json("/api/v1/view");
    assert!(view["at_unix_ms"].as_u64().unwrap() >= newest, "{view}");
}

#[test]
fn removed_channel_is_let_go_between_looks() {
    let place = TestFolder::new();
    assert!(place.run(&["pub", "x", "a"]).status.success());
    for (command, path) in [("serve", "/api/v1/view"), ("metrics", "/metrics")] {
        assert!(place.run(&["pub", "x", "a"]).status.success());
        let server = Server::start(&place, &[command]);
        let folder = place.path().display().to_string();
        let id = server.running.child.id();
        let held = || {
            let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
            let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
            let links = descriptors.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
            let open = links.filter(|link| link.display().to_string().starts_with(&folder));
            maps.lines().filter(|line| line.contains(&folder)).count() + open.count()
        };
        assert_eq!(server.get(path).status, 200);
        assert!(held() > 0, "{command} has mapped nothing");
        assert!(place.run(&["rm", "x"]).status.success());
        until("the end of its mappings", || held() == 0);
        assert_eq!(server.get(path).status, 200);
    }
}

#[test]
fn pages_of_other_sites_make_it_look_at_nothing() {
    let place = TestFolder::new();
    let server = serve(&place);
    let before = looks(&server);
    let site = |site: &str| format!("Sec-Fetch-Site: {site}");
    for path in [
        "/metrics",
        "/api/v1/view",
        "/api/v1/events",
        "/snapshot",
        "/",
    ] {
        for lines in [
            &[&*site("cross-site")][..],
            &[&site("same-site")],
            &[
                &site("cross-site"),
                "Sec-Fetch-Mode: navigate",
                "Sec-Fetch-Dest: iframe",
            ],
            &["Origin: http://evil.example"],
            &["Origin: http://localhost:1"],
            &["Origin: null"],
        ] {
            let answer = server.ask(&format!("GET {path}"), lines);
            assert_eq!(answer.status, 403, "{path} {lines:?}: {}", answer.body);
        }
    }
    assert_eq!(looks(&server), before + 1, "only the scrape looks");
    let opened = [
        &*site("cross-site"),
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Dest: document",
    ];
    assert_eq!(
        server.ask("GET /", &opened).status,
        200,
        "a link to the page"
    );
    assert_eq!(server.ask("GET /snapshot", &opened).status, 403);
    for lines in [
        &[&*site("same-origin")][..],
        &[&site("none")],
        &["Origin: http://localhost"],
    ] {
        assert_eq!(
            server.ask("GET /api/v1/view", lines).status,
            200,
            "{lines:?}"
        );
    }
}

#[test]
fn streams_beyond_the_limit_are_refused_until_one_is_closed() {
    let place = TestFolder::new();
    let server = serve(&place);
    let mut streams: Vec<_> = (0..STREAMS_MAX).map(|_| server.events()).collect();
    let refused = server.get("/api/v1/events");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("64 streams"), "{}", refused.body);
    assert_eq!(server.get("/").status, 200);
    for stream in &mut streams {
        assert_eq!(stream.next().unwrap().0, "view");
    }
    streams.pop();
    until("room for one", || {
        let head = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut begin = [0; 12];
        let is_whole = server.send(head).read_exact(&mut begin).is_ok();
        is_whole && begin.ends_with(b"200")
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_others_are_served() {
    let place = TestFolder::new();
    let server = serve(&place);
    let request =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    // A connection that is closed at once may refuse the request.
    let ask = |path: &str| {
        let mut all = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(&server.address) {
            let _ = stream.write_all(request(path).as_bytes());
            let _ = stream.read_to_end(&mut all);
        }
        String::from_utf8(all).unwrap()
    };
    let mut idle: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| server.send(b"GET / HT"))
        .collect();
    // The last one is served: all of them are accepted.
    let mut last = idle.pop().unwrap();
    last.write_all(b"TP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut begin = [0; 12];
    last.read_exact(&mut begin).unwrap();
    assert!(begin.ends_with(b"200"), "{begin:?}");
    assert_eq!(ask("/none"), "", "one too many was served");
    drop((idle, last));
    until("room again", || ask("/none").starts_with("HTTP/1.1 404"));
}
