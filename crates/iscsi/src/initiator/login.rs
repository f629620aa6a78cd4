//! The initiator's side of the login phase (RFC 7143 §6.3, §12.1.3).
//!
//! Each state says what it expects of the next response, and is consumed by it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use protocol::Entropy;

use super::config::Config;
use crate::chap::{self, Algorithm, Challenge, Credentials};
use crate::datamover::{InitiatorDatamover, KeyValues, Unacceptable};
use crate::keys::Parameters;
use crate::limits::MOST_LOGIN_PDUS;
use crate::pdu::{LoginIdentity, LoginRequest, LoginResponse, Stage, Status};
use crate::text::{Text, number};
use crate::violation::Violation;

/// Why a login failed, for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure(pub(super) String);

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self(alloc::format!("the target broke the login's rules: {violation}"))
    }
}

/// What the login expects next.
#[derive(Debug)]
enum Expect {
    /// The choice of an authentication method.
    Method,
    /// The target's challenge.
    Challenge,
    /// The transition out of the security stage, and the target's own proof if it was challenged.
    Proof(Option<Challenge>),
    /// The answers to the operational keys.
    Answers,
}

/// What follows from a response.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Send this.
    Request(LoginRequest, Text),
    /// The full feature phase has begun.
    Done,
}

/// Where a target is instead.
#[derive(Debug)]
pub(super) struct Moved {
    /// TargetAddress, as the target wrote it.
    pub(super) address: String,
    /// The old place is not to be asked again.
    pub(super) permanently: bool,
}

/// What the last request asked for.
#[derive(Debug)]
struct Asked {
    stage: Stage,
    /// The stage that it offered to go to: the target can agree to that, or not.
    transition: Option<Stage>,
}

/// A login under way.
#[derive(Debug)]
pub(super) struct Login {
    expect: Option<Expect>,
    asked: Asked,
    text: Text,
    responses: u32,
    offered: bool,
    /// Where the target says that it is instead (RFC 7143 §11.13.5, status class 1).
    pub(super) moved: Option<Moved>,
    pub(super) parameters: Parameters,
    /// TargetPortalGroupTag, which the first answer to a normal session's login has (RFC 7143 §13.9).
    pub(super) portal_group: Option<u16>,
}

/// The task tag of the whole login.
const TAG: u32 = 0;

fn value<'a>(text: &'a Text, name: &str) -> Option<&'a str> {
    text.pairs().filter_map(Result::ok).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// What every request of a login is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoginContext<'a> {
    config: &'a Config,
    cmd_sn: u32,
    /// Whether what was agreed on is enough for the transport.
    check: fn(KeyValues<'_>) -> Result<(), Unacceptable>,
}

impl<'a> LoginContext<'a> {
    /// Of a login over this transport, with this CmdSN.
    pub(super) fn over<D: InitiatorDatamover>(config: &'a Config, cmd_sn: u32) -> Self {
        Self { config, cmd_sn, check: D::check_key_values }
    }

    fn request(self, stage: Stage) -> LoginRequest {
        LoginRequest::new(stage, LoginIdentity::new_session(self.config.isid), TAG, self.cmd_sn)
    }
}

/// A response to the login, with the text that came with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received<'a> {
    pub(super) response: &'a LoginResponse,
    pub(super) data: &'a [u8],
}

impl Login {
    /// The login and its first request.
    pub(super) fn begin(context: LoginContext<'_>) -> (Self, LoginRequest, Text) {
        let config = context.config;
        let mut text = Text::new();
        text.put("InitiatorName", config.initiator.as_str());
        match &config.target {
            Some(target) => {
                text.put("SessionType", "Normal");
                text.put("TargetName", target.as_str());
            }
            None => text.put("SessionType", "Discovery"),
        }
        let mut first = context.request(Stage::Security);
        if config.chap.is_some() {
            text.put("AuthMethod", "CHAP");
        } else {
            text.put("AuthMethod", "None");
            first = first.transit(Stage::Operational);
        }
        let login = Self {
            expect: Some(Expect::Method),
            asked: Asked {
                stage: Stage::Security,
                transition: config.chap.is_none().then_some(Stage::Operational),
            },
            text: Text::new(),
            responses: 0,
            offered: false,
            moved: None,
            parameters: Parameters::default(),
            portal_group: None,
        };
        (login, first, text)
    }

