//! Columns of tables that fit a width, and bars.

/// One column of a table.
pub(super) struct Column<T> {
    pub(super) head: &'static str,
    /// In columns of the terminal. The first column of width 0 takes what is left.
    pub(super) width: u16,
    pub(super) right: bool,
    /// Columns of a high number are left out first.
    pub(super) rank: u8,
    pub(super) cell: fn(&T) -> String,
}

/// Least width of the column that takes what is left.
const NAME_MIN: u16 = 8;
/// Its width where there is more room, unless a text needs more: figures stay beside their name.
const NAME_USUAL: u16 = 32;

/// The columns that fit, each with its place and width. `longest` is the width of the longest text
/// in the column that takes what is left.
pub(super) fn fit<T>(
    columns: &[Column<T>],
    width: u16,
    longest: usize,
) -> Vec<(&Column<T>, u16, u16)> {
    let longest = u16::try_from(longest).unwrap_or(u16::MAX).max(NAME_USUAL);
    let mut kept: Vec<&Column<T>> = columns.iter().collect();
    let needs = |kept: &[&Column<T>]| {
        let widths = kept
            .iter()
            .map(|one| if one.width == 0 { NAME_MIN } else { one.width });
        let gaps = u16::try_from(kept.len().saturating_sub(1)).unwrap_or(u16::MAX);
        widths.fold(gaps, u16::saturating_add)
    };
    while needs(&kept) > width && kept.len() > 1 {
        let worst = kept.iter().enumerate().max_by_key(|(_, one)| one.rank);
        let Some((at, _)) = worst else { break };
        kept.remove(at);
    }
    let left = width.saturating_sub(needs(&kept));
    let mut x = 0_u16;
    let mut placed = Vec::new();
    for one in kept {
        let own = if one.width == 0 {
            NAME_MIN.saturating_add(left).min(longest).min(width)
        } else {
            one.width
        };
        placed.push((one, x, own));
        x = x.saturating_add(own).saturating_add(1);
    }
    placed
}

/// Whether a bar is made of it.
pub(super) fn is_bar(cell: char) -> bool {
    matches!(cell, '█' | '░')
}

/// A bar of `width` cells, filled to `part`. A part above 0 fills one cell, less than all leaves
/// one.
pub(super) fn bar(part: f64, width: u16) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a width"
    )]
    let full = match (part * f64::from(width)).round() as u16 {
        0 if part > 0.0 => 1,
        full if full >= width && part < 0.995 => width.saturating_sub(1),
        full => full.min(width),
    };
    let full = usize::from(full);
    "█".repeat(full) + &"░".repeat(usize::from(width) - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_empty_or_full_only_at_the_ends() {
        assert_eq!(bar(0.0, 4), "░░░░");
        assert_eq!(bar(0.001, 4), "█░░░");
        assert_eq!(bar(0.99, 4), "███░");
        assert_eq!(bar(1.0, 4), "████");
    }

    #[test]
    fn columns_of_a_high_rank_are_left_out_first() {
        let column = |head, width, rank| Column::<()> {
            head,
            width,
            right: false,
            rank,
            cell: |()| String::new(),
        };
        let columns = [
            column("NAME", 0, 0),
            column("RATE", 5, 2),
            column("FULL", 5, 1),
        ];
        let heads = |width| {
            let placed = fit(&columns, width, 40).into_iter();
            placed
                .map(|(one, x, width)| (one.head, x, width))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            heads(30),
            [("NAME", 0, 18), ("RATE", 19, 5), ("FULL", 25, 5)]
        );
        assert_eq!(heads(20), [("NAME", 0, 8), ("RATE", 9, 5), ("FULL", 15, 5)]);
        assert_eq!(heads(19), [("NAME", 0, 13), ("FULL", 14, 5)]);
        assert_eq!(heads(3), [("NAME", 0, 3)]);
        // As wide as its longest text, and no wider.
        assert_eq!(heads(90)[0], ("NAME", 0, 40));
    }
}
