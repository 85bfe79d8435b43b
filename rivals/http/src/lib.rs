//! What every server here answers, and the one argument each takes.

/// The body of every answer.
pub const BODY: &str = "Hello, World!";

/// The address to listen on: the only argument.
pub fn address() -> String {
    match std::env::args().nth(1) {
        Some(address) => address,
        None => {
            eprintln!("usage: PROGRAM ADDRESS:PORT");
            std::process::exit(2);
        }
    }
}
