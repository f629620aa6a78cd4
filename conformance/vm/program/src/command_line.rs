//! What every command of the program shares with the command line: how a failure is put, the usage, numbers, and lines of output.

/// What went wrong, in words.
pub(crate) type Words<T> = Result<T, String>;

/// What the program prints for arguments that name no command.
pub(crate) const USAGE: &str = "usage: vm-guest load FOLDER SEED OPERATIONS DEVICE | verify FOLDER SEED DONE | \
    replay LOG TARGET POINTS SEED [--drop MAGIC] -- CHECK… | contend KIND:DEVICE KIND:DEVICE ROUNDS SEED HISTORY";

/// A number on the command line.
pub(crate) fn number(word: &str) -> Words<u64> {
    word.parse().map_err(|_| format!("{word:?} is not a number"))
}

/// A line for whoever reads the script's output.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    // Nobody reads a line that cannot be written.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
