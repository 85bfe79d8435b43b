//! Every drawing stays inside its frame, and every name in it is complete.

use super::*;
use crate::text;
use crate::view::{Point, SERIES_MAX, Scale};

fn note(n: u64) -> String {
    format!("n = {n}")
}

/// Coordinates of every shape are on the drawing.
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
        (!attributes.contains("text-anchor")).then_some(number(attributes)? + width_of(name, TEXT))
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

fn axis(scale: Scale, unit: fn(f64) -> String) -> AxisPlan {
    AxisPlan {
        scale,
        title: "axis".to_owned(),
        unit,
    }
}

fn drawn(plot: Plot) -> Svg {
    draw(&Figure {
        name: "x".to_owned(),
        title: "title".to_owned(),
        plot,
        caption: String::new(),
    })
}

fn dot(name: &str, value: f64) -> Dot {
    Dot {
        name: name.to_owned(),
        is_ours: false,
        value,
        range: (value * 0.9, value * 40.0),
        text: text::nanos(value),
        note: note(9),
    }
}

fn dots(dots: Vec<Dot>) -> Svg {
    drawn(Plot::Dots {
        axis: axis(Scale::Log, text::nanos),
        dots,
        floor: Some(120.0),
    })
}

#[test]
fn curves_stay_inside_and_keep_their_notes() {
    let curve = |series: usize| Curve {
        name: format!("method number {series}"),
        series,
        is_thin: series == 1,
        is_marked: series != 2,
        points: (1..5)
            .map(|n: u32| Point {
                x: f64::from(n) * 100.0,
                y: 90.0 * f64::from(n * n),
                note: note(u64::from(n)),
            })
            .collect(),
    };
    let found = drawn(Plot::Curves {
        x: axis(Scale::Choices, text::rate),
        y: axis(Scale::Log, text::nanos),
        curves: (0..SERIES_MAX).map(curve).collect(),
        floor: Some(120.0),
    });
    assert!(is_within(&found) && found.inline().contains("<title>n = 3</title>"));
}

/// A regression: names were cut at their start, so that a page of 40 rows named no method.
#[test]
fn long_row_names_are_complete() {
    let short = ["pipe", "rtrb threads", "zeromq-ipc", "udp"];
    let long = [
        "crossbeam-channel threads, 8 KiB, batches of 16",
        "a",
        "b",
        "c",
    ];
    let longest = "a name of more letters than fit the width of a drawing ".repeat(3);
    for names in [short, long, [&longest, "a", "b", "c"]] {
        let found = dots(
            (1..)
                .zip(names)
                .map(|(n, name)| dot(name, f64::from(n) * 40.0))
                .collect(),
        );
        for name in names {
            assert!(
                found.inline().contains(&format!(">{name}</text>")),
                "{name}"
            );
        }
        assert!(
            names.contains(&longest.as_str()) || is_within(&found),
            "{names:?}"
        );
    }
}

#[test]
fn heat_map_has_a_cell_for_each_measured_pair() {
    let names: Vec<String> = ["1", "2", "6"].map(str::to_owned).to_vec();
    let mut cells = vec![Some((46.8e6, "46.8 M/s".to_owned(), note(5))); 9];
    cells[4] = None;
    let found = drawn(Plot::Field {
        columns: names.clone(),
        rows: names,
        column_title: "subscribers",
        row_title: "publishers",
        cells,
    });
    assert!(is_within(&found));
    assert_eq!(found.inline().matches("class=\"cell\"").count(), 8);
}

#[test]
fn empty_figures_are_drawn() {
    assert!(dots(Vec::new()).inline().contains("<svg"));
    for scale in [Scale::Linear, Scale::Choices] {
        let found = drawn(Plot::Curves {
            x: axis(scale, text::rate),
            y: axis(scale, text::rate),
            curves: Vec::new(),
            floor: None,
        });
        assert!(found.inline().contains("<svg"));
    }
    let found = drawn(Plot::Field {
        columns: Vec::new(),
        rows: Vec::new(),
        column_title: "",
        row_title: "",
        cells: Vec::new(),
    });
    assert!(found.inline().contains("<svg"));
}
