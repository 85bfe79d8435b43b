//! hyper's own connection loop, pipelined flush on, one thread.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use olivine_rivals_http::{BODY, address};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer = Response::new(Full::new(Bytes::from_static(BODY.as_bytes())));
    let kind = header::HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(answer)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = address().parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(async move {
                let served = http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(hello));
                // A connection that breaks ends; the others go on.
                let _ = served.await;
            });
        }
    })
}
