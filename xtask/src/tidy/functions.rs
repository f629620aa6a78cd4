//! The public functions of a file, for rules about what they take and give.

/// A public function: its name, what follows it up to the body, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) signature: &'a str,
    pub(super) line: usize,
}

/// The public functions of a file's code.
pub(super) fn public_functions(code: &str) -> impl Iterator<Item = Function<'_>> {
    code.match_indices("pub ").filter_map(|(start, _)| {
        let line = code.get(..start)?.matches('\n').count() + 1;
        let mut rest = code.get(start..)?.strip_prefix("pub ")?;
        while let Some(behind) =
            ["const ", "async ", "unsafe "].iter().find_map(|word| rest.strip_prefix(word))
        {
            rest = behind;
        }
        let rest = rest.strip_prefix("fn ")?;
        let (name, behind) =
            rest.split_at(rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?);
        Some(Function { name, signature: behind.get(..end(behind)?)?, line })
    })
}

/// Where a signature ends: at its body, or at the semicolon of a trait's method.
fn end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0 && matches!(letter, '{' | ';')).then_some(at)
    })
}
