//! The four kinds of plot: lines, bars, dots with ranges, heat maps. Each point says its value, unit and n.

#[cfg(test)]
mod tests;

use super::axis::{Axis, Scale};
use super::svg::{Anchor, Svg, TEXT, fitted, width_of};

/// Width of every plot, in units that a page scales: about a phone's width, so that text stays readable there.
const WIDTH: f64 = 520.0;
/// Room above the drawing for the title and that of the upright axis.
const TOP: f64 = 46.0;
/// The same where there is no such axis.
const TOP_OF_ROWS: f64 = 28.0;
/// Room at the right for the half of the last tick's text.
const RIGHT: f64 = 22.0;
/// Height of the drawing proper where it is not made of rows.
const HEIGHT: f64 = 240.0;
/// Height of a row of bars or dots.
const ROW: f64 = 24.0;
/// Lines told apart by colour; more are not drawn in one plot.
pub(super) const SERIES_MAX: usize = 8;

/// A point of a line: where, and what is said about it.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) note: String,
}

/// A line with its name.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Which colour and mark, below [`SERIES_MAX`].
    pub(super) series: usize,
    /// Drawn thin and dashed: the companion of another line.
    pub(super) thin: bool,
    /// Whether points have marks; curves of many points have none.
    pub(super) marked: bool,
    pub(super) points: Vec<Point>,
}

/// Lines over two axes, with a level across where `floor` is given.
pub(super) fn lines(title: &str, x: Axis, mut y: Axis, lines: &[Line], floor: Option<f64>) -> Svg {
    y.thin(|_| TEXT * 1.4 / HEIGHT);
    let left = left_of(&y);
    let mut frame = Frame::new(title, left, HEIGHT);
    frame.svg.text("soft", Anchor::Start, (0.0, 31.0), &y.title);
    frame.x_axis(x);
    frame.y_axis(&y);
    if let Some(level) = floor {
        let at = frame.y(&y, level);
        frame.svg.line("floor", (left, at), (WIDTH - RIGHT, at));
        let above = (WIDTH - RIGHT, at - 5.0);
        frame
            .svg
            .text("soft", Anchor::End, above, "floor: bare cache line");
    }
    for line in lines {
        let points = line.points.iter();
        let places: Vec<(f64, f64)> = points
            .map(|point| (frame.x(point.x), frame.y(&y, point.y)))
            .collect();
        let thin = if line.thin { " thin" } else { "" };
        frame
            .svg
            .path(&format!("curve s{}{thin}", line.series), &places);
        if line.marked {
            for (point, at) in line.points.iter().zip(&places) {
                frame
                    .svg
                    .mark(&format!("f{}", line.series), line.series, *at, &point.note);
            }
        }
    }
    frame.legend(lines)
}

/// One bar of a rate.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) series: usize,
    pub(super) value: f64,
    /// Least and most of the runs.
    pub(super) range: (f64, f64),
    /// The value as text, beside the bar.
    pub(super) text: String,
    pub(super) note: String,
}

/// Bars from 0, the length of each its median run, a whisker from the least to the most.
pub(super) fn bars(title: &str, axis_title: &str, unit: fn(f64) -> String, bars: &[Bar]) -> Svg {
    let most = bars.iter().map(|bar| bar.value.max(bar.range.1));
    let axis = Axis::for_values(Scale::Linear, most, axis_title, unit);
    let text = bars
        .iter()
        .map(|bar| width_of(&bar.text))
        .fold(0.0, f64::max);
    let mut rows = Rows::new(
        title,
        axis,
        bars.iter().map(|bar| bar.name.as_str()),
        text + 10.0,
    );
    for (index, bar) in bars.iter().enumerate() {
        let (y, end) = (rows.middle(index), rows.x(bar.value));
        let size = ((end - rows.left).max(1.0), ROW - 9.0);
        let at = (rows.left, y - size.1 / 2.0);
        rows.svg
            .rectangle(&format!("f{}", bar.series), at, size, &bar.note);
        let (least, most) = (rows.x(bar.range.0), rows.x(bar.range.1));
        if most - least > 1.0 {
            rows.svg.line("whisker", (least, y), (most, y));
            for end in [least, most] {
                rows.svg.line("whisker", (end, y - 3.0), (end, y + 3.0));
            }
        }
        let beside = (end.max(most) + 7.0, y + TEXT * 0.36);
        rows.svg.text("strong", Anchor::Start, beside, &bar.text);
    }
    rows.finish(&[])
}

