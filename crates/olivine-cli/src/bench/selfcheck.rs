//! `olivine bench selfcheck`: whether the benchmark detects what it must.

use super::{Bench, files};
use crate::args::{Common, SelfcheckArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{folded, json_line, print, table};
use olivine_bench::selfcheck;

/// Runs the command.
pub(super) fn run(args: &SelfcheckArgs, common: Common) -> Outcome {
    let save = &args.method.save;
    files::only(save, &["json"], "findings")?;
    let bench = Bench::new("selfcheck", &args.method)?;
    let findings = bench.measure(selfcheck::run)?;
    // A check without a result is neither right nor wrong.
    bench.stop.cut_short()?;
    let ok = findings.iter().all(|finding| finding.ok);
    let json = json_line(&serde_json::json!({
        "ok": ok,
        "checks": findings,
        "machine": bench.machine,
    }))?;
    // If a file cannot be written, the result is still printed.
    let saved: Outcome = save
        .iter()
        .try_for_each(|path| files::store(path, json.as_bytes()));
    if common.json {
        print(&json)?;
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
    saved?;
    if ok { Ok(()) } else { Err(Failure::BadResult) }
}
