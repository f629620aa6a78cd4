//! `linerate reserve`: who is registered with a volume, who holds its reservation, and changes of that.
//! `docs/howto/reserve.md` has the keys of the JSON, which stay.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use linerate::reservation::{Command, Registrant, ReservationType};
use linerate::{Changed, Holdings, VolumeErrorKind, VolumeUrl};
use serde::Serialize;

use crate::output;

/// Arguments of `reserve`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1?hostid=…
    ///
    /// Who asks is the initiator (initiator=, isid=) or the host (hostnqn=, hostid=) that the URL names; without a name it is
    /// one that this machine always has.
    url: VolumeUrl,
    /// What to do
    #[arg(value_enum, default_value_t = Action::Report)]
    action: Action,
    /// This host's key so far, as 0x… or decimal; what it is registered with, if not given
    #[arg(long, value_parser = key)]
    key: Option<u64>,
    /// The key to register; 0 removes the registration
    #[arg(long, value_parser = key, required_if_eq("action", "register"))]
    new_key: Option<u64>,
    /// The key to preempt; the holder's, if not given
    #[arg(long, value_parser = key)]
    victim: Option<u64>,
    /// What the reservation allows; to release, the type held if not given
    #[arg(long = "type", value_enum, required_if_eq_any([("action", "reserve"), ("action", "preempt"), ("action", "preempt-abort")]))]
    kind: Option<Kind>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Show the registrations and the reservation
    Report,
    /// Register, change or remove this host's key
    Register,
    /// Take the reservation
    Reserve,
    /// Give the reservation back
    Release,
    /// Remove another key, and take the reservation if it was held with that
    Preempt,
    /// The same, and abort what its owners have under way
    PreemptAbort,
    /// Remove every registration and the reservation
    Clear,
}

/// The types of reservations, in the words of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Only the holder writes, everybody reads
    WriteExclusive,
    /// Only the holder reads and writes
    ExclusiveAccess,
    /// Registered hosts write, everybody reads
    WriteExclusiveRegistrants,
    /// Only registered hosts read and write
    ExclusiveAccessRegistrants,
    /// Registered hosts write, everybody reads; all of them hold it
    WriteExclusiveAll,
    /// Only registered hosts read and write; all of them hold it
    ExclusiveAccessAll,
}

const KINDS: [(Kind, ReservationType, &str); 6] = [
    (Kind::WriteExclusive, ReservationType::WriteExclusive, "write-exclusive"),
    (Kind::ExclusiveAccess, ReservationType::ExclusiveAccess, "exclusive-access"),
    (
        Kind::WriteExclusiveRegistrants,
        ReservationType::WriteExclusiveRegistrants,
        "write-exclusive-registrants",
    ),
    (
        Kind::ExclusiveAccessRegistrants,
        ReservationType::ExclusiveAccessRegistrants,
        "exclusive-access-registrants",
    ),
    (Kind::WriteExclusiveAll, ReservationType::WriteExclusiveAll, "write-exclusive-all"),
    (Kind::ExclusiveAccessAll, ReservationType::ExclusiveAccessAll, "exclusive-access-all"),
];

fn word(kind: ReservationType) -> &'static str {
    KINDS.iter().find(|(_, known, _)| *known == kind).map_or("unknown", |(.., word)| word)
}

fn type_of(kind: Kind) -> Option<ReservationType> {
    KINDS.iter().find(|(known, ..)| *known == kind).map(|(_, kind, _)| *kind)
}

/// Reads a key: 64 bits, hexadecimal behind `0x` or decimal.
fn key(text: &str) -> Result<u64> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| anyhow!("write a key of 64 bits as 0x and hexadecimal digits, or as a decimal number"))
}

fn hexadecimal(key: u64) -> String {
    format!("0x{key:x}")
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    url: String,
    generation: u32,
    /// The reservation's type.
    reservation: Option<&'static str>,
    registrations: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    key: String,
    registrant: String,
    holder: bool,
    own: bool,
}