/// One row of dots: a value with a range above it.
#[derive(Clone, Debug)]
pub(super) struct Dot {
    pub(super) row: String,
    pub(super) series: usize,
    /// Which mark.
    pub(super) shape: usize,
    pub(super) value: f64,
    /// Where the line from the dot ends.
    pub(super) to: Option<f64>,
    pub(super) text: String,
    pub(super) note: String,
}

/// Dots over a logarithmic axis, rows in the order of their first dots; `shapes` names the marks.
pub(super) fn dots(
    title: &str,
    axis_title: &str,
    unit: fn(f64) -> String,
    dots: &[Dot],
    floor: Option<f64>,
    shapes: &[(usize, &str)],
) -> Svg {
    let mut names: Vec<&str> = Vec::new();
    for dot in dots {
        if !names.contains(&dot.row.as_str()) {
            names.push(&dot.row);
        }
    }
    let values = dots.iter().flat_map(|dot| [Some(dot.value), dot.to]);
    let axis = Axis::for_values(Scale::Log, values.flatten().chain(floor), axis_title, unit);
    let text = dots
        .iter()
        .map(|dot| width_of(&dot.text))
        .fold(0.0, f64::max);
    let mut rows = Rows::new(title, axis, names.iter().copied(), text + 16.0);
    if let Some(floor) = floor {
        let x = rows.x(floor);
        let bottom = rows.bottom();
        rows.svg.line("floor", (x, TOP_OF_ROWS), (x, bottom));
    }
    for dot in dots {
        let index = names.iter().position(|name| *name == dot.row).unwrap_or(0);
        let (x, y) = (rows.x(dot.value), rows.middle(index));
        if let Some(to) = dot.to {
            let end = rows.x(to);
            rows.svg
                .line(&format!("rule s{}", dot.series), (x, y), (end, y));
            rows.svg.line(
                &format!("rule s{}", dot.series),
                (end, y - 4.0),
                (end, y + 4.0),
            );
        }
        rows.svg
            .mark(&format!("f{}", dot.series), dot.shape, (x, y), &dot.note);
        rows.svg.text(
            "strong",
            Anchor::End,
            (WIDTH - 2.0, y + TEXT * 0.36),
            &dot.text,
        );
    }
    let mut marks: Vec<(Option<usize>, &str)> = Vec::new();
    if shapes.len() > 1 {
        marks.extend(shapes.iter().map(|(shape, name)| (Some(*shape), *name)));
    }
    if floor.is_some() {
        marks.push((None, "floor: bare cache line"));
    }
    rows.finish(&marks)
}

/// A field of cells: one for each column and row, `None` where nothing was measured.
pub(super) struct Field<'a> {
    pub(super) columns: &'a [String],
    pub(super) rows: &'a [String],
    pub(super) column_title: &'a str,
    pub(super) row_title: &'a str,
    /// Row by row: value, its text, its note.
    pub(super) cells: &'a [Option<(f64, String, String)>],
}

