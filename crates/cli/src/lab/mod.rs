//! `linerate lab`: published evaluations, run here.
//!
//! Exit codes: 0 all is well, 1 a regression was found, 2 a measurement failed or is invalid, or the run did not come about, 3
//! the scenario cannot be tested here.

mod agent;
mod display;
mod exit_code;
mod folder;
mod inspect;
mod offline;
mod program;
mod run;
mod selftest;
mod verdicts;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab_runner::run::preflight::NotTestable;

use self::exit_code::{INVALID, NOT_TESTABLE};
use crate::output;

/// Arguments of `lab`.
#[derive(Debug, Parser)]
#[command(after_help = exit_code::HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the scenarios
    List(inspect::ListArgs),
    /// Show a scenario: its question, arms, claims, and what the publication says
    Show(inspect::ScenarioArgs),
    /// Say what a run would measure, how long it would take, and what is missing here
    Plan(run::PlanArgs),
    /// Run a scenario and write its report
    Run(run::Args),
    /// Go on with a run that was cut off
    Resume(run::ResumeArgs),
    /// Write a run's report anew
    Report(offline::RunFolder),
    /// Compare two runs, or the arms of one
    Compare(offline::CompareArgs),
    /// Fail when a run fell behind another by more than it may
    Regress(offline::RegressArgs),
    /// Make a run of another tool's results, labelled as imported
    Import(offline::ImportArgs),
    /// Describe this machine, or what differs between two runs' machines
    Env(offline::EnvArgs),
    /// Let a lab elsewhere start and measure what it needs on this host
    Agent(agent::Args),
    /// Hold the instrument against what is known on this machine
    Selftest(selftest::Args),
    /// Remove what runs that were cut off left behind: processes, namespaces, mounts, control groups
    Clean(offline::CleanArgs),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    let result = match &args.command {
        Command::List(args) => inspect::list(args),
        Command::Show(args) => inspect::show(args),
        Command::Plan(args) => run::plan(args),
        Command::Run(args) => run::run(args),
        Command::Resume(args) => run::resume(args),
        Command::Report(args) => offline::report(args),
        Command::Compare(args) => offline::compare(args),
        Command::Regress(args) => offline::regress(args),
        Command::Import(args) => offline::import(args),
        Command::Env(args) => offline::env(args),
        Command::Agent(args) => agent::run(args),
        Command::Selftest(args) => selftest::run(args),
        Command::Clean(args) => offline::clean(args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let untestable = error.downcast_ref::<NotTestable>().is_some();
            output::failed(&error, if untestable { NOT_TESTABLE } else { INVALID })
        }
    }
}
