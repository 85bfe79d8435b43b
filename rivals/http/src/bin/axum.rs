//! axum with one route, one thread.

use axum::{Router, routing::get};
use olivine_rivals_http::{BODY, address};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            use axum::serve::ListenerExt;
            let listener = tokio::net::TcpListener::bind(address()).await?;
            let listener = listener.tap_io(|stream| {
                // Refused only on a connection that is gone.
                let _ = stream.set_nodelay(true);
            });
            let app = Router::new().route("/plaintext", get(|| async { BODY }));
            axum::serve(listener, app).await?;
            Ok(())
        })
}