/// A heat map: the denser, the more.
#[allow(clippy::cast_precision_loss, reason = "a few rows and columns")]
pub(super) fn heat(title: &str, field: &Field<'_>) -> Svg {
    let names = field
        .rows
        .iter()
        .map(|row| width_of(row))
        .fold(0.0, f64::max);
    let left = names + 34.0;
    let width = (WIDTH - left - 8.0) / field.columns.len().max(1) as f64;
    let height = (width * 0.62).clamp(26.0, 44.0);
    let bottom = TOP_OF_ROWS + height * field.rows.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 44.0, title);
    svg.text("title", Anchor::Start, (0.0, 14.0), title);
    let most = field
        .cells
        .iter()
        .flatten()
        .map(|cell| cell.0)
        .fold(0.0, f64::max);
    for (index, cell) in field.cells.iter().enumerate() {
        let (row, column) = (index / field.columns.len(), index % field.columns.len());
        let at = (
            left + width * column as f64,
            TOP_OF_ROWS + height * row as f64,
        );
        let middle = (at.0 + width / 2.0, at.1 + height / 2.0 + TEXT * 0.36);
        let Some((value, text, note)) = cell else {
            svg.text("soft", Anchor::Middle, middle, "-");
            continue;
        };
        let share = 0.1 + 0.9 * (value / most.max(f64::MIN_POSITIVE));
        svg.cell(at, (width, height), share, note);
        let class = if share > 0.55 { "on" } else { "label" };
        svg.text(class, Anchor::Middle, middle, text);
    }
    for (row, name) in field.rows.iter().enumerate() {
        let y = TOP_OF_ROWS + height * (row as f64 + 0.5) + TEXT * 0.36;
        svg.text("label", Anchor::End, (left - 7.0, y), name);
    }
    for (column, name) in field.columns.iter().enumerate() {
        let x = left + width * (column as f64 + 0.5);
        svg.text("label", Anchor::Middle, (x, bottom + 16.0), name);
    }
    svg.upright(
        "soft",
        (11.0, f64::midpoint(TOP_OF_ROWS, bottom)),
        field.row_title,
    );
    let middle = (f64::midpoint(left, WIDTH - 8.0), bottom + 34.0);
    svg.text("soft", Anchor::Middle, middle, field.column_title);
    svg
}

/// Room that the texts of an upright axis need.
fn left_of(y: &Axis) -> f64 {
    let widest = y.ticks.iter().map(|(_, text)| width_of(text));
    widest.fold(20.0, f64::max) + 10.0
}

/// A drawing with both axes.
struct Frame {
    svg: Svg,
    left: f64,
    bottom: f64,
    x: Option<Axis>,
}

impl Frame {
    fn new(title: &str, left: f64, height: f64) -> Self {
        let bottom = TOP + height;
        let mut svg = Svg::new(WIDTH, bottom + 44.0, title);
        svg.text("title", Anchor::Start, (0.0, 14.0), title);
        Self {
            svg,
            left,
            bottom,
            x: None,
        }
    }

    fn x_axis(&mut self, mut axis: Axis) {
        let wide = WIDTH - RIGHT - self.left;
        axis.thin(|text| (width_of(text) + 8.0) / wide);
        for (value, text) in &axis.ticks {
            let x = self.left + axis.place(*value) * wide;
            self.svg.line("grid", (x, TOP), (x, self.bottom));
            self.svg
                .text("soft", Anchor::Middle, (x, self.bottom + 16.0), text);
        }
        let middle = (self.left + wide / 2.0, self.bottom + 34.0);
        self.svg.text("soft", Anchor::Middle, middle, &axis.title);
        self.x = Some(axis);
    }

    fn y_axis(&mut self, axis: &Axis) {
        for (value, text) in &axis.ticks {
            let y = self.y(axis, *value);
            self.svg.line("grid", (self.left, y), (WIDTH - RIGHT, y));
            self.svg.text(
                "soft",
                Anchor::End,
                (self.left - 6.0, y + TEXT * 0.36),
                text,
            );
        }
        self.svg.line(
            "rule",
            (self.left, self.bottom),
            (WIDTH - RIGHT, self.bottom),
        );
    }

    fn x(&self, value: f64) -> f64 {
        let place = self.x.as_ref().map_or(0.0, |axis| axis.place(value));
        self.left + place * (WIDTH - RIGHT - self.left)
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - axis.place(value) * (self.bottom - TOP)
    }

    /// Names under the drawing, as many in a row as fit.
    fn legend(mut self, lines: &[Line]) -> Svg {
        let mut names = Names::under(self.left, self.bottom);
        for line in lines {
            let (x, y) = names.next(28.0 + width_of(&line.name) + 12.0);
            let middle = y - TEXT * 0.34;
            let thin = if line.thin { " thin" } else { "" };
            let class = format!("curve s{}{thin}", line.series);
            self.svg.path(&class, &[(x, middle), (x + 22.0, middle)]);
            if line.marked {
                let class = format!("f{}", line.series);
                self.svg.mark(&class, line.series, (x + 11.0, middle), "");
            }
            self.svg
                .text("label", Anchor::Start, (x + 28.0, y), &line.name);
        }
        let end = if lines.is_empty() {
            self.bottom + 44.0
        } else {
            names.end()
        };
        self.svg.set_height(end);
        self.svg
    }
}

