//! Machines side by side as a folder of pages: the ranking, a page for each machine, badges.

use super::TooLarge;
use super::html::{STYLE, html};
use super::svg::{escape, width_of};
use crate::view::{MachineFiles, Side, side_by_side, view};
use std::fmt::Write as _;

/// What readers should know about who measures here.
const BIASES: &str = "\
<section id=\"biases\">\n<h2>Our biases</h2>\n<ul>\n\
<li>We wrote Olivine and this benchmark. Its situations are those that Olivine was made for: small \
messages, few participants, CPUs that may spin.</li>\n\
<li>We know our settings better than those of others. A library that is slower here than in its \
authors' benchmark is our mistake: send the better entry.</li>\n\
<li>Methods with less (one slot, threads only, no notice of a death) can be faster; a table says \
what they lack, not what they have more.</li>\n\
<li>Memory, start-up, tools, languages and years of use are not measured.</li>\n\
<li>Most machines here are virtual and have two CPUs.</li>\n\
</ul>\n</section>\n";

/// Every file of the site: its path in the folder, and its content.
///
/// # Errors
///
/// [`TooLarge`] if the page of a machine would be too large.
pub fn site(places: &[MachineFiles]) -> Result<Vec<(String, String)>, TooLarge> {
    let sides = side_by_side(places);
    let mut files = vec![("index.html".to_owned(), index(places, &sides))];
    for place in places {
        let page = html(&view(&place.sources))?;
        files.push((format!("{}.html", place.name), page));
    }
    for (number, place) in places.iter().enumerate() {
        for method in sides.first().into_iter().flat_map(|side| &side.methods) {
            let Some(Some(one)) = method.standings.get(number) else {
                continue;
            };
            let name = &method.name;
            let (rank, count, figure) = (one.rank, one.count, &one.cell.text);
            let said = format!("place {rank} of {count}, {figure} floor");
            let path = format!("badges/{}/{name}", place.name);
            files.push((format!("{path}.svg"), badge(name, &said, method.is_ours)));
            let shield = serde_json::json!({
                "schemaVersion": 1,
                "label": format!("{name} round trip"),
                "message": said,
                "color": "5b7f0a",
            });
            files.push((format!("{path}.json"), format!("{shield}\n")));
        }
    }
    Ok(files)
}

fn index(places: &[MachineFiles], sides: &[Side]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Olivine bench: machines</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <main>\n<header>\n<h1>Messages between programs, on {} machine{}</h1>\n\
         <p class=\"lead\">A cell is the best row of a method on that machine. Methods are in the \
         order of their ranks.</p>\n</header>\n<nav>",
        places.len(),
        if places.len() == 1 { "" } else { "s" },
    );
    for place in places {
        let name = escape(&place.name);
        let _ = write!(out, "<a href=\"{name}.html\">{name}</a> ");
    }
    out.push_str("<a href=\"#biases\">Our biases</a></nav>\n");
    for side in sides {
        let heading = escape(side.heading);
        let _ = write!(
            out,
            "<section>\n<h2>{heading}</h2>\n<div class=\"scroll\"><table>\n<thead><tr>\
                 <th class=t scope=\"col\">method</th>"
        );
        for place in places {
            let name = escape(&place.name);
            let _ = write!(out, "<th scope=\"col\">{name}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for method in &side.methods {
            let class = if method.is_ours {
                " class=\"ours\""
            } else {
                ""
            };
            let name = escape(&method.name);
            let _ = write!(out, "<tr{class}><td class=t>{name}");
            for standing in &method.standings {
                let text = standing.as_ref().map_or_else(String::new, |one| {
                    format!("{} <small>{}.</small>", escape(&one.cell.text), one.rank)
                });
                let _ = write!(out, "<td>{text}");
            }
            out.push('\n');
        }
        out.push_str("</tbody>\n</table></div>\n</section>\n");
    }
    out.push_str(BIASES);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// A label and what it says, as sites show them in a row.
fn badge(label: &str, said: &str, is_ours: bool) -> String {
    let wide = |text: &str| width_of(text, 11.0) + 12.0;
    let (left, right) = (wide(label), wide(said));
    let colour = if is_ours { "#5b7f0a" } else { "#1f6fb5" };
    let (label, said) = (escape(label), escape(said));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0}\" height=\"20\" role=\"img\" \
         aria-label=\"{label}: {said}\" font-family=\"DejaVu Sans, sans-serif\" \
         font-size=\"11\">\n<rect width=\"{left:.0}\" height=\"20\" fill=\"#444\"/>\n\
         <rect x=\"{left:.0}\" width=\"{right:.0}\" height=\"20\" fill=\"{colour}\"/>\n\
         <text x=\"6\" y=\"14\" fill=\"#fff\">{label}</text>\n\
         <text x=\"{1:.0}\" y=\"14\" fill=\"#fff\">{said}</text>\n</svg>\n",
        left + right,
        left + 6.0
    )
}
