//! `olivine serve`: channels in a browser.
//!
//! `page` writes the one document, which draws itself from the values of `history` and of the
//! looks. The server is that of `web`.

pub(crate) mod history;
pub(crate) mod page;

pub(crate) use page::sign_in;

use crate::admin::Looks;
use crate::args::{Common, ServeArgs, refuse_given};
use crate::failure::{Failure, Outcome};
use crate::output::print_json;
use crate::replace::{Readers, Target};
use crate::stop::Stop;
use crate::watch::{TIME_MAX, Watch, check_interval};
use crate::web::access::Access;
use crate::web::{self, Desk, Pages};

/// The options of the server, which a snapshot does not have.
const SERVER: [&str; 4] = ["listen", "token", "token_file", "host"];

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, common: Common) -> Outcome {
    check_interval(args.interval)?;
    if args.snapshot.is_some() {
        refuse_given(&SERVER, "a snapshot")?;
    }
    let looks = Looks::of(args.snapshot.is_some());
    let watch = Watch::new(&args.uri, args.dir.as_deref(), looks)?;
    let Some(path) = &args.snapshot else {
        let access = Access::new(args.listen, &args.access)?;
        let desk = Desk::new(watch, args.interval);
        return web::run(args.listen, access, Pages::All, desk, common.json);
    };
    if args.seconds > TIME_MAX {
        return Err(Failure::usage(format!(
            "--seconds {:?} is too long: give {TIME_MAX:?} or less",
            args.seconds
        )));
    }
    let target = Target::new(path, "'olivine top --json' prints what is seen")?;
    let stop = Stop::install()?;
    let mut desk = Desk::new(watch, args.interval);
    let page = desk.snapshot(&stop, args.seconds)?;
    target.replace(page.as_bytes(), Readers::Mask)?;
    if common.json {
        print_json(&serde_json::json!({
            "file": path.display().to_string(), "page_bytes": page.len(),
        }))?;
    }
    desk.check_asked()
}
