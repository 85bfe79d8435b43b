//! may_minihttp, one worker.

use std::io;

use may_minihttp::{HttpServer, HttpService, Request, Response};
use olivine_rivals_http::{BODY, address};

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(
        &mut self,
        request: Request<'_, '_, '_>,
        response: &mut Response<'_>,
    ) -> io::Result<()> {
        match request.path() {
            "/plaintext" => {
                response.header("Content-Type: text/plain");
                response.body(BODY);
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    may::config().set_workers(1).set_pool_capacity(1000);
    let server = HttpServer(Hello).start(address())?;
    let _ = server.join();
    Ok(())
}
