//! Several processes as one command: a small script for `/bin/sh`.
//!
//! `iscsi-perf` opens one volume and `dd` writes one file; the runner starts, places and kills one process group for each
//! tool. The script is written with every word quoted and stands in the result, so that anybody can run it by hand.

use anyhow::{Context, Result};
use std::path::Path;

use super::raw;

/// The file that holds when the measured window began, as `date +%s.%N` writes it.
pub(super) const WINDOW: &str = "window";

/// A word that the shell takes as it is.
pub(super) fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Words with spaces between them.
pub(super) fn join(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Runs `commands` side by side; fails with the last failure among them.
pub(super) fn parallel(commands: &[String]) -> String {
    let started: Vec<String> = commands.iter().map(|command| format!("{command} & p=\"$p $!\"\n")).collect();
    format!("p=\n{}r=0\nfor i in $p; do wait \"$i\" || r=$?; done\n[ $r = 0 ] || exit $r\n", started.concat())
}

/// Notes the moment.
pub(super) fn note_window() -> String {
    format!("date +%s.%N >{WINDOW}\n")
}

/// `/bin/sh -c SCRIPT`.
pub(super) fn argv(script: &str) -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), script.trim_end().to_owned()]
}

/// The noted moment, seconds since 1970.
pub(super) fn window_start(folder: &Path) -> Result<f64> {
    let path = folder.join(WINDOW);
    let text = raw::text(&path)?;
    let moment: Option<f64> = text.trim().parse().ok().filter(|moment: &f64| moment.is_finite());
    moment.with_context(|| {
        format!("{}: {:?} is not a moment: run the point again", path.display(), text.trim())
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(script: &str) -> (Option<i32>, String) {
        let argv = argv(script);
        let output = Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn words_survive_the_shell() {
        for word in
            ["", "a b", "it's", "$HOME", "`id`", "nbd+unix:///0?socket=/x", "a;b&c|d>e", "*", "\\", "\n"]
        {
            let (code, said) = run(&format!("printf %s {}", quote(word)));
            assert_eq!((code, said.as_str()), (Some(0), word));
        }
    }

    #[test]
    fn a_failure_among_many_is_told() {
        let commands = |codes: &[&str]| codes.iter().map(|code| format!("(exit {code})")).collect::<Vec<_>>();
        assert_eq!(run(&parallel(&commands(&["0", "0"]))).0, Some(0));
        assert_eq!(run(&parallel(&commands(&["0", "7", "0"]))).0, Some(7));
    }
}
