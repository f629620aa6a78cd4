//! What the guests of `conformance/vm` run beside Debian's programs: `vm-guest load`, `verify` and `replay` for the crash script, `contend` for
//! two initiators that take a disk from each other.
//!
//! A program of its own, as no Debian package replays a log of dm-log-writes, and as histories need times that no shell can take. It depends on
//! nothing, so that it is built in seconds and is small in a guest's memory.

mod block;
mod clients;
mod command_line;
mod contend;
mod dice;
mod files;
mod judge;
mod log;
mod replay;

use std::process::ExitCode;

use crate::command_line::{USAGE, say};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["load", folder, seed, operations, device] => files::load(folder, seed, operations, device),
        ["verify", folder, seed, done] => files::verify(folder, seed, done),
        ["replay", rest @ ..] => replay::run(rest),
        ["contend", rest @ ..] => contend::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            say(&words);
            ExitCode::FAILURE
        }
    }
}
