//! actix-web with one route, one worker.

use actix_web::{App, HttpResponse, HttpServer, web};
use olivine_rivals_http::{BODY, address};

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body(BODY)
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    HttpServer::new(|| App::new().route("/plaintext", web::get().to(hello)))
        .workers(1)
        .bind(address())?
        .run()
        .await
}
