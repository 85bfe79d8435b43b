//! Scalable vector graphics, written by hand: shapes and text with classes, coloured by the style
//! sheet.
//!
//! A drawing has no colours, so it fits light and dark pages and paper.

use std::fmt::Write as _;

/// The colours of pages, as variables of a style sheet: the first block is the light ones.
const COLOURS: &str = include_str!("colours.css");
/// The classes of drawings, which take their colours from those variables.
const CLASSES: &str = include_str!("plot.css");
/// Height of a plot's text, as `plot.css` has it.
pub(super) const TEXT: f64 = 12.0;

/// How a text is aligned to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under construction.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Svg {
    /// An empty drawing; `title` is what a screen reader says.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Self {
            width,
            height,
            title: escape(title),
            body: String::new(),
        }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut steps = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let step = if index == 0 { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(steps, "{step}{x:.1} {y:.1}");
        }
        self.add(format_args!("<path class=\"{class}\" d=\"{steps}\"/>"));
    }

    /// A rectangle with density `share` (0 to 1).
    pub(super) fn cell(&mut self, at: (f64, f64), size: (f64, f64), share: f64, note: &str) {
        let ((x, y), (width, height)) = (at, size);
        self.add(format_args!(
            "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" fill-opacity=\"{share:.2}\">{}</rect>",
            titled(note)
        ));
    }

    /// A mark of shape `shape` (they repeat after four): circle, square, triangle, diamond.
    pub(super) fn mark(&mut self, class: &str, shape: usize, at: (f64, f64), note: &str) {
        let (x, y) = at;
        let note = titled(note);
        match shape % 4 {
            0 => self.add(format_args!(
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">{note}</circle>"
            )),
            1 => self.add(format_args!(
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"7\" \
                 height=\"7\">{note}</rect>",
                x - 3.5,
                y - 3.5
            )),
            2 => self.add(format_args!(
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}l4.6 8h-9.2z\">{note}</path>",
                y - 4.8
            )),
            _ => self.add(format_args!(
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}l4.8 4.8l-4.8 4.8l-4.8 \
                 -4.8z\">{note}</path>",
                y - 4.8
            )),
        }
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), text: &str) {
        let (x, y) = at;
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>",
            escape(text)
        ));
    }

    /// Complete text from `at` on: compressed if it is wider than `room`.
    pub(super) fn text_within(&mut self, class: &str, at: (f64, f64), text: &str, room: f64) {
        if width_of(text, TEXT) <= room {
            return self.text(class, Anchor::Start, at, text);
        }
        let ((x, y), text) = (at, escape(text));
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{room:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{text}</text>"
        ));
    }

    /// Text that reads upwards, its middle at `at`.
    pub(super) fn upright(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = at;
        self.add(format_args!(
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(text)
        ));
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{shape}");
    }

    /// Sets the height of the drawing: it is known at the end.
    pub(super) fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    /// The drawing as part of a page that has the style sheet.
    pub(super) fn inline(&self) -> String {
        self.written("", "")
    }

    /// The drawing as a separate file, in light colours.
    ///
    /// Only browsers support style-sheet variables; other programs draw black. So the file has
    /// colours in place of variables.
    pub(super) fn standalone(&self) -> String {
        let style = format!(
            "<style>{}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            light_classes()
        );
        self.written(" xmlns=\"http://www.w3.org/2000/svg\"", &style)
    }

    fn written(&self, space: &str, style: &str) -> String {
        let (width, height, title) = (self.width, self.height, &self.title);
        format!(
            "<svg class=\"plot\"{space} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\">\n{style}{}</svg>\n",
            self.body
        )
    }
}

/// About how wide a text of this height is drawn: it cannot be measured here.
#[allow(clippy::cast_precision_loss, reason = "a few letters")]
pub(super) fn width_of(text: &str, height: f64) -> f64 {
    // Width of a letter to its height, on average.
    const LETTER: f64 = 0.6;
    text.chars().count() as f64 * height * LETTER
}

/// Text escaped for elements and attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter => safe.push(letter),
        }
    }
    safe
}

fn titled(note: &str) -> String {
    if note.is_empty() {
        return String::new();
    }
    format!("<title>{}</title>", escape(note))
}

/// The classes of drawings with light colours in the place of variables.
fn light_classes() -> String {
    let block = COLOURS.split(['{', '}']).nth(1).unwrap_or_default();
    let variables = block.split(';').filter_map(|pair| pair.split_once(':'));
    variables.fold(CLASSES.to_owned(), |classes, (name, colour)| {
        classes.replace(&format!("var({})", name.trim()), colour.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_is_complete_and_its_text_escaped() {
        let mut svg = Svg::new(100.0, 50.0, "a \"b\" <c>");
        svg.path("s0", &[(0.0, 1.0), (2.0, 3.5)]);
        for shape in 0..5 {
            svg.mark("s1", shape, (10.0, 10.0), "n < 5 & more");
        }
        svg.text("label", Anchor::End, (1.0, 2.0), "x<y");
        let text = svg.standalone();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\""));
        assert!(text.contains("<title>n &lt; 5 &amp; more</title>") && text.contains("x&lt;y"));
        assert!(text.contains("d=\"M0.0 1.0L2.0 3.5\""));
        assert!(!svg.inline().contains("<style>"));
    }

    #[test]
    fn drawing_file_has_colours_not_variables() {
        let text = Svg::new(1.0, 1.0, "").standalone();
        assert!(!text.contains("var(") && !text.contains("--"), "{text}");
        assert!(text.contains(".plot .paper{fill:#fff}"), "{text}");
        assert!(text.contains(".plot .f0{fill:#5b7f0a}"), "{text}");
        let used = CLASSES.matches("var(--").count();
        assert!(used > 20 && text.matches('#').count() == used);
    }
}