/// Places of names under a drawing, side by side, and in a line of their own where they would be cut off.
struct Names {
    left: f64,
    x: f64,
    y: f64,
}

impl Names {
    fn under(left: f64, bottom: f64) -> Self {
        Self {
            left,
            x: left,
            y: bottom + 56.0,
        }
    }

    /// Where the next begins that takes this much room.
    fn next(&mut self, wide: f64) -> (f64, f64) {
        if self.x > self.left && self.x + wide > WIDTH {
            (self.x, self.y) = (self.left, self.y + 18.0);
        }
        let at = (self.x, self.y);
        self.x += wide;
        at
    }

    /// How far down they reach.
    fn end(&self) -> f64 {
        self.y + 8.0
    }
}

/// A drawing of named rows over one axis.
struct Rows {
    svg: Svg,
    axis: Axis,
    left: f64,
    right: f64,
    count: usize,
}

impl Rows {
    fn new<'a>(title: &str, axis: Axis, names: impl Iterator<Item = &'a str>, right: f64) -> Self {
        let names: Vec<&str> = names.collect();
        let widest = names.iter().map(|name| width_of(name)).fold(0.0, f64::max);
        let mut rows = Self {
            svg: Svg::new(WIDTH, 0.0, title),
            axis,
            left: (widest + 12.0).min(WIDTH * 0.46),
            right: right.max(RIGHT),
            count: names.len(),
        };
        rows.svg.text("title", Anchor::Start, (0.0, 14.0), title);
        let wide = WIDTH - rows.right - rows.left;
        rows.axis.thin(|text| (width_of(text) + 8.0) / wide);
        let bottom = rows.bottom();
        for (value, text) in rows.axis.ticks.clone() {
            let x = rows.x(value);
            rows.svg.line("grid", (x, TOP_OF_ROWS), (x, bottom));
            rows.svg
                .text("soft", Anchor::Middle, (x, bottom + 16.0), &text);
        }
        for (index, name) in names.iter().enumerate() {
            let at = (rows.left - 8.0, rows.middle(index) + TEXT * 0.36);
            let name = fitted(name, rows.left - 8.0);
            rows.svg.text("label", Anchor::End, at, &name);
        }
        rows.svg
            .line("rule", (rows.left, TOP_OF_ROWS), (rows.left, bottom));
        let middle = (rows.left + wide / 2.0, bottom + 34.0);
        let title = rows.axis.title.clone();
        rows.svg.text("soft", Anchor::Middle, middle, &title);
        rows
    }

    #[allow(clippy::cast_precision_loss, reason = "a few rows")]
    fn middle(&self, row: usize) -> f64 {
        TOP_OF_ROWS + ROW * (row as f64 + 0.5) + 4.0
    }

    #[allow(clippy::cast_precision_loss, reason = "a few rows")]
    fn bottom(&self) -> f64 {
        TOP_OF_ROWS + ROW * self.count as f64 + 8.0
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.axis.place(value) * (WIDTH - self.right - self.left)
    }

    /// Names of marks under the drawing; no mark stands for the floor's line.
    fn finish(mut self, marks: &[(Option<usize>, &str)]) -> Svg {
        let bottom = self.bottom();
        let mut names = Names::under(self.left, bottom);
        for (shape, name) in marks {
            let (x, y) = names.next(14.0 + width_of(name) + 16.0);
            match shape {
                Some(shape) => self.svg.mark("f7", *shape, (x + 5.0, y - TEXT * 0.34), ""),
                None => self
                    .svg
                    .line("floor", (x + 5.0, y - 11.0), (x + 5.0, y + 2.0)),
            }
            self.svg.text("label", Anchor::Start, (x + 14.0, y), name);
        }
        let end = if marks.is_empty() {
            bottom + 42.0
        } else {
            names.end()
        };
        self.svg.set_height(end);
        self.svg
    }
}
