//! Rows of comma, semicolon or tab separated files, with the lines that they stand on.

use anyhow::Result;

use super::limits;
use super::source::Source;

/// A row and where it begins.
#[derive(Debug)]
pub(super) struct Row {
    /// From 1.
    pub(super) line: usize,
    cells: csv::StringRecord,
}

impl Row {
    /// The cell of a column, without surrounding blanks; empty when the row is shorter.
    pub(super) fn cell(&self, column: usize) -> &str {
        self.cells.get(column).unwrap_or("").trim()
    }

    /// How many cells it has.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Every cell.
    pub(super) fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(str::trim)
    }
}

/// The delimiter of a header line: whichever of tab, semicolon and comma occurs most outside quotes.
pub(super) fn delimiter(header: &str) -> u8 {
    let outside: String = header.split('"').step_by(2).collect();
    let count = |sign: char| outside.matches(sign).count();
    [(b'\t', count('\t')), (b';', count(';')), (b',', count(','))]
        .into_iter()
        .max_by_key(|(sign, found)| (*found, *sign == b','))
        .map_or(b',', |(sign, _)| sign)
}

/// The rows of a text, one by one; `first` is the line on which the text begins in its file.
pub(super) fn rows<'a>(
    source: &'a Source,
    text: &'a str,
    first: usize,
    delimiter: u8,
) -> impl Iterator<Item = Result<Row>> + 'a {
    let reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    reader.into_records().map(move |record| {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            source.error(
                first + usize::try_from(line).unwrap_or(0),
                "this row is no table row; export it again",
            )
        })?;
        let line = record.position().map_or(1, csv::Position::line);
        let row = Row { line: first + usize::try_from(line).unwrap_or(1) - 1, cells: record };
        if row.len() > limits::MOST_COLUMNS {
            return Err(source.error(
                row.line,
                format_args!("more than {} columns; export fewer counters", limits::MOST_COLUMNS),
            ));
        }
        Ok(row)
    })
}

/// Which columns a header has.
#[derive(Debug)]
pub(super) struct Header {
    names: Vec<String>,
}

impl Header {
    /// Of the header's row; names are compared without case, quotes or surrounding blanks.
    pub(super) fn of(row: &Row) -> Self {
        Self { names: row.cells().map(simple).collect() }
    }

    /// The first column that bears one of the names.
    pub(super) fn find(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.names.iter().position(|own| own == &simple(name)))
    }

    /// How many columns there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// A column's name, in lower case.
    pub(super) fn name(&self, column: usize) -> &str {
        self.names.get(column).map_or("", String::as_str)
    }
}

fn simple(name: &str) -> String {
    name.trim().trim_matches(|sign| sign == '\'' || sign == '"').to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delimiter_is_the_one_that_occurs_most() {
        assert_eq!(delimiter("a,b,c"), b',');
        assert_eq!(delimiter("\"1,5\";\"2,5\";\"3\""), b';');
        assert_eq!(delimiter("a\tb,c\td"), b'\t');
        assert_eq!(delimiter(""), b',');
    }

    #[test]
    fn rows_know_their_lines_even_when_a_cell_spans_two() {
        let source = Source::from_bytes("t.csv", b"a,b\n\"x\ny\",2\n3,4\n");
        let lines: Vec<usize> = rows(&source, &source.text, 1, b',').map(|row| row.unwrap().line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }
}
