//! `lab agent`: lets a lab elsewhere start and measure what it needs on this host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use lab_runner::agent::{Agent, Settings, Token};

use super::program::{own_program, stop_by_signal};
use crate::output;

/// Arguments of `lab agent`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Address and port to listen at; others than loopback need --token-file
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7311")]
    listen: SocketAddr,
    /// File with the token that a lab must know; without it one is made for as long as the agent runs
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Folder for what the agent makes; no other agent may have the same
    #[arg(long, value_name = "FOLDER", default_value = "lab-agent")]
    state: PathBuf,
    /// Serial number of a device whose content may be lost; may be given several times
    #[arg(long, value_name = "SERIAL")]
    destroy: Vec<String>,
}

/// The token that was made for one run of an agent; removed with it.
#[derive(Debug)]
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // Without the agent it opens nothing.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves labs until a signal ends it.
pub(crate) fn run(args: &Args) -> Result<u8> {
    if args.token_file.is_none() && !args.listen.ip().is_loopback() {
        bail!(
            "whoever reaches {} could start programs here: give --token-file FILE, made with \
             `(umask 077; head -c 32 /dev/urandom | base64 >FILE)`",
            args.listen
        );
    }
    let stop = stop_by_signal()?;
    let (token, made) = match &args.token_file {
        Some(path) => (Token::read(path)?, None),
        None => make_token(&args.state)?,
    };
    let state = std::path::absolute(&args.state).context("cannot tell where the state folder is")?;
    let settings = Settings {
        listen: args.listen,
        token,
        state,
        linerate: own_program()?,
        destroy: args.destroy.iter().cloned().collect(),
    };
    // A line that nobody reads any more is no reason to end what runs.
    let tell = |what: &str| drop(output::line(what));
    let agent = Agent::start(settings, &tell)?;
    if let Some(Made(path)) = &made {
        output::line(&format!("token: {}", path.display()))?;
    }
    output::line(&format!("listening: {}", agent.address()?))?;
    agent.run(&stop, &tell)?;
    Ok(0)
}

fn make_token(state: &Path) -> Result<(Token, Option<Made>)> {
    std::fs::create_dir_all(state).with_context(|| format!("cannot make {}", state.display()))?;
    let path = state.join(format!("token-{}", std::process::id()));
    Ok((Token::make(&path)?, Some(Made(path))))
}
