//! What is printed of a recorded run, kept word for word: see `tests/outputs.rs`.

use super::{
    conditions, failed, floor, latency, many, methods, methods_at_full_speed, pingpong, points,
    throughput,
};
use olivine_bench::result::{ResultFile, Row};
use std::fs;
use std::path::Path;

/// Which of the printers a file of the run goes through.
fn printed(name: &str, file: &ResultFile) -> String {
    let of_one: fn(&[Row]) -> String = match name {
        "pingpong" => methods,
        "throughput" => methods_at_full_speed,
        "streaming" => throughput,
        "latency" => latency,
        _ => many,
    };
    let text = match &file.floor {
        Some(found) => floor(found),
        None => of_one(&file.results),
    };
    text + &failed(file) + &conditions(file)
}

#[test]
fn what_is_printed_of_the_run_is_as_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let is_as_kept = |name: String, found: String| {
        let path = folder.join("outputs").join(name);
        if std::env::var_os("OLIVINE_OUTPUTS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &found).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), found);
    };
    for name in [
        "floor",
        "pingpong",
        "throughput",
        "streaming",
        "latency",
        "fanout",
        "mesh",
    ] {
        let file = ResultFile::read(&folder.join(format!("run/{name}.json"))).unwrap();
        is_as_kept(format!("{name}.txt"), printed(name, &file));
        is_as_kept(format!("{name}-points.txt"), points(&file.results));
    }
    let file = ResultFile::read(&folder.join("run/pingpong.json")).unwrap();
    let ours = |row: &&Row| row.method == "olivine-spin";
    let ours: Vec<Row> = file.results.iter().filter(ours).cloned().collect();
    is_as_kept("one-method.txt".to_owned(), pingpong(&ours));
}
