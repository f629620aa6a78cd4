//! A figure's numbers: one table that becomes both the CSV file and the rows on the page.
//!
//! Both come from the same cells, so they cannot differ. The file has every digit; the page rounds to four significant ones.

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Its head, with the unit: `latency p99 (µs)`. Unique within its table.
    pub(crate) name: String,
    /// Set to the right and drawn lighter: a bound of an interval, not a value of its own.
    pub(crate) minor: bool,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A number in the column's unit.
    Number(f64),
    /// Nothing was measured.
    Missing,
}

impl Cell {
    /// Words.
    pub(crate) fn text(words: impl Into<String>) -> Self {
        Self::Text(words.into())
    }

    /// A number, or nothing.
    pub(crate) fn number(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Missing, Self::Number)
    }

    /// True for what is set to the right.
    pub(crate) fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_))
    }

    /// As on the page.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(words) => words.clone(),
            Self::Number(value) => rounded(*value),
            Self::Missing => "–".to_owned(),
        }
    }

    /// As in the file: every digit, so that it reads back as the same number.
    pub(crate) fn raw(&self) -> String {
        match self {
            Self::Text(words) => words.clone(),
            Self::Number(value) => format!("{value}"),
            Self::Missing => String::new(),
        }
    }
}

/// Columns and rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    /// The head.
    pub(crate) columns: Vec<Column>,
    /// As many cells each as there are columns.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these heads and no rows.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = names.into_iter().map(|name| Column { name: name.to_owned(), minor: false });
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a column.
    pub(crate) fn column(&mut self, name: impl Into<String>) {
        self.columns.push(Column { name: name.into(), minor: false });
    }

    /// Adds a column that a reader may pass over.
    pub(crate) fn minor_column(&mut self, name: impl Into<String>) {
        self.columns.push(Column { name: name.into(), minor: true });
    }

    /// The file (RFC 4180, line ends as there).
    pub(crate) fn csv(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|column| field(&column.name)).collect();
        let mut text = head.join(",");
        text.push_str("\r\n");
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| field(&cell.raw())).collect();
            text.push_str(&cells.join(","));
            text.push_str("\r\n");
        }
        text
    }
}

/// A field of RFC 4180 §2: quoted where it holds what would end it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Four significant digits, without an exponent; whole numbers stay whole, thousands are set apart.
pub(crate) fn rounded(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        size if size >= 1000.0 || value.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{size:.digits$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{}{fraction}", grouped(whole))
}

/// Digits with a comma before every three.
pub(crate) fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_every_digit_and_quotes_what_would_end_a_field() {
        let mut table = Table::new(["bs", "name", "IOPS"]);
        table.rows.push(vec![Cell::text("4k"), Cell::text("a, \"b\""), Cell::Number(1_234.5)]);
        table.rows.push(vec![Cell::text("8k"), Cell::text("c"), Cell::Missing]);
        assert_eq!(table.csv(), "bs,name,IOPS\r\n4k,\"a, \"\"b\"\"\",1234.5\r\n8k,c,\r\n");
    }

    #[test]
    fn the_page_shows_four_digits() {
        for (value, shown) in [
            (0.0, "0"),
            (1.2346, "1.235"),
            (56.789, "56.79"),
            (123.456, "123.5"),
            (98_765.4, "98,765"),
            (1_234_567.0, "1,234,567"),
            (-0.5, "−0.5000"),
        ] {
            assert_eq!(rounded(value), shown);
        }
        assert_eq!(Cell::number(Some(f64::NAN)), Cell::Missing);
    }
}
