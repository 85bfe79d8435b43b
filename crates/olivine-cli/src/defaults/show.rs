//! `olivine config`: the settings that can have a default, their values, and where these came from.

use super::{Defaults, Known, file, is_list, known};
use crate::args::{Cli, Common, ConfigArgs, channel};
use crate::failure::Outcome;
use crate::output::{print, print_json, table};
use clap::CommandFactory;
use serde_json::{Value, json};

/// The folder of channels, which the library reads.
const DIR: &str = "OLIVINE_DIR";

/// Prints the settings.
pub(crate) fn run(args: &ConfigArgs, common: Common) -> Outcome {
    let command = Cli::command();
    let defaults = Defaults::load(&command)?;
    let mut rows = vec![folder()];
    rows.extend(known(&command).iter().map(|known| row(&defaults, known)));
    let file = file().map(|(path, _)| path.display().to_string());
    if common.json {
        let object = |[name, value, origin]: [String; 3]| {
            let mut object = json!({ "name": name, "value": value });
            if args.origin {
                object["origin"] = origin.into();
            }
            object
        };
        let settings: Vec<Value> = rows.into_iter().map(object).collect();
        return print_json(&json!({ "file": file, "settings": settings }));
    }
    let columns = if args.origin { 3 } else { 2 };
    let headings = &["SETTING", "VALUE", "ORIGIN"][..columns];
    let rows = rows.into_iter().map(|row| row[..columns].to_vec());
    let mut text = table(headings, &[], rows.collect());
    if args.origin {
        let file = file.as_deref().unwrap_or("none");
        text.push_str(&format!("\nfile: {file}\n"));
    }
    print(&text)
}

fn folder() -> [String; 3] {
    let value = olivine::admin::default_dir().display().to_string();
    let is_given = std::env::var_os(DIR).is_some_and(|dir| !dir.is_empty());
    let origin = match is_given {
        true => format!("environment {DIR}"),
        false => "built in".to_owned(),
    };
    ["dir".to_owned(), value, origin]
}

/// Name, value and origin of a setting.
fn row(defaults: &Defaults, known: &Known) -> [String; 3] {
    let name = known.name();
    if let Some(given) = defaults.of(&name) {
        return [name, given.values.join(","), given.origin.to_string()];
    }
    let built_in = known.arg.get_default_values().iter();
    let built_in: Vec<_> = built_in.map(|value| value.to_string_lossy()).collect();
    let value = match channel::key(&known.arg) {
        Some(key) => key.default().to_string(),
        None if built_in.is_empty() && is_list(&known.arg) => "none".to_owned(),
        None if built_in.is_empty() => "see --help".to_owned(),
        None => built_in.join(","),
    };
    [name, value, "built in".to_owned()]
}
