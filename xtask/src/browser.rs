//! The report page in a real browser: nothing is cut off, nothing is fetched, light and dark differ, it prints.
//!
//! A page is made of the recorded results and opened without a network at the width of a desk and of a phone,
//! light and dark. A script that only this check adds measures every text of every plot. Pictures of each are left
//! for people to look at.

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
/// Widths in pixels: a desk, and a phone.
const WIDTHS: [u32; 2] = [1280, 390];
/// The narrowest window that the browser opens: what is narrower is a frame in it.
const WINDOW_MIN: u32 = 500;
/// Height of the window, in pixels: what a picture shows.
const HEIGHT: u32 = 4000;
/// The largest page that may be sent around, in bytes.
const PAGE_MAX: usize = 2_000_000;
/// A printed report takes at least this many bytes; an empty page takes less.
const PRINTED_MIN: u64 = 20_000;
/// Writes into the outermost page what does not fit and what was fetched.
const SCRIPT: &str = "<script>addEventListener('load',()=>{const bad=[];let seen=0;\
for(const svg of document.querySelectorAll('svg.plot')){const paper=svg.getBoundingClientRect();\
for(const text of svg.querySelectorAll('text')){seen++;const at=text.getBoundingClientRect();\
if(at.left<paper.left-1||at.right>paper.right+1||at.top<paper.top-1||at.bottom>paper.bottom+1)bad.push(text.textContent)}}\
if(document.documentElement.scrollWidth>innerWidth+1)bad.push('the page itself');\
const told=top.document.body.dataset;told.seen=seen;told.bad=bad.join(', ');\
told.fetched=performance.getEntriesByType('resource').map(one=>one.name).join(', ');\
told.paper=getComputedStyle(document.body).backgroundColor})</script></body>";

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
    let mut step = Step::new("browser", "checks");
    let mut judge = |holds: bool, what: &str| {
        if !holds {
            println!("{what}");
        }
        step.count(holds);
    };
    judge(
        html.len() < PAGE_MAX,
        &format!("the page takes {} bytes, more than {PAGE_MAX}", html.len()),
    );
    let mut papers = BTreeSet::new();
    let mut texts = 0;
    for width in WIDTHS {
        let checked = folder.join(format!("checked-{width}.html"));
        fs::write(&checked, framed(&html.replace("</body>", SCRIPT), width))?;
        // Blink's numbers for the reader's choice of colours.
        for (scheme, name) in [(1, "light"), (0, "dark")] {
            let window = [
                format!("--window-size={},{HEIGHT}", width.max(WINDOW_MIN)),
                format!("--blink-settings=preferredColorScheme={scheme}"),
            ];
            let look = |what: String| {
                let words = [&window[..], &[what]].concat();
                open(&browser, &folder, &checked, &words)
            };
            let dom = look("--dump-dom".to_owned())?;
            let told = |name: &str| attribute(&dom, name).unwrap_or("the script did not run");
            let seen: u64 = told("data-seen").parse().unwrap_or(0);
            let place = format!("{width} pixels, {name}");
            judge(seen > 0, &format!("{place}: no text in any plot"));
            for (what, name) in [("cut off", "data-bad"), ("fetched", "data-fetched")] {
                let found = told(name);
                judge(found.is_empty(), &format!("{place}: {what}: {found}"));
            }
            let complaint = dom.lines().find(|line| line.contains(":CONSOLE"));
            judge(complaint.is_none(), complaint.unwrap_or_default());
            papers.insert(told("data-paper").to_owned());
            texts += seen;
            let picture = folder.join(format!("{width}-{name}.png"));
            look(format!("--screenshot={}", picture.display()))?;
        }
    }
    judge(
        papers.len() == 2,
        &format!("light and dark have the colours {papers:?}"),
    );
    let printed = folder.join("report.pdf");
    let to = format!("--print-to-pdf={}", printed.display());
    open(
        &browser,
        &folder,
        &page,
        &["--no-pdf-header-footer".to_owned(), to],
    )?;
    judge(
        fs::metadata(&printed).is_ok_and(|file| file.len() > PRINTED_MIN),
        "nothing was printed",
    );
    step.note = format!("{texts} texts measured; pictures in {}", folder.display());
    Ok(step)
}

/// The page itself, or in a frame where no window is as narrow as `width`.
fn framed(html: &str, width: u32) -> String {
    if width >= WINDOW_MIN {
        return html.to_owned();
    }
    let inner = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><body style=\"margin:0\">\
         <iframe srcdoc=\"{inner}\" style=\"border:0;width:{width}px;height:{HEIGHT}px\"></iframe></body>"
    )
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
            "--hide-scrollbars",
            "--enable-logging=stderr",
            // Whatever is asked for outside of the page does not exist.
            "--host-resolver-rules=MAP * ~NOTFOUND",
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

    #[test]
    fn a_page_for_a_phone_stands_in_a_frame_unchanged() {
        let html = "<p title=\"a&b\">";
        assert_eq!(framed(html, WIDTHS[0]), html);
        let phone = framed(html, WIDTHS[1]);
        assert!(
            phone.contains("srcdoc=\"<p title=&quot;a&amp;b&quot;>\" style=\"border:0;width:390px"),
            "{phone}"
        );
    }
}
