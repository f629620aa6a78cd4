//! A Rust file split into what the compiler sees and what people read.
//!
//! Rules that look for words in code must not trip over the same words in a comment or a string. A whole parser would be a dependency for
//! little: this scanner knows comments, strings, raw strings and character literals, and keeps every line where it was.

/// A Rust file in three views of the same shape: equal line numbers, blanks where a view leaves something out.
#[derive(Debug)]
pub(crate) struct Source {
    /// Code and strings, without comments and without test modules.
    with_strings: String,
    /// Code alone: no comments, no strings, no test modules.
    product: String,
    /// Code alone, test modules included.
    code: String,
}

impl Source {
    /// Scans a text. Never fails: text that is no Rust gives views that make little sense.
    pub(crate) fn new(text: &str) -> Self {
        let (code, with_strings) = Scanner::new(text).run();
        let tests = test_modules(&code);
        Self { with_strings: blank(&with_strings, &tests), product: blank(&code, &tests), code }
    }

    /// The lines of code without comments, strings and test modules, numbered from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.product)
    }

    /// The lines of code without comments and strings, test modules included.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code)
    }

    /// The lines of code with their strings, without comments and test modules.
    pub(crate) fn lines_with_strings(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.with_strings)
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Whether a line holds a word that stands alone: no letter, digit or underscore beside it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        let after = line.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Replaces everything but line ends by blanks within byte ranges.
fn blank(text: &str, ranges: &[std::ops::Range<usize>]) -> String {
    let hidden = |at: usize| ranges.iter().any(|range| range.contains(&at));
    text.char_indices().map(|(at, letter)| if hidden(at) && letter != '\n' { ' ' } else { letter }).collect()
}

/// The byte ranges of `#[cfg(test)]` items with a body in braces.
fn test_modules(code: &str) -> Vec<std::ops::Range<usize>> {
    let starts = code.match_indices("#[cfg(test)]").map(|(start, _)| start);
    starts.filter_map(|start| item_end(code, start).map(|end| start..end)).collect()
}

/// Where the item that begins at `start` ends: at its closing brace, or at a semicolon before any brace.
fn item_end(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, letter) in code.get(start..)?.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(start + offset + 1),
            '}' => depth -= 1,
            ';' if depth == 0 => return Some(start + offset + 1),
            _ => {}
        }
    }
    None
}

/// Walks over a text once and writes two views of it. Both are written a character for a character, blanks being as long in bytes as what
/// they hide, so that places in one view are places in the other.
struct Scanner<'a> {
    rest: &'a str,
    code: String,
    with_strings: String,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            code: String::with_capacity(text.len()),
            with_strings: String::with_capacity(text.len()),
        }
    }

    fn run(mut self) -> (String, String) {
        while let Some(first) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                self.comment(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.comment(block_comment(self.rest));
            } else if let Some(length) = string(self.rest).filter(|_| !self.inside_word()) {
                self.string(length);
            } else if let Some(length) = character(self.rest) {
                self.string(length);
            } else {
                self.plain(first.len_utf8());
            }
        }
        (self.code, self.with_strings)
    }

    /// Whether the last character was part of a word, so that a following `r` or `b` begins no literal.
    fn inside_word(&self) -> bool {
        !self.rest.starts_with('"') && self.code.chars().next_back().is_some_and(is_word)
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn plain(&mut self, length: usize) {
        let taken = self.take(length);
        self.code.push_str(taken);
        self.with_strings.push_str(taken);
    }

    fn string(&mut self, length: usize) {
        let taken = self.take(length);
        hide(&mut self.code, taken);
        self.with_strings.push_str(taken);
    }

    fn comment(&mut self, length: usize) {
        let taken = self.take(length);
        hide(&mut self.code, taken);
        hide(&mut self.with_strings, taken);
    }
}

fn hide(view: &mut String, text: &str) {
    view.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

/// The length of the block comment that the text begins with. They nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string literal that the text begins with, of any kind.
fn string(text: &str) -> Option<usize> {
    let body = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - body.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw.get(hashes..)?.strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = inner.find(&close).map_or(inner.len(), |at| at + close.len());
        return Some(prefix + 1 + hashes + 1 + end);
    }
    let inner = body.strip_prefix('"')?;
    Some(prefix + 1 + until_quote(inner, '"'))
}

/// The length of the character literal that the text begins with; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let mut letters = inner.chars();
    let first = letters.next()?;
    if first == '\\' {
        return Some(1 + until_quote(inner, '\''));
    }
    (letters.next()? == '\'').then(|| 1 + first.len_utf8() + 1)
}

/// The length up to and with the closing quote, over escapes.
fn until_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        if letter == quote && !escaped {
            return at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(text).code
    }

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        let text = "let a = \"unsafe\"; // unsafe\nb /* unsafe /* x */ unsafe */ c";
        let seen = code(text);
        assert_eq!(seen.len(), text.len());
        assert!(!seen.contains("unsafe"));
        assert!(seen.contains("let a ="));
        assert!(seen.ends_with(" c"));
    }

    #[test]
    fn raw_strings_byte_strings_and_escapes_end_where_rust_ends_them() {
        for literal in [r##"r#"x " unsafe"#"##, r#"b"unsafe""#, r#""a\"unsafe""#, r#"br"unsafe""#, r#""\\""#]
        {
            let seen = code(&format!("f({literal}); tail"));
            assert!(!seen.contains("unsafe"), "{literal}: {seen}");
            assert!(seen.contains("tail"), "{literal}: {seen}");
        }
    }

    #[test]
    fn a_lifetime_is_no_character_and_a_quote_character_is_no_string() {
        assert!(code("fn f<'a>(x: &'a str) { unsafe_thing }").contains("unsafe_thing"));
        assert!(code("match c { '\"' => one, '\\'' => two }").contains("two"));
        assert!(code("letter == 'x' && rest").contains("rest"));
    }

    #[test]
    fn test_modules_are_no_product() {
        let source =
            Source::new("use a;\n#[cfg(test)]\nmod tests {\n  fn f() { std::fs::x() }\n}\nfn after() {}");
        assert!(source.product_lines().all(|(_, line)| !line.contains("std::fs")));
        assert!(source.product_lines().any(|(number, line)| number == 6 && line.contains("after")));
        assert!(source.code_lines().any(|(number, line)| number == 4 && line.contains("std::fs")));
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
