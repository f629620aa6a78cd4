//! The tables of an HTML page: rows with their cells, lines and the heading they stand under.
//!
//! Reports by Windows tools are HTML that no XML parser accepts (`<br>`, `&nbsp;`, unquoted attributes). Their tables are
//! all that is wanted, so this is no HTML parser: it knows rows, cells and what stands outside them, and takes anything else
//! as text or skips it.

/// A row of a table.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Where it begins, from 1.
    pub(super) line: usize,
    /// The last text before it that stands in no cell: the heading of its table.
    pub(super) heading: String,
    /// Its cells' texts, blanks folded.
    pub(super) cells: Vec<String>,
}

impl Row {
    /// A cell; empty when the row is shorter.
    pub(super) fn cell(&self, column: usize) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }
}

/// Every row that has cells, in order.
pub(super) fn rows(page: &str) -> Vec<Row> {
    let mut reader = Reader::default();
    let mut rest = page;
    while let Some(open) = rest.find('<') {
        let (text, tag) = rest.split_at(open);
        reader.text(text);
        rest = skipped(tag).unwrap_or_else(|| {
            let end = tag.find('>').map_or(tag.len(), |end| end + 1);
            let (tag, after) = tag.split_at(end);
            reader.tag(tag);
            after
        });
    }
    reader.text(rest);
    reader.end_row();
    reader.rows
}

/// What follows a comment, a script or a style sheet, if one begins here.
fn skipped(tag: &str) -> Option<&str> {
    let ends = [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>")];
    let (_, end) = ends
        .into_iter()
        .find(|(start, _)| tag.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start)))?;
    let last = end.len().min(tag.len());
    let found = tag.as_bytes().windows(last).position(|window| window.eq_ignore_ascii_case(end.as_bytes()));
    // The end is ASCII, so it ends on a character's boundary; without one nothing is left.
    Some(found.and_then(|at| tag.get(at + end.len()..)).unwrap_or(""))
}

#[derive(Debug, Default)]
struct Reader {
    rows: Vec<Row>,
    lines: usize,
    row: Option<Row>,
    cell: Option<String>,
    heading: String,
}

impl Reader {
    fn text(&mut self, text: &str) {
        let folded = fold(text);
        if let Some(cell) = &mut self.cell {
            if !folded.is_empty() && !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(&folded);
        } else if !folded.is_empty() {
            self.heading = folded;
        }
        self.lines += text.matches('\n').count();
    }

    fn tag(&mut self, tag: &str) {
        let name: String =
            tag.chars().skip(1).take_while(|sign| sign.is_ascii_alphanumeric() || *sign == '/').collect();
        match name.to_ascii_lowercase().trim_end_matches('/') {
            "tr" => {
                self.end_row();
                let line = self.lines + 1;
                self.row = Some(Row { line, heading: self.heading.clone(), cells: Vec::new() });
            }
            "td" | "th" => {
                self.end_cell();
                self.cell = Some(String::new());
            }
            "/td" | "/th" => self.end_cell(),
            "/tr" | "/table" => self.end_row(),
            _ => {}
        }
        self.lines += tag.matches('\n').count();
    }

    fn end_cell(&mut self) {
        if let Some(cell) = self.cell.take() {
            let heading = &self.heading;
            let line = self.lines + 1;
            let row =
                self.row.get_or_insert_with(|| Row { line, heading: heading.clone(), cells: Vec::new() });
            row.cells.push(cell);
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        if let Some(row) = self.row.take().filter(|row| !row.cells.is_empty()) {
            self.rows.push(row);
        }
    }
}

/// Blanks folded and the entities that occur in reports replaced.
fn fold(text: &str) -> String {
    let plain: Vec<&str> = text.split_whitespace().collect();
    let mut text = plain.join(" ");
    if text.contains('&') {
        for (entity, sign) in
            [("&nbsp;", " "), ("&#160;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        {
            text = text.replace(entity, sign);
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_lines_and_headings() {
        let page = "<html><style>td {}</style><p>One</p>\n<table><tr><th>a<th>b &amp; c</tr>\n\
                    <TR class='x'><TD>1 <b>2</b></TD>\n<TD>&nbsp;</TD></TR></table><!-- <td>no</td> -->Two<tr/><td>z";
        let rows = rows(page);
        let shown: Vec<(usize, &str, String)> =
            rows.iter().map(|row| (row.line, row.heading.as_str(), row.cells.join("|"))).collect();
        assert_eq!(
            shown,
            [(2, "One", "a|b & c".to_owned()), (3, "One", "1 2|".to_owned()), (4, "Two", "z".to_owned())]
        );
    }

    #[test]
    fn unfinished_pages_end() {
        for page in
            ["<", "<td", "<!--", "<script>", "a < b", "<tr><td>x", "<styl\u{e9}>", "<script>\u{1F600}"]
        {
            assert!(rows(page).len() <= 1, "{page}");
        }
    }
}
