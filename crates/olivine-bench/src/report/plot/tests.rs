//! Every drawing stays on its paper.

use super::*;
use crate::text;

fn note(n: u64) -> String {
    format!("n = {n}")
}

/// Coordinates of every shape lie on the drawing.
fn is_within(svg: &Svg) -> bool {
    let drawing = svg.standalone();
    let number = |part: &str| part.split('"').next().and_then(|n| n.parse::<f64>().ok());
    let all = |name: &str| -> Vec<f64> { drawing.split(name).skip(1).filter_map(number).collect() };
    let height = drawing
        .split("viewBox=\"0 0 520 ")
        .nth(1)
        .and_then(number)
        .unwrap();
    let xs = [" x=\"", " x1=\"", " x2=\"", " cx=\""]
        .iter()
        .flat_map(|name| all(name));
    let ys = [" y=\"", " y1=\"", " y2=\"", " cy=\""]
        .iter()
        .flat_map(|name| all(name));
    let (mut places, on) = (0, |value: f64, end: f64| {
        (-0.1..=end + 0.1).contains(&value)
    });
    // Those that say nothing else start there.
    let starts = drawing.split("class=\"label\" x=\"").skip(1);
    let uncut = starts.filter_map(|text| {
        let (attributes, rest) = text.split_once('>')?;
        let name = rest.split('<').next()?;
        (!attributes.contains("text-anchor")).then_some(number(attributes)? + width_of(name))
    });
    let uncut = uncut.into_iter().all(|end| end <= WIDTH + 0.1);
    let inside = uncut
        && xs.into_iter().all(|x| {
            places += 1;
            on(x, WIDTH)
        })
        && ys.into_iter().all(|y| on(y, height));
    inside && places > 10
}

#[test]
fn every_plot_stays_on_its_paper_and_keeps_its_notes() {
    let line = |series: usize| Line {
        name: format!("method number {series}"),
        series,
        thin: series == 1,
        marked: series != 2,
        points: (1..5)
            .map(|n: u32| Point {
                x: f64::from(n) * 100.0,
                y: 90.0 * f64::from(n * n),
                note: note(u64::from(n)),
            })
            .collect(),
    };
    let x = Axis::of_choices(&[100.0, 200.0, 300.0, 400.0], "rate", text::rate);
    let y = Axis::for_values(Scale::Log, [90.0, 1440.0], "time", text::nanos);
    let drawn = lines(
        "latency",
        x,
        y,
        &(0..SERIES_MAX).map(line).collect::<Vec<_>>(),
        Some(120.0),
    );
    assert!(is_within(&drawn) && drawn.inline().contains("<title>n = 3</title>"));

    let bar = |value: f64| Bar {
        name: "a rather long name of a method".to_owned(),
        series: 3,
        value,
        range: (value * 0.9, value * 1.2),
        text: text::rate(value),
        note: note(7),
    };
    let drawn = bars("rates", "messages", text::rate, &[bar(3e8), bar(10.0)]);
    assert!(is_within(&drawn) && drawn.inline().contains("300 M/s"));

    let dot = |value: f64, shape| Dot {
        row: format!("row {value}"),
        series: 0,
        shape,
        value,
        to: Some(value * 40.0),
        text: text::nanos(value),
        note: note(9),
    };
    let all = [dot(140.0, 0), dot(90_000.0, 1), dot(700.0, 2), dot(33.0, 3)];
    let drawn = dots(
        "p50",
        "time",
        text::nanos,
        &all,
        Some(120.0),
        &[(0, "near"), (1, "far")],
    );
    assert!(is_within(&drawn) && drawn.inline().contains("near"));
    let long = "one lane for each of the publishers";
    let drawn = dots(
        "p50",
        "time",
        text::nanos,
        &[dot(33.0, 3)],
        Some(120.0),
        &[(0, long), (1, long), (2, long)],
    );
    assert!(is_within(&drawn), "names go on in the next line");

    let names: Vec<String> = ["1", "2", "6"].map(str::to_owned).to_vec();
    let mut cells = vec![Some((46.8e6, "46.8 M/s".to_owned(), note(5))); 9];
    cells[4] = None;
    let field = Field {
        columns: &names,
        rows: &names,
        column_title: "subscribers",
        row_title: "publishers",
        cells: &cells,
    };
    let drawn = heat("mesh", &field);
    assert!(is_within(&drawn));
    assert_eq!(drawn.inline().matches("class=\"cell\"").count(), 8);
}

#[test]
fn plots_of_nothing_are_drawn_without_a_panic() {
    assert!(bars("x", "y", text::rate, &[]).inline().contains("<svg"));
    assert!(
        dots("x", "y", text::nanos, &[], None, &[])
            .inline()
            .contains("<svg")
    );
    let axis = || Axis::for_values(Scale::Linear, [], "x", text::rate);
    assert!(
        lines("x", axis(), axis(), &[], None)
            .inline()
            .contains("<svg")
    );
    let nothing = Field {
        columns: &[],
        rows: &[],
        column_title: "",
        row_title: "",
        cells: &[],
    };
    assert!(heat("x", &nothing).inline().contains("<svg"));
}
