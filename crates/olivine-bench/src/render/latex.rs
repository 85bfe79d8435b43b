//! A view as LaTeX tables: for a paper. It needs the package `booktabs`.

use crate::view::{Cell, Line, Table, View};

/// The view as one `table` for each of its tables, with command and machine in the caption.
#[must_use]
pub fn latex(view: &View) -> String {
    let mut out = String::from("% \\usepackage{booktabs}\n");
    for section in &view.sections {
        for table in &section.tables {
            let mut caption = vec![section.heading.clone()];
            if !table.title.is_empty() {
                caption.push(table.title.clone());
            }
            caption.push(section.command.clone());
            caption.extend(view.machines.iter().cloned());
            caption.extend(view.warning.iter().cloned());
            out.push_str(&drawn(&table.without_details(), &caption.join(". ")));
        }
    }
    out
}

fn drawn(table: &Table, caption: &str) -> String {
    let columns = table.columns.iter();
    let aligned: String = columns
        .map(|column| if column.is_number { 'r' } else { 'l' })
        .collect();
    let heads = table.columns.iter().map(|column| escaped(column.head));
    let heads: Vec<String> = heads.collect();
    let lines = table.lines.iter().map(line);
    format!(
        "\\begin{{table}}\n\\caption{{{}}}\n\\begin{{tabular}}{{{aligned}}}\n\\toprule\n{} \
         \\\\\n\\midrule\n{}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n",
        escaped(caption),
        heads.join(" & "),
        lines.collect::<String>()
    )
}

fn line(line: &Line) -> String {
    let cell = |cell: &Cell| match line.is_ours {
        true => format!("\\textbf{{{}}}", escaped(&cell.text)),
        false => escaped(&cell.text),
    };
    let cells: Vec<String> = line.cells.iter().map(cell).collect();
    format!("{} \\\\\n", cells.join(" & "))
}

/// Text without any meaning for LaTeX.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            // Not a ligature: `--` would become one dash.
            '-' => out.push_str("{-}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '×' => out.push_str("$\\times$"),
            'µ' => out.push_str("$\\mu$"),
            _ if c.is_control() => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_latex_are_escaped() {
        assert_eq!(
            escaped("100 % of $a_b & {c}\\d~e^f --g <h>\n"),
            "100 \\% of \\$a\\_b \\& \\{c\\}\\textbackslash{}d\\textasciitilde{}e\
             \\textasciicircum{}f {-}{-}g \\textless{}h\\textgreater{} "
        );
    }
}
