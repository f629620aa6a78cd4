//! The public functions of a file, for rules about what they take and give: those that say `pub`, and those of public traits, which need not.

/// A public function: its name, what follows it up to the body, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) signature: &'a str,
    pub(super) line: usize,
}

/// The public functions of a file's code.
pub(super) fn public_functions(code: &str) -> impl Iterator<Item = Function<'_>> {
    let said = code.match_indices("pub ").filter_map(|(start, word)| {
        let mut at = start + word.len();
        while let Some(behind) = qualifier(code.get(at..)?) {
            at += behind;
        }
        function(code, at, start)
    });
    said.chain(trait_functions(code))
}

/// The length of what may stand before `fn`. The string behind `extern` is blank here.
fn qualifier(text: &str) -> Option<usize> {
    let word = ["const ", "async ", "unsafe ", "extern "].into_iter().find(|word| text.starts_with(word))?;
    let blanks = text.get(word.len()..)?;
    Some(word.len() + blanks.len() - blanks.trim_start_matches(' ').len())
}

/// The functions of public traits: those that stand directly in a trait's braces.
fn trait_functions(code: &str) -> impl Iterator<Item = Function<'_>> {
    let traits = ["pub trait ", "pub unsafe trait "].into_iter().flat_map(|word| code.match_indices(word));
    traits.flat_map(move |(start, _)| {
        let mut depth = 0_usize;
        let open = code.get(start..).and_then(|text| text.find('{')).map_or(code.len(), |at| start + at);
        let body = code.get(open..).unwrap_or_default();
        let inside = body.char_indices().map_while(move |(at, letter)| {
            match letter {
                '{' => depth += 1,
                '}' if depth <= 1 => return None,
                '}' => depth -= 1,
                _ => {}
            }
            Some((open + at, depth))
        });
        let begins = move |at: usize| {
            let before = code.get(..at).and_then(|text| text.chars().next_back());
            code.get(at..).is_some_and(|text| text.starts_with("fn "))
                && before.is_none_or(char::is_whitespace)
        };
        inside
            .filter(move |(at, depth)| *depth == 1 && begins(*at))
            .filter_map(|(at, _)| function(code, at, at))
    })
}

/// The function whose `fn` is at a place, told of at the line of another.
fn function(code: &str, at: usize, told: usize) -> Option<Function<'_>> {
    let line = code.get(..told)?.matches('\n').count() + 1;
    let rest = code.get(at..)?.strip_prefix("fn ")?;
    let (name, behind) = rest.split_at(rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?);
    Some(Function { name, signature: behind.get(..end(behind)?)?, line })
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
