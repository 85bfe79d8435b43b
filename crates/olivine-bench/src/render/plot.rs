//! Figures as drawings: curves, dots with ranges, heat maps. Each point shows its value, unit and
//! n.

#[cfg(test)]
mod tests;

use super::axis::Axis;
use super::svg::{Anchor, Svg, TEXT, width_of};
use crate::view::{AxisPlan, Curve, Dot, FieldCell, Figure, Plot};

/// Width of every drawing, in scalable units: about a phone's width, so that text stays readable
/// there.
const WIDTH: f64 = 520.0;
/// Room above the drawing for the title and that of the upright axis.
const TOP: f64 = 46.0;
/// The same where there is no such axis.
const TOP_OF_ROWS: f64 = 28.0;
/// Room at the right for the half of the last tick's text.
const RIGHT: f64 = 22.0;
/// Height of the drawing proper where it is not made of rows.
const HEIGHT: f64 = 240.0;
/// Height of a row of dots with its name beside it, and above it.
const ROW: (f64, f64) = (24.0, 38.0);
/// Share of the width for names beside their rows; longer names have a separate line.
const NAMES_SHARE: f64 = 0.46;
/// Colour of other methods if only the two groups are distinguished.
const THEIRS: usize = 7;

/// The drawing of a figure.
pub(super) fn draw(figure: &Figure) -> Svg {
    let title = &figure.title;
    match &figure.plot {
        Plot::Dots { axis, dots, floor } => rows(title, axis, dots, *floor),
        Plot::Curves {
            x,
            y,
            curves,
            floor,
        } => {
            let points = || curves.iter().flat_map(|curve| &curve.points);
            let x = Axis::of(x, points().map(|point| point.x));
            let y = Axis::of(y, points().map(|point| point.y).chain(*floor));
            lines(title, x, y, curves, *floor)
        }
        Plot::Field {
            columns,
            rows,
            column_title,
            row_title,
            cells,
        } => heat(title, (columns, column_title), (rows, row_title), cells),
    }
}

/// Lines over two axes, with a level across where `floor` is given.
fn lines(title: &str, x: Axis, mut y: Axis, lines: &[Curve], floor: Option<f64>) -> Svg {
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
        let thin = if line.is_thin { " thin" } else { "" };
        frame
            .svg
            .path(&format!("curve s{}{thin}", line.series), &places);
        if line.is_marked {
            for (point, at) in line.points.iter().zip(&places) {
                frame
                    .svg
                    .mark(&format!("f{}", line.series), line.series, *at, &point.note);
            }
        }
    }
    frame.legend(lines)
}

/// Rows of dots, each with its range, names whole.
fn rows(title: &str, plan: &AxisPlan, dots: &[Dot], floor: Option<f64>) -> Svg {
    let values = dots
        .iter()
        .flat_map(|dot| [dot.value, dot.range.0, dot.range.1]);
    let mut axis = Axis::of(plan, values.chain(floor));
    let widest = |text: fn(&Dot) -> &String| {
        let widths = dots.iter().map(|dot| width_of(text(dot), TEXT));
        widths.fold(0.0, f64::max)
    };
    let names = widest(|dot| &dot.name) + 12.0;
    let is_beside = names <= WIDTH * NAMES_SHARE;
    let (left, row) = if is_beside {
        (names, ROW.0)
    } else {
        (8.0, ROW.1)
    };
    let right = (widest(|dot| &dot.text) + 16.0).max(RIGHT);
    let wide = WIDTH - right - left;
    let bottom = TOP_OF_ROWS + row * count(dots) + 8.0;
    let mut svg = Svg::new(WIDTH, bottom + 42.0, title);
    svg.text("title", Anchor::Start, (0.0, 14.0), title);
    axis.thin(|text| (width_of(text, TEXT) + 8.0) / wide);
    let x = |value: f64| left + axis.place(value) * wide;
    for (value, text) in &axis.ticks {
        let x = x(*value);
        svg.line("grid", (x, TOP_OF_ROWS), (x, bottom));
        svg.text("soft", Anchor::Middle, (x, bottom + 16.0), text);
    }
    svg.line("rule", (left, TOP_OF_ROWS), (left, bottom));
    if let Some(floor) = floor {
        svg.line("floor", (x(floor), TOP_OF_ROWS), (x(floor), bottom));
    }
    let mut top = TOP_OF_ROWS + 4.0;
    for dot in dots {
        let middle = if is_beside {
            top + row / 2.0
        } else {
            top + row * 0.7
        };
        let below = middle + TEXT * 0.36;
        if is_beside {
            svg.text("label", Anchor::End, (left - 8.0, below), &dot.name);
        } else {
            svg.text_within("label", (left, top + row * 0.33), &dot.name, WIDTH - left);
        }
        let series = if dot.is_ours { 0 } else { THEIRS };
        let (from, to) = (x(dot.range.0), x(dot.range.1));
        if to > from {
            let class = format!("rule s{series}");
            svg.line(&class, (from, middle), (to, middle));
            for end in [from, to] {
                svg.line(&class, (end, middle - 4.0), (end, middle + 4.0));
            }
        }
        let at = (x(dot.value), middle);
        svg.mark(&format!("f{series}"), 0, at, &dot.note);
        svg.text("strong", Anchor::End, (WIDTH - 2.0, below), &dot.text);
        top += row;
    }
    svg.text(
        "soft",
        Anchor::Middle,
        (left + wide / 2.0, bottom + 34.0),
        &axis.title,
    );
    if floor.is_some() {
        let y = bottom + 56.0;
        svg.line("floor", (left + 5.0, y - 11.0), (left + 5.0, y + 2.0));
        svg.text(
            "label",
            Anchor::Start,
            (left + 14.0, y),
            "floor: bare cache line",
        );
        svg.set_height(y + 8.0);
    }
    svg
}

