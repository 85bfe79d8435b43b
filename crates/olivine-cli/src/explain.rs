//! `olivine explain`: what an error means, and what to do.

use crate::args::{Common, ExplainArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use olivine::Explanation;
use serde_json::{Value, json};

/// Explains one error, or lists all.
pub(crate) fn run(args: &ExplainArgs, common: Common) -> Outcome {
    let Some(id) = &args.id else {
        let all: Vec<&Explanation> = olivine::explanations().collect();
        if common.json {
            let all: Vec<Value> = all.into_iter().map(object).collect();
            return print_json(&json!({ "errors": all }));
        }
        let line = |one: &Explanation| format!("{:<24} {}\n", one.id, one.meaning);
        return print(&all.into_iter().map(line).collect::<String>());
    };
    // As it stands in an error.
    let wanted = id.trim_start_matches('[').trim_end_matches(']');
    let found = olivine::explanations().find(|one| one.id == wanted);
    let found = found.ok_or_else(|| {
        Failure::usage(format!(
            "there is no error '{id}': 'olivine explain' without an id lists all"
        ))
    })?;
    if common.json {
        return print_json(&object(found));
    }
    print(&format!(
        "{}\n  means   {}\n  remedy  {}\n",
        found.id, found.meaning, found.remedy
    ))
}

fn object(one: &Explanation) -> Value {
    json!({ "id": one.id, "meaning": one.meaning, "remedy": one.remedy })
}
