//! What a handler sees of a TLS session; files, hand-over and plain listeners beside TLS.
#![cfg(feature = "rustls")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use crate::support::{backends, client, config, exchange, wait_until};
use olivine_net::{
    AcceptMode, ConnectionId, Counters, Engine, Handler, Listen, ListenAddress, Origin, Shard,
    http::{self, Http, Limits, Request, Responder, Service},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};

type Peer = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// A certificate for `name` that signs itself, and its key.
fn certificate(name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
    (pair.cert.der().clone(), key.into())
}

fn trusting(certificate: &CertificateDer<'static>) -> rustls::RootCertStore {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    roots
}

/// Settings of a server that asks for a certificate, of a client that has one, and that.
fn both_sides() -> (
    Arc<rustls::ServerConfig>,
    rustls::ClientConfig,
    CertificateDer<'static>,
) {
    let (ours, our_key) = certificate("localhost");
    let (theirs, their_key) = certificate("client");
    let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(trusting(&theirs)))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let mut server = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![ours.clone()], our_key)
        .unwrap();
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut client = rustls::ClientConfig::builder()
        .with_root_certificates(trusting(&ours))
        .with_client_auth_cert(vec![theirs.clone()], their_key)
        .unwrap();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (Arc::new(server), client, theirs)
}

fn connect(address: SocketAddr, settings: &rustls::ClientConfig) -> Peer {
    let name = ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(Arc::new(settings.clone()), name).unwrap();
    rustls::StreamOwned::new(session, client(address))
}

/// Answers with what it sees of the session, or with a file.
#[derive(Debug)]
struct Mirror {
    file: Arc<std::fs::File>,
}

const LARGE: usize = 3_000_000;

impl Service for Mirror {
    type Message = ();

    fn on_request(
        &mut self,
        http: &mut Http<'_, ()>,
        request: &Request<'_>,
        responder: Responder<'_>,
    ) {
        if request.path() == "/file" {
            let end = LARGE as u64;
            responder
                .send_file(http, 200, &[], &self.file, 0..end)
                .unwrap();
            return;
        }
        let text = match http.shard().tls(responder.connection()) {
            None => "plain".to_owned(),
            Some(session) => format!(
                "{:?} {:?} {}",
                session.server_name(),
                session.alpn_protocol().map(String::from_utf8_lossy),
                session
                    .peer_certificates()
                    .map_or(0, |chain| chain[0].len()),
            ),
        };
        responder.send(http, 200, &[], text.as_bytes()).unwrap();
    }
}

fn file() -> Arc<std::fs::File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![b'f'; LARGE]).unwrap();
    Arc::new(file)
}

fn body(mut peer: impl Read + Write, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    peer.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn tls_session_shows_name_protocol_and_certificates() {
    let (server, with_certificate, theirs) = both_sides();
    for backend in backends() {
        let settings = config(backend)
            .tls(Some(Arc::clone(&server)))
            .listen(Listen::tcp("127.0.0.1:0".parse().unwrap()).plain());
        let kept = file();
        let mirror = move |_| Mirror {
            file: Arc::clone(&kept),
        };
        let engine = http::serve(settings, Limits::default(), mirror).unwrap();
        let [ListenAddress::Tcp(sealed), ListenAddress::Tcp(plain)] = engine.addresses() else {
            panic!("{:?}", engine.addresses());
        };
        let expected = format!("Some(\"localhost\") Some(\"http/1.1\") {}", theirs.len());
        assert_eq!(
            body(connect(*sealed, &with_certificate), "/"),
            expected,
            "{backend:?}"
        );
        assert_eq!(body(client(*plain), "/"), "plain", "{backend:?}");
        // A file goes through the session.
        let mut peer = connect(*sealed, &with_certificate);
        assert!(body(&mut peer, "/file") == "f".repeat(LARGE), "{backend:?}");
        assert!(
            body(client(*plain), "/file") == "f".repeat(LARGE),
            "{backend:?}"
        );
    }
}

/// Echoes; a line that starts with `>` moves the connection to the other shard.
struct Mover;

impl Handler for Mover {
    type Message = ();

    fn on_open(&mut self, shard: &mut Shard<()>, id: ConnectionId, origin: Origin) {
        if let Origin::HandedOver { token } = origin {
            let _ = shard.offer(id, format!("on {} by {token}\n", shard.index()).as_bytes());
        }
    }

    fn on_data(&mut self, shard: &mut Shard<()>, id: ConnectionId, data: &[u8]) -> usize {
        if data.first() == Some(&b'>') {
            let target = 1 - shard.index();
            shard.hand_over(id, target, 9).unwrap();
            return 1;
        }
        shard.offer(id, data).map_or(0, |()| data.len())
    }
}

#[test]
fn tls_session_moves_with_its_connection() {
    let (server, trusting, _) = both_sides();
    for backend in backends() {
        let settings = config(backend)
            .threads(2)
            .accept(AcceptMode::HandOver)
            .tls(Some(Arc::clone(&server)));
        let engine = Engine::start(settings, |_| Mover).unwrap();
        let mut peer = connect(engine.local_address().unwrap(), &trusting);
        let mut echo = [0; 4];
        peer.write_all(b"ping").unwrap();
        peer.read_exact(&mut echo).unwrap();
        for _ in 0..10 {
            peer.write_all(b">rest").unwrap();
            let mut text = [0; 14];
            peer.read_exact(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(
                text == "on 0 by 9\nrest" || text == "on 1 by 9\nrest",
                "{text:?}"
            );
        }
        drop(peer);
        wait_until("it is gone", || Counters::sum(&engine.counters()).open == 0);
        assert_eq!(Counters::sum(&engine.counters()).adopted, 10, "{backend:?}");
        assert_eq!(engine.stop(Duration::from_secs(60)).cut, 0);
    }
}

#[test]
fn adopted_socket_of_a_tls_engine_is_served_with_tls_only() {
    let (server, trusting, _) = both_sides();
    for backend in backends() {
        let settings = config(backend).tls(Some(Arc::clone(&server)));
        let engine = Engine::start(settings, |_| Mover).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = connect(listener.local_addr().unwrap(), &trusting);
        engine
            .handle()
            .adopt(0, listener.accept().unwrap().0, 1)
            .unwrap();
        let mut echo = [0; 4];
        peer.write_all(b"ping").unwrap();
        peer.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"ping", "{backend:?}");
        let mut clear = client(listener.local_addr().unwrap());
        engine
            .handle()
            .adopt(0, listener.accept().unwrap().0, 2)
            .unwrap();
        let alert = exchange(&mut clear, b"ping ping", 5);
        assert_eq!(alert[0], 21, "{backend:?}: not a TLS alert");
    }
}
