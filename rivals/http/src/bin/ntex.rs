//! ntex with one route, one worker.

use ntex::web::{self, App, HttpResponse};
use olivine_rivals_http::{BODY, address};

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body(BODY)
}

#[ntex::main]
async fn main() -> std::io::Result<()> {
    web::server(async || App::new().route("/plaintext", web::get().to(hello)))
        .workers(1)
        .bind(address())?
        .run()
        .await
}
