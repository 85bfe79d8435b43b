//! `olivine bench selfcheck`: whether the suite notices what it must.

use super::Bench;
use crate::args::{Common, SelfcheckArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, print, print_json, table};
use olivine_bench::{method, selfcheck};

/// What makes the second process know the methods of the self-check.
const FLAG: &str = "--self-check";

/// Runs the command.
pub(super) fn run(args: &SelfcheckArgs, common: Common) -> Outcome {
    let mut bench = Bench::new("selfcheck", &args.method)?;
    bench.setup.methods = method::SELF_CHECK;
    bench.setup.arguments.push(FLAG.to_owned());
    let findings = bench.measure(selfcheck::run)?;
    // What was not looked at is neither right nor wrong.
    bench.stop.cut_short()?;
    let ok = findings.iter().all(|finding| finding.ok);
    if common.json {
        print_json(&serde_json::json!({
            "ok": ok,
            "checks": findings,
            "machine": bench.machine,
        }))?;
    } else {
        let rows = findings.iter().map(|finding| {
            let verdict = if finding.ok { "ok" } else { "FAILED" };
            vec![
                finding.check.to_owned(),
                verdict.to_owned(),
                finding.what.clone(),
            ]
        });
        let mut out = table(&["CHECK", "RESULT", "WHAT"], &[], rows.collect());
        out.push('\n');
        out.push_str(&bench.machine.text());
        print(&folded(&out))?;
    }
    if ok { Ok(()) } else { Err(Failure::BadResult) }
}
