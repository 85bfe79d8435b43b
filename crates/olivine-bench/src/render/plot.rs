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

/// A drawing with its title above it.
fn titled(height: f64, title: &str) -> Svg {
    let mut svg = Svg::new(WIDTH, height, title);
    svg.text("title", Anchor::Start, (0.0, 14.0), title);
    svg
}

/// Grid lines and values of an axis across, which begins at `left` and is so `wide`.
fn across(svg: &mut Svg, axis: &mut Axis, (left, wide): (f64, f64), (top, bottom): (f64, f64)) {
    axis.thin(|text| (width_of(text, TEXT) + 8.0) / wide);
    for (value, text) in &axis.ticks {
        let x = left + axis.place(*value) * wide;
        svg.line("grid", (x, top), (x, bottom));
        svg.text("soft", Anchor::Middle, (x, bottom + 16.0), text);
    }
}

/// Lines over two axes, with a level across where `floor` is given.
fn lines(title: &str, mut x: Axis, mut y: Axis, lines: &[Curve], floor: Option<f64>) -> Svg {
    y.thin(|_| TEXT * 1.4 / HEIGHT);
    // Room that the texts of the upright axis need.
    let widest = y.ticks.iter().map(|(_, text)| width_of(text, TEXT));
    let left = widest.fold(20.0, f64::max) + 10.0;
    let (bottom, right) = (TOP + HEIGHT, WIDTH - RIGHT);
    let wide = right - left;
    let mut svg = titled(bottom + 44.0, title);
    svg.text("soft", Anchor::Start, (0.0, 31.0), &y.title);
    across(&mut svg, &mut x, (left, wide), (TOP, bottom));
    let middle = (left + wide / 2.0, bottom + 34.0);
    svg.text("soft", Anchor::Middle, middle, &x.title);
    let height = |value: f64| bottom - y.place(value) * HEIGHT;
    for (value, text) in &y.ticks {
        let at = height(*value);
        svg.line("grid", (left, at), (right, at));
        svg.text("soft", Anchor::End, (left - 6.0, at + TEXT * 0.36), text);
    }
    svg.line("rule", (left, bottom), (right, bottom));
    if let Some(level) = floor {
        let at = height(level);
        svg.line("floor", (left, at), (right, at));
        let words = "floor: bare cache line";
        svg.text("soft", Anchor::End, (right, at - 5.0), words);
    }
    for line in lines {
        let at = |x_value: f64, y_value: f64| (left + x.place(x_value) * wide, height(y_value));
        let places = line.points.iter().map(|point| at(point.x, point.y));
        let places: Vec<(f64, f64)> = places.collect();
        svg.path(&class_of(line), &places);
        for (point, at) in line.points.iter().zip(&places).filter(|_| line.is_marked) {
            svg.mark(&format!("f{}", line.series), line.series, *at, &point.note);
        }
    }
    let end = legend(&mut svg, lines, left, bottom);
    svg.set_height(end);
    svg
}

fn class_of(line: &Curve) -> String {
    let thin = if line.is_thin { " thin" } else { "" };
    format!("curve s{}{thin}", line.series)
}

/// Names under a drawing, as many in a row as fit; how far down they reach.
fn legend(svg: &mut Svg, lines: &[Curve], left: f64, bottom: f64) -> f64 {
    let (mut next, mut y) = (left, bottom + 56.0);
    for line in lines {
        let wide = 28.0 + width_of(&line.name, TEXT) + 12.0;
        if next > left && next + wide > WIDTH {
            (next, y) = (left, y + 18.0);
        }
        let (x, middle) = (next, y - TEXT * 0.34);
        next += wide;
        svg.path(&class_of(line), &[(x, middle), (x + 22.0, middle)]);
        if line.is_marked {
            let class = format!("f{}", line.series);
            svg.mark(&class, line.series, (x + 11.0, middle), "");
        }
        svg.text_within("label", (x + 28.0, y), &line.name, WIDTH - x - 28.0);
    }
    if lines.is_empty() {
        return bottom + 44.0;
    }
    y + 8.0
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
    let mut svg = titled(bottom + 42.0, title);
    across(&mut svg, &mut axis, (left, wide), (TOP_OF_ROWS, bottom));
    let x = |value: f64| left + axis.place(value) * wide;
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
            let (above, beneath) = (middle - 4.0, middle + 4.0);
            let ends = [(from, above), (from, beneath), (from, middle)];
            let points = [ends, [(to, middle), (to, above), (to, beneath)]].concat();
            svg.path(&format!("curve whisker s{series}"), &points);
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
    let mut svg = titled(bottom + 44.0, title);
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