impl Report {
    fn new(url: &VolumeUrl, holdings: &Holdings) -> Self {
        let view = &holdings.view;
        let registrations = view.registrations.iter().map(|entry| Entry {
            key: hexadecimal(entry.key),
            registrant: name(&entry.registrant),
            holder: view.holds(&entry.registrant),
            own: holdings.is_own(&entry.registrant),
        });
        Self {
            url: url.to_string(),
            generation: view.generation,
            reservation: view.reservation.as_ref().map(|(kind, _)| word(*kind)),
            registrations: registrations.collect(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("{:<14}{}", "reservation", self.reservation.unwrap_or("none")),
            format!("{:<14}{}", "generation", self.generation),
            format!("{:<14}{}", "registered", self.registrations.len()),
        ];
        lines.extend(self.registrations.iter().map(|entry| {
            let holder = if entry.holder { ", holder" } else { "" };
            let own = if entry.own { ", this host" } else { "" };
            format!("  {:<18}  {}{holder}{own}", entry.key, entry.registrant)
        }));
        lines
    }
}

/// A registrant as its protocol names it: an initiator port, or a host identifier.
fn name(registrant: &Registrant) -> String {
    match registrant {
        Registrant::Nexus { initiator_port, .. } => initiator_port.to_string(),
        Registrant::Host { identifier, .. } => names::HostId(*identifier).to_string(),
    }
}

/// The change that the arguments ask for, once it is known what is reserved.
fn command(args: &Asked, holdings: &Holdings) -> Result<Command> {
    let own = holdings.own_key();
    let key = args.key.or(own).unwrap_or(0);
    let held = holdings.view.reservation.as_ref().map(|(kind, _)| *kind);
    let kind = args.kind.or(held).context("nothing is reserved, so that there is no type to be released");
    Ok(match args.action {
        Action::Register => {
            let new_key = args.new_key.unwrap_or(0);
            Command::Register { key: Some(key), new_key, persist: None }
        }
        Action::Reserve => Command::Reserve { key, kind: kind? },
        Action::Preempt | Action::PreemptAbort => {
            let all = held.is_some_and(ReservationType::is_all);
            let holders = if all { Some(0) } else { holdings.holders_key() };
            let victim =
                args.victim.or(holders).context("nothing is reserved: say whose key with --victim")?;
            Command::Preempt { key, victim, kind: kind?, abort: args.action == Action::PreemptAbort }
        }
        Action::Clear => Command::Clear { key },
        // The standards call it a success that changes nothing.
        Action::Release if own.is_some() && held.is_some() && !holdings.holds() => {
            bail!("another host holds the reservation: only its holder can release it");
        }
        Action::Release | Action::Report => Command::Release { key, kind: kind? },
    })
}

/// The part of the arguments that says what is to be changed.
#[derive(Debug, Clone, Copy)]
struct Asked {
    action: Action,
    key: Option<u64>,
    new_key: Option<u64>,
    victim: Option<u64>,
    kind: Option<ReservationType>,
}

/// Why a change was refused, as far as what is reserved tells, and what to do.
fn refusal(args: &Asked, kind: VolumeErrorKind, now: &Holdings) -> String {
    let own = now.own_key();
    let view = &now.view;
    match (args.action, own, args.key) {
        (Action::Register, None, Some(given)) if given != 0 => {
            return format!(
                "this host is not registered, so that its key is not {}: leave --key out",
                hexadecimal(given)
            );
        }
        (action, None, _) if action != Action::Register => {
            return "this host is not registered: do that first, with register --new-key KEY".to_owned();
        }
        (_, Some(own), Some(given)) if given != own => {
            let (own, given) = (hexadecimal(own), hexadecimal(given));
            return format!("this host is registered with the key {own}, not {given}: leave --key out");
        }
        _ => {}
    }
    match (&view.reservation, args.action) {
        (_, Action::Preempt | Action::PreemptAbort) if args.victim.is_some() => {
            "nobody is registered with the key to be preempted: look at the report".to_owned()
        }
        (Some((held, _)), Action::Release) if args.kind.is_some_and(|kind| kind != *held) => {
            format!("the reservation is of the type {}: name that, or leave --type out", word(*held))
        }
        (Some((held, _)), Action::Reserve) => {
            let holder = now
                .holders_key()
                .map_or("all registrants".to_owned(), |key| format!("the key {}", hexadecimal(key)));
            format!(
                "a reservation of the type {} is held with {holder}: wait until it is released, or preempt it",
                word(*held)
            )
        }
        _ => kind.to_string(),
    }
}

/// Exit code of a change that the far end refused.
const REFUSED: u8 = 1;
/// Exit code of everything that went wrong on the way.
const FAILED: u8 = 2;

/// Runs the command. The exit code is 0 for success, 1 for a change that was refused, 2 for an error.
pub(crate) fn run(args: &Args) -> ExitCode {
    match attempt(args) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(why)) => output::failed(&anyhow::anyhow!("{}: refused: {why}", args.url), REFUSED),
        Err(error) => output::failed(&error, FAILED),
    }
}

/// Does what was asked for; gives the reason if it was refused.
fn attempt(args: &Args) -> Result<Option<String>> {
    let Args { action, key, new_key, victim, .. } = *args;
    let asked = Asked { action, key, new_key, victim, kind: args.kind.and_then(type_of) };
    let changed = match action {
        Action::Report => Changed { result: Ok(()), now: linerate::reservations(&args.url)? },
        _ => linerate::reserve(&args.url, move |holdings| command(&asked, holdings))?,
    };
    if let Err(kind) = changed.result {
        return Ok(Some(refusal(&asked, kind, &changed.now)));
    }
    let report = Report::new(&args.url, &changed.now);
    if args.json {
        output::json(&report)?;
    } else {
        report.lines().iter().try_for_each(|line| output::line(line))?;
    }
    Ok(None)
}
