//! The `linerate` command: serves volumes, copies and compares them, and puts load on them.
//!
//! Each command has a module of its own with its arguments, their help and what they do. Errors end here: they are
//! printed once, with their causes, and the exit code says what kind they were.

mod attach;
mod bench;
mod check;
mod checksum;
mod cluster;
mod compare;
mod copy;
mod directory;
mod discover;
mod docs;
mod endpoint;
mod inspect;
mod lab;
mod losses;
mod ls;
mod metadata;
mod output;
mod overwrite;
mod reserve;
mod serve;
mod signals;
mod watch;
mod zero;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

/// Where to read on.
const MORE: &str = "linerate man --page linerate-urls says how volumes are named, linerate man --page linerate-configuration what the \
    configuration file may hold; linerate man FOLDER writes the manual pages, linerate completions SHELL prints completions.";

/// Storage over Ethernet: serves volumes over iSCSI and NVMe/TCP and folders over NFS, and uses them, in one ordinary process.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, about, arg_required_else_help = true, after_help = MORE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve volumes over iSCSI, NVMe/TCP and RDMA, and folders over NFS
    Serve(Box<serve::Args>),
    /// Make a volume appear as an NBD server, a file, or a virtual machine's disk
    Attach(Box<attach::Args>),
    /// Show which volumes have lost acknowledged writes, and clear that
    Losses(losses::Args),
    /// Describe a volume
    Inspect(inspect::Args),
    /// Show or change who may use a volume: registrations and reservations
    Reserve(reserve::Args),
    /// Copy one volume onto another, or from or to a stream
    Copy(Box<copy::Args>),
    /// Compare two volumes byte by byte
    Compare(Box<compare::Args>),
    /// Print a volume's checksum, as sha256sum does for a file
    Checksum(checksum::Args),
    /// Make a volume, or a part of it, read as zeros
    Zero(Box<zero::Args>),
    /// Overwrite the start of a volume with patterns, and require that it keeps them
    Check(check::Args),
    /// Measure volumes with a closed or open loop of requests
    Bench(bench::Args),
    /// Measure what a server of files does with names: makes, looks up, lists and removes files
    Metadata(metadata::Args),
    /// Run published evaluations of storage adapters here, and report them
    Lab(lab::Args),
    /// Show a cluster of four nodes on this machine
    Cluster(cluster::Args),
    /// List what a portal offers
    Discover(discover::Args),
    /// List what a directory at an NFS server holds
    Ls(ls::Args),
    /// Print completions for a shell
    Completions(docs::CompletionsArgs),
    /// List, print or write the manual pages
    Man(docs::ManArgs),
}

/// The exit code of an error, where a command has no codes of its own.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| output::refusal(explained(error)).exit());
    let result = match cli.command {
        Command::Lab(args) => return lab::run(&args),
        Command::Serve(args) => serve::run(&args).map(done),
        Command::Losses(args) => losses::run(&args).map(done),
        Command::Attach(args) => attach::run(&args).map(done),
        Command::Compare(args) => return compare::run(&args),
        Command::Reserve(args) => return reserve::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Checksum(args) => checksum::run(&args),
        Command::Zero(args) => zero::run(&args),
        Command::Check(args) => check::run(&args).map(done),
        Command::Bench(args) => bench::run(&args),
        Command::Metadata(args) => metadata::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Discover(args) => discover::run(&args).map(done),
        Command::Ls(args) => ls::run(&args).map(done),
        Command::Completions(args) => docs::completions(&args, Cli::command()).map(done),
        Command::Man(args) => docs::man(&args, Cli::command()).map(done),
    };
    match result {
        Ok(code) => code,
        Err(error) => output::failed(&error, FAILED),
    }
}

/// Adds what fio's users should write to the error about an option that there is not.
fn explained(mut error: clap::Error) -> clap::Error {
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) if error.kind() == ErrorKind::UnknownArgument => given.clone(),
        _ => return error,
    };
    let benches = std::env::args().nth(1).is_some_and(|command| command == "bench");
    if let Some(here) = bench::words::instead(&given).filter(|_| benches) {
        let tip = StyledStr::from(format!("fio's {given} is something else here: {here}"));
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// The exit code of a command that has only one.
fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