    /// Takes a response with its text.
    pub(super) fn handle(
        &mut self,
        context: LoginContext<'_>,
        received: Received<'_>,
        entropy: &mut dyn Entropy,
    ) -> Result<Outcome, Failure> {
        let (config, Received { response, data }) = (context.config, received);
        self.responses += 1;
        if self.responses > MOST_LOGIN_PDUS {
            return Err(Violation::TooManyLoginPdus.into());
        }
        self.text.collect(data)?;
        if response.status() != Status::SUCCESS {
            self.moved = moved(response.status(), &self.text);
            return Err(refused(config, response.status(), &self.text));
        }
        let stage = response.current().ok_or(Violation::BadStage)?;
        if response.continues() {
            return Ok(Outcome::Request(context.request(stage), Text::new()));
        }
        let text = core::mem::take(&mut self.text);
        let group = value(&text, "TargetPortalGroupTag").and_then(number);
        self.portal_group = self.portal_group.or(group.and_then(|group| u16::try_from(group).ok()));
        let next = response.transition();
        if matches!(self.expect, Some(Expect::Method)) && config.chap.is_some() {
            require_chap(config, &text)?;
        }
        if stage != self.asked.stage || next.is_some_and(|next| Some(next) != self.asked.transition) {
            return Err(Violation::BadStage.into());
        }
        match self.expect.take().ok_or(Violation::BadStage)? {
            Expect::Method => self.method(context, &text, next),
            Expect::Challenge => self.challenge(context, &text, entropy),
            Expect::Proof(asked) => {
                if let Some(asked) = asked {
                    verify(config, &text, &asked)?;
                }
                self.advance(context, stage, next)
            }
            Expect::Answers => {
                self.take_answers(config, &text)?;
                self.advance(context, stage, next)
            }
        }
    }

    fn method(
        &mut self,
        context: LoginContext<'_>,
        text: &Text,
        next: Option<Stage>,
    ) -> Result<Outcome, Failure> {
        let config = context.config;
        if config.chap.is_none() {
            self.take_answers(config, text)?;
            return self.advance(context, Stage::Security, next);
        }
        let list: Vec<String> =
            config.algorithms.iter().map(|algorithm| algorithm.number().to_string()).collect();
        let mut answer = Text::new();
        answer.put("CHAP_A", &list.join(","));
        self.expect = Some(Expect::Challenge);
        Ok(Outcome::Request(context.request(Stage::Security), answer))
    }

    fn challenge(
        &mut self,
        context: LoginContext<'_>,
        text: &Text,
        entropy: &mut dyn Entropy,
    ) -> Result<Outcome, Failure> {
        let config = context.config;
        let us = config.chap.as_ref().ok_or(Violation::BadChap)?;
        let algorithm = value(text, "CHAP_A").and_then(Algorithm::read);
        let algorithm =
            algorithm.filter(|chosen| config.algorithms.contains(chosen)).ok_or(Violation::BadChap)?;
        let identifier = byte(value(text, "CHAP_I")).ok_or(Violation::BadChap)?;
        let theirs = value(text, "CHAP_C").and_then(chap::decode).ok_or(Violation::BadChap)?;
        let mut answer = Text::new();
        answer.put("CHAP_N", &us.user);
        answer.put("CHAP_R", &chap::encode(&algorithm.respond(identifier, &us.secret, &theirs)));
        let asked = config.mutual.as_ref().map(|_| {
            let challenge = Challenge::new(algorithm, entropy);
            challenge.put(&mut answer);
            challenge
        });
        if asked.as_ref().is_some_and(|ours| theirs == ours.bytes) {
            return Err(Violation::Reflection.into());
        }
        self.expect = Some(Expect::Proof(asked));
        self.asked = Asked { stage: Stage::Security, transition: Some(Stage::Operational) };
        let request = context.request(Stage::Security).transit(Stage::Operational);
        Ok(Outcome::Request(request, answer))
    }

