//! The report page in a real browser: nothing is cut off, light and dark differ, it prints.
//!
//! A page is made of the recorded results and opened without a network at the width of a desk and of a phone,
//! light and dark. A script that only this check adds measures every text of every plot.

use crate::cargo::{at_most, cargo, root, target};
use crate::child;
use crate::clients;
use crate::packages::Missing;
use crate::report::Step;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);
/// Window widths in pixels: a desk, and the narrowest that the browser opens.
const WIDTHS: [u32; 2] = [1280, 500];
/// A printed report takes at least this many bytes; an empty page takes less.
const PRINTED_MIN: u64 = 20_000;
/// Writes into the page what does not fit.
const SCRIPT: &str = "<script>addEventListener('load',()=>{const bad=[];let seen=0;\
for(const svg of document.querySelectorAll('svg.plot')){const paper=svg.getBoundingClientRect();\
for(const text of svg.querySelectorAll('text')){seen++;const at=text.getBoundingClientRect();\
if(at.left<paper.left-1||at.right>paper.right+1||at.top<paper.top-1||at.bottom>paper.bottom+1)bad.push(text.textContent)}}\
if(document.documentElement.scrollWidth>innerWidth+1)bad.push('the page itself');\
document.body.dataset.seen=seen;document.body.dataset.bad=bad.join(', ');\
document.body.dataset.paper=getComputedStyle(document.body).backgroundColor})</script></body>";

/// Makes the page, opens it, prints it.
pub(crate) fn run() -> Result<Step> {
    let Some(browser) = clients::browser(Missing::Install) else {
        let why = "no chromium, and apt-get cannot install it; install the package chromium";
        println!("skipped: {why}");
        return Ok(Step::skipped("browser", why));
    };
    let folder = target().join("browser");
    fs::create_dir_all(&folder)?;
    let page = folder.join("report.html");
    child::output(
        cargo()
            .args([
                "run",
                "--quiet",
                "--package",
                "olivine-cli",
                "--",
                "bench",
                "report",
            ])
            .args(recorded()?)
            .arg("--out")
            .arg(&page),
    )?;
    let html = fs::read_to_string(&page)?;
    let checked = folder.join("checked.html");
    fs::write(&checked, html.replace("</body>", SCRIPT))?;
    let mut step = Step::new("browser", "checks");
    let mut papers = BTreeSet::new();
    let mut texts = 0;
    for width in WIDTHS {
        // Blink's numbers for the reader's choice of colours.
        for (scheme, name) in [(1, "light"), (0, "dark")] {
            let dom = open(
                &browser,
                &folder,
                &checked,
                &[
                    format!("--window-size={width},2000"),
                    format!("--blink-settings=preferredColorScheme={scheme}"),
                    "--dump-dom".to_owned(),
                ],
            )?;
            let seen: u64 = attribute(&dom, "data-seen")
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            let bad = attribute(&dom, "data-bad").unwrap_or("the script did not run");
            if seen == 0 || !bad.is_empty() {
                println!("{width} pixels, {name}: {seen} texts, cut off: {bad}");
            }
            step.count(seen > 0 && bad.is_empty());
            papers.extend(attribute(&dom, "data-paper").map(str::to_owned));
            texts += seen;
        }
    }
    if papers.len() != 2 {
        println!("light and dark have the colours {papers:?}");
    }
    step.count(papers.len() == 2);
    let printed = folder.join("report.pdf");
    let to = format!("--print-to-pdf={}", printed.display());
    open(
        &browser,
        &folder,
        &page,
        &["--no-pdf-header-footer".to_owned(), to],
    )?;
    step.count(fs::metadata(&printed).is_ok_and(|file| file.len() > PRINTED_MIN));
    step.note = format!("{texts} texts measured");
    Ok(step)
}

/// Every recorded result.
fn recorded() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for machine in fs::read_dir(root().join("results"))? {
        let machine = machine?.path();
        if machine.is_dir() {
            for file in fs::read_dir(machine)? {
                let file = file?.path();
                if file.extension().is_some_and(|ending| ending == "json") {
                    files.push(file);
                }
            }
        }
    }
    if files.is_empty() {
        bail!("no result is recorded in results/");
    }
    files.sort();
    Ok(files)
}

/// Opens `page` with `arguments`; what the browser prints.
fn open(browser: &Path, folder: &Path, page: &Path, arguments: &[String]) -> Result<String> {
    let mut command = Command::new(browser);
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .args(arguments)
        .arg(format!("file://{}", page.display()));
    let (outcome, text) = child::capture(&mut command, at_most(LIMIT))?;
    if !outcome.success() {
        bail!("{}: {}", browser.display(), outcome.words());
    }
    Ok(text)
}

fn attribute<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = dom.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_results_are_recorded() {
        let dom = "<body data-seen=\"12\" data-bad=\"\" data-paper=\"rgb(1, 2, 3)\">";
        assert_eq!(attribute(dom, "data-seen"), Some("12"));
        assert_eq!(attribute(dom, "data-bad"), Some(""));
        assert_eq!(attribute(dom, "data-none"), None);
        assert!(recorded().is_ok_and(|files| !files.is_empty()));
    }
}