#[allow(clippy::cast_precision_loss, reason = "a few rows")]
fn count<T>(things: &[T]) -> f64 {
    things.len() as f64
}

/// A heat map: denser means more.
#[allow(clippy::cast_precision_loss, reason = "a few rows and columns")]
fn heat(
    title: &str,
    (columns, column_title): (&[String], &str),
    (rows, row_title): (&[String], &str),
    cells: &[FieldCell],
) -> Svg {
    let names = rows
        .iter()
        .map(|row| width_of(row, TEXT))
        .fold(0.0, f64::max);
    let left = names + 34.0;
    let width = (WIDTH - left - 8.0) / columns.len().max(1) as f64;
    let height = (width * 0.62).clamp(26.0, 44.0);
    let bottom = TOP_OF_ROWS + height * rows.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 44.0, title);
    svg.text("title", Anchor::Start, (0.0, 14.0), title);
    let values = cells.iter().flatten().map(|cell| cell.0);
    let most = values.fold(0.0, f64::max);
    for (index, cell) in cells.iter().enumerate() {
        let (row, column) = (index / columns.len(), index % columns.len());
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
    for (row, name) in rows.iter().enumerate() {
        let y = TOP_OF_ROWS + height * (row as f64 + 0.5) + TEXT * 0.36;
        svg.text("label", Anchor::End, (left - 7.0, y), name);
    }
    for (column, name) in columns.iter().enumerate() {
        let x = left + width * (column as f64 + 0.5);
        svg.text("label", Anchor::Middle, (x, bottom + 16.0), name);
    }
    svg.upright(
        "soft",
        (11.0, f64::midpoint(TOP_OF_ROWS, bottom)),
        row_title,
    );
    let middle = (f64::midpoint(left, WIDTH - 8.0), bottom + 34.0);
    svg.text("soft", Anchor::Middle, middle, column_title);
    svg
}

/// Room that the texts of an upright axis need.
fn left_of(y: &Axis) -> f64 {
    let widest = y.ticks.iter().map(|(_, text)| width_of(text, TEXT));
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
        axis.thin(|text| (width_of(text, TEXT) + 8.0) / wide);
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
    fn legend(mut self, lines: &[Curve]) -> Svg {
        let mut names = Names::under(self.left, self.bottom);
        for line in lines {
            let (x, y) = names.next(28.0 + width_of(&line.name, TEXT) + 12.0);
            let middle = y - TEXT * 0.34;
            let thin = if line.is_thin { " thin" } else { "" };
            let class = format!("curve s{}{thin}", line.series);
            self.svg.path(&class, &[(x, middle), (x + 22.0, middle)]);
            if line.is_marked {
                let class = format!("f{}", line.series);
                self.svg.mark(&class, line.series, (x + 11.0, middle), "");
            }
            self.svg
                .text_within("label", (x + 28.0, y), &line.name, WIDTH - x - 28.0);
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

/// Places of names under a drawing, side by side, on the next line where there is no room.
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