    /// Goes where the target has agreed to go, or asks again.
    fn advance(
        &mut self,
        context: LoginContext<'_>,
        stage: Stage,
        next: Option<Stage>,
    ) -> Result<Outcome, Failure> {
        let config = context.config;
        let to = next.unwrap_or(stage);
        if to == Stage::FullFeature {
            let (agreed, wanted, session) = (&self.parameters, &config.tuning, config.session_type());
            return match (context.check)(KeyValues { agreed, wanted, session }) {
                Ok(()) => Ok(Outcome::Done),
                Err(Unacceptable { advice, .. }) => {
                    Err(Failure(alloc::format!("{} does not agree to {advice}", peer(config))))
                }
            };
        }
        let mut text = Text::new();
        self.expect = Some(if to == Stage::Operational { Expect::Answers } else { Expect::Proof(None) });
        if to == Stage::Operational && !core::mem::replace(&mut self.offered, true) {
            config.tuning.offer(config.session_type(), &mut text);
        }
        let wanted = if to == Stage::Security { Stage::Operational } else { Stage::FullFeature };
        self.asked = Asked { stage: to, transition: Some(wanted) };
        Ok(Outcome::Request(context.request(to).transit(wanted), text))
    }

    fn take_answers(&mut self, config: &Config, text: &Text) -> Result<(), Failure> {
        for pair in text.pairs() {
            let (name, value) = pair?;
            if let Some(key) = config.tuning.find(name) {
                self.parameters.accept(key, value, &config.tuning).map_err(|violation| {
                    Failure(alloc::format!("the target answers {name}={value}: {violation}"))
                })?;
            }
        }
        Ok(())
    }
}

fn byte(text: Option<&str>) -> Option<u8> {
    u8::try_from(number(text?)?).ok()
}

/// Whom the initiator talks to, for an operator.
fn peer(config: &Config) -> String {
    match &config.target {
        Some(target) => alloc::format!("target {target}"),
        None => String::from("the discovery service"),
    }
}

/// The target must choose CHAP where this side has a secret to prove itself with.
fn require_chap(config: &Config, text: &Text) -> Result<(), Failure> {
    let chosen = value(text, "AuthMethod");
    if chosen == Some("CHAP") {
        return Ok(());
    }
    let chosen =
        chosen.map_or_else(|| String::from("no AuthMethod"), |value| alloc::format!("AuthMethod={value}"));
    Err(Failure(alloc::format!(
        "the target does not authenticate by CHAP, which this side requires: {} answers {chosen}; set up the account there, or \
         leave chap= out",
        peer(config)
    )))
}

fn verify(config: &Config, text: &Text, challenge: &Challenge) -> Result<(), Failure> {
    let Credentials { user, secret } = config.mutual.as_ref().ok_or(Violation::BadChap)?;
    let Some(name) = value(text, "CHAP_N").filter(|_| value(text, "CHAP_R").is_some()) else {
        return Err(Failure(alloc::format!(
            "{} does not prove who it is (CHAP_N and CHAP_R), which this side requires: set up mutual CHAP there, or leave the \
             target's account out",
            peer(config)
        )));
    };
    let response = value(text, "CHAP_R").and_then(chap::decode).ok_or(Violation::BadChap)?;
    let expected = challenge.response(secret);
    // RFC 7143 §9.2.1: a response that this side would have given is a failure, even with the right secret.
    let own = config.chap.as_ref().map(|us| challenge.response(&us.secret));
    let reflected = own.is_some_and(|own| chap::equal(&response, &own));
    if name == user && chap::equal(&response, &expected) && !reflected {
        return Ok(());
    }
    Err(Failure(alloc::format!(
        "the target could not prove who it is: {} is not the CHAP account \"{user}\"",
        peer(config)
    )))
}

fn moved(status: Status, text: &Text) -> Option<Moved> {
    let redirects = [Status::MOVED_TEMPORARILY, Status::MOVED_PERMANENTLY].contains(&status);
    let address = value(text, "TargetAddress").filter(|_| redirects)?;
    Some(Moved { address: address.to_string(), permanently: status == Status::MOVED_PERMANENTLY })
}

/// Who was refused by whom: a reader of a log has no URL beside it.
fn refused(config: &Config, status: Status, text: &Text) -> Failure {
    let place =
        value(text, "TargetAddress").map(|address| alloc::format!(" to {address}")).unwrap_or_default();
    let account = config.chap.as_ref().map(|chap| alloc::format!(" with the CHAP account \"{}\"", chap.user));
    Failure(alloc::format!(
        "login refused: {}{place} (status {:#06x}), by {} to the initiator {}{}",
        status.text(),
        status.0,
        peer(config),
        config.initiator,
        account.unwrap_or_default()
    ))
}
