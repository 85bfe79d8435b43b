//! Pages in a browser: no text is cut off, nothing is fetched, the themes differ.
//!
//! `OLIVINE_BROWSER` names a folder for pictures; without it the tests are left out. The report is
//! made of the recorded results and opened without a network, as wide as a desk and as a phone,
//! light and dark. A script that only its test adds measures every text of every plot. `serve` is
//! the live page, driven by `devtools`.

mod common;
#[path = "browser/devtools.rs"]
mod devtools;
#[path = "browser/serve.rs"]
mod serve;
#[path = "common/web.rs"]
mod web;

use common::{TestFolder, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
if(at.left<paper.left-1||at.right>paper.right+1||at.top<paper.top-1\
||at.bottom>paper.bottom+1)bad.push(text.textContent)}}\
if(document.documentElement.scrollWidth>innerWidth+1)bad.push('the page itself');\
const told=top.document.body.dataset;told.seen=seen;told.bad=bad.join(', ');\
told.fetched=performance.getEntriesByType('resource').map(one=>one.name).join(', ');\
told.paper=getComputedStyle(document.body).backgroundColor})</script></body>";

#[test]
fn the_report_fits_prints_and_fetches_nothing() {
    let Some((browser, folder)) = browser_and_folder("the report") else {
        return;
    };
    let page = folder.join("report.html");
    let mut make = TestFolder::new().olivine(&["bench", "report"]);
    let made = make
        .args(recorded())
        .arg("--out")
        .arg(&page)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", common::said(&made));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.len() < PAGE_MAX, "{} bytes", html.len());
    let mut papers = BTreeSet::new();
    for width in WIDTHS {
        let checked = folder.join(format!("checked-{width}.html"));
        fs::write(&checked, framed(&html.replace("</body>", SCRIPT), width)).unwrap();
        // Blink's numbers for the reader's choice of colours.
        for (scheme, name) in [(1, "light"), (0, "dark")] {
            let look = |what: String| {
                let size = format!("--window-size={},{HEIGHT}", width.max(WINDOW_MIN));
                let colours = format!("--blink-settings=preferredColorScheme={scheme}");
                open(browser, &folder, &checked, &[size, colours, what])
            };
            let dom = look("--dump-dom".to_owned());
            let told = |name: &str| attribute(&dom, name).unwrap_or("the script did not run");
            let place = format!("{width} pixels, {name}");
            assert!(
                told("data-seen").parse::<u64>().is_ok_and(|seen| seen > 0),
                "{place}: no text"
            );
            assert_eq!(told("data-bad"), "", "{place}: cut off");
            assert_eq!(told("data-fetched"), "", "{place}: fetched");
            let complaint = dom.lines().find(|line| line.contains(":CONSOLE"));
            assert_eq!(complaint, None, "{place}");
            papers.insert(told("data-paper").to_owned());
            let picture = folder.join(format!("{width}-{name}.png"));
            look(format!("--screenshot={}", picture.display()));
        }
    }
    assert_eq!(
        papers.len(),
        2,
        "light and dark have the colours {papers:?}"
    );
    let printed = folder.join("report.pdf");
    let to = format!("--print-to-pdf={}", printed.display());
    open(
        browser,
        &folder,
        &page,
        &["--no-pdf-header-footer".to_owned(), to],
    );
    assert!(
        fs::metadata(&printed).unwrap().len() > PRINTED_MIN,
        "nothing was printed"
    );
}

/// The browser of this machine and the folder for pictures; `None`, with a line about `what`, where
/// one of them is missing.
fn browser_and_folder(what: &str) -> Option<(&'static str, PathBuf)> {
    let Some(folder) = std::env::var_os("OLIVINE_BROWSER").map(PathBuf::from) else {
        skip(&format!(
            "{what} in a browser: OLIVINE_BROWSER is not set to a folder for pictures"
        ));
        return None;
    };
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = names.into_iter().find(runs) else {
        skip(&format!("{what} in a browser: chromium is not installed"));
        return None;
    };
    fs::create_dir_all(&folder).unwrap();
    Some((browser, folder))
}

/// The page itself, or in a frame where no window is as narrow as `width`.
fn framed(html: &str, width: u32) -> String {
    if width >= WINDOW_MIN {
        return html.to_owned();
    }
    let inner = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><body style=\"margin:0\">\
         <iframe srcdoc=\"{inner}\" style=\"border:0;width:{width}px;height:{HEIGHT}px\">\
         </iframe></body>"
    )
}

/// Every recorded result.
fn recorded() -> Vec<PathBuf> {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries(results).flat_map(|machine| entries(machine.path()));
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    files
}

/// Opens `page` with `words`; what the browser prints.
fn open(browser: &str, folder: &Path, page: &Path, words: &[String]) -> String {
    let mut command = Command::new("timeout");
    command.args([
        "300",
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
    ]);
    command.args([
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--enable-logging=stderr",
    ]);
    // Whatever is asked for outside of the page does not exist.
    command.arg("--host-resolver-rules=MAP * ~NOTFOUND");
    command.arg(format!(
        "--user-data-dir={}",
        folder.join("profile").display()
    ));
    let output = command
        .args(words)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

fn attribute<'a>(dom: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = dom.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[test]
fn attributes_are_found_and_results_are_recorded() {
    let dom = "<body data-seen=\"12\" data-bad=\"\">";
    assert_eq!(attribute(dom, "data-seen"), Some("12"));
    assert_eq!(attribute(dom, "data-bad"), Some(""));
    assert_eq!(attribute(dom, "data-none"), None);
    assert!(!recorded().is_empty());
    let (desk, phone) = (
        framed("<p title=\"a&b\">", WIDTHS[0]),
        framed("<p title=\"a&b\">", WIDTHS[1]),
    );
    assert_eq!(desk, "<p title=\"a&b\">");
    assert!(
        phone.contains("srcdoc=\"<p title=&quot;a&amp;b&quot;>\" style=\"border:0;width:390px")
    );
}
