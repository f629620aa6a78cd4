//! The target's side of the login phase (RFC 7143 §6.3, §11.12, §11.13).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use names::Iqn;
use protocol::Entropy;

use super::access::{Answered, Chap, ProvenInitiator};
use super::portal::{Node, Portal};
use crate::chap::{self, Algorithm, Challenge, Credentials};
use crate::datamover::{KeyValues, TargetDatamover, Unacceptable};
use crate::keys::{Parameters, SessionType, Tuning};
use crate::limits::{LONGEST_VALUE, MOST_LOGIN_PDUS};
use crate::login::{Move, Position, judge};
use crate::pdu::{LoginIdentity, LoginRequest, LoginResponse, Stage, Status};
use crate::session::{Nexus, Request};
use crate::text::Text;
use crate::violation::Violation;

/// Why a login fails: the status for the initiator, and the reason for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: Status,
    pub(super) text: &'static str,
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self { status: violation.status(), text: violation.text() }
    }
}

impl From<Unacceptable> for Failure {
    fn from(unacceptable: Unacceptable) -> Self {
        unacceptable.violation.into()
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self { status, text: status.text() }
    }
}

/// What follows from a login request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Send this.
    Respond(LoginResponse, Text),
    /// Ask the group; [`Login::finish`] follows its answer.
    Join(Request),
}

/// How far the authentication is.
#[derive(Debug)]
enum Proof {
    /// Nothing was said about it yet.
    Open,
    /// AuthMethod=CHAP is agreed; CHAP_A must follow.
    ExpectAlgorithms,
    /// The challenge is out; CHAP_N and CHAP_R must follow.
    ExpectResponse(Challenge),
    /// Nothing more is needed.
    Done,
}

/// The keys of one request that need each other.
#[derive(Debug, Default)]
struct Security<'a> {
    method: Option<&'a str>,
    algorithms: Option<&'a str>,
    name: Option<&'a str>,
    response: Option<&'a str>,
    identifier: Option<&'a str>,
    challenge: Option<&'a str>,
}

/// A login under way.
#[derive(Debug)]
pub(super) struct Login {
    portal: Arc<Portal>,
    /// What this connection negotiates, to its end.
    pub(super) tuning: Tuning,
    /// Whether what was agreed on is enough for the transport.
    check: fn(KeyValues<'_>) -> Result<(), Unacceptable>,
    stage: Stage,
    requests: u32,
    identity: Option<(LoginIdentity, u32)>,
    text: Text,
    seen: BTreeSet<String>,
    proof: Proof,
    declared: bool,
    last: Option<(LoginRequest, Text)>,
    pub(super) parameters: Parameters,
    pub(super) initiator: Option<Iqn>,
    pub(super) discovery: bool,
    /// The target, once it is named.
    pub(super) node: Option<Arc<Node>>,
    pub(super) target_name: Option<String>,
    known: bool,
    /// The account that the initiator has proved.
    pub(super) proven: Option<Credentials>,
    /// Why the next request is refused, whatever it is.
    refused: Option<Failure>,
}

impl Login {
    /// Bytes of the text that it has collected.
    pub(super) fn size(&self) -> usize {
        self.text.bytes().len()
    }

    /// A login over this transport that begins.
    pub(super) fn over<D: TargetDatamover>(portal: Arc<Portal>) -> Self {
        Self {
            tuning: D::tuning(portal.tuning),
            check: D::check_key_values,
            portal,
            stage: Stage::Security,
            requests: 0,
            identity: None,
            text: Text::new(),
            seen: BTreeSet::new(),
            proof: Proof::Open,
            declared: false,
            last: None,
            parameters: Parameters::default(),
            initiator: None,
            discovery: false,
            node: None,
            target_name: None,
            known: false,
            proven: None,
            refused: None,
        }
    }

    /// The portal is this from now on; what was agreed already stays.
    pub(super) fn take_portal(&mut self, portal: &Arc<Portal>) {
        self.portal = Arc::clone(portal);
        self.refused = None;
    }

    /// The login fails with its next request.
    pub(super) fn refuse(&mut self, status: Status) {
        self.refused = Some(status.into());
    }

    /// True when the initiator may use this target, as far as its proof has come.
    pub(super) fn may_use(&self, node: &Node) -> bool {
        let Some(initiator) = &self.initiator else { return false };
        if self.is_past_proof() {
            node.access.admits(ProvenInitiator { initiator, account: self.proven.as_ref() })
        } else {
            node.access.allows(initiator)
        }
    }

    /// True when the initiator may look for targets at this portal, as far as its proof has come.
    pub(super) fn may_discover(&self, portal: &Portal) -> bool {
        let proves = |chap: &Chap| Some(&chap.initiator) == self.proven.as_ref();
        !self.is_past_proof() || portal.discovery.as_ref().is_none_or(proves)
    }

    /// True when nothing will be proved any more.
    fn is_past_proof(&self) -> bool {
        matches!(self.proof, Proof::Done) || self.stage != Stage::Security || self.last.is_some()
    }

    /// The connection's number, once a request has come.
    pub(super) fn cid(&self) -> u16 {
        self.identity.map_or(0, |(identity, _)| identity.cid)
    }

    /// Takes a request with its text.
    pub(super) fn handle(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<Outcome, Failure> {
        if let Some(failure) = self.refused {
            return Err(failure);
        }
        if self.last.is_some() {
            return Err(Violation::BadStage.into());
        }
        self.check_identity(request)?;
        self.text.collect(data)?;
        let transit = request.wants_transit().then(|| request.next());
        if request.continues() {
            if transit.is_some() {
                return Err(Violation::BadStage.into());
            }
            return Ok(Outcome::Respond(LoginResponse::new(request, Status::SUCCESS), Text::new()));
        }
        let first = !self.known;
        let position = if first { Position::First(self.stage) } else { Position::Later(self.stage) };
        let wanted = judge(position, request.current(), transit)?;
        self.stage = request.current().unwrap_or(self.stage);
        let text = core::mem::take(&mut self.text);
        let mut answer = Text::new();
        let security = self.read_keys(&text, &mut answer)?;
        if first {
            self.identify(&mut answer)?;
        }
        self.prove(&security, &mut answer, entropy)?;
        self.respond(request, wanted, answer)
    }

    fn check_identity(&mut self, request: &LoginRequest) -> Result<(), Failure> {
        self.requests += 1;
        if self.requests > MOST_LOGIN_PDUS {
            return Err(Violation::TooManyLoginPdus.into());
        }
        if request.version_min() > 0 {
            return Err(Violation::BadVersion.into());
        }
        let identity = (request.identity(), request.task_tag());
        if *self.identity.get_or_insert(identity) != identity {
            return Err(Violation::LoginChanged.into());
        }
        Ok(())
    }

    fn read_keys<'a>(&mut self, text: &'a Text, answer: &mut Text) -> Result<Security<'a>, Failure> {
        let mut security = Security::default();
        for pair in text.pairs() {
            let (name, value) = pair?;
            if !self.seen.insert(name.to_string()) {
                return Err(Violation::DuplicateKey.into());
            }
            if value.len() > LONGEST_VALUE && !matches!(name, "CHAP_C" | "CHAP_R") {
                return Err(Violation::ValueTooLong.into());
            }
            match name {
                "AuthMethod" => security.method = Some(value),
                "CHAP_A" => security.algorithms = Some(value),
                "CHAP_N" => security.name = Some(value),
                "CHAP_R" => security.response = Some(value),
                "CHAP_I" => security.identifier = Some(value),
                "CHAP_C" => security.challenge = Some(value),
                _ => self.read_key(name, value, answer)?,
            }
        }
        Ok(security)
    }

    fn read_key(&mut self, name: &str, value: &str, answer: &mut Text) -> Result<(), Failure> {
        match name {
            "InitiatorName" => {
                self.initiator = Some(value.parse().map_err(|_| Violation::MissingName)?);
            }
            // Who wants to go where is said once: what was judged may not change (RFC 7143 §6.3).
            "TargetName" | "SessionType" if self.known => return Err(Violation::LoginChanged.into()),
            "TargetName" => self.target_name = Some(value.into()),
            "SessionType" => match value {
                "Normal" => self.discovery = false,
                "Discovery" => self.discovery = true,
                _ => return Err(Violation::BadSessionType.into()),
            },
            "InitiatorAlias" => {}
            "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" => answer.put(name, "Reject"),
            _ => match self.tuning.find(name) {
                Some(key) if !key.is_for(self.session_type()) => answer.put(name, "Irrelevant"),
                Some(key) => {
                    if let Some(result) = self.parameters.respond(key, value, &self.tuning) {
                        answer.put(name, &result);
                    }
                }
                None => answer.put(name, "NotUnderstood"),
            },
        }
        Ok(())
    }

    /// After the first request: who wants to go where, and may he.
    fn identify(&mut self, answer: &mut Text) -> Result<(), Failure> {
        self.known = true;
        let initiator = self.initiator.as_ref().ok_or(Violation::MissingName)?;
        if self.discovery {
            return Ok(());
        }
        let name = self.target_name.as_ref().ok_or(Violation::MissingName)?;
        let found = name.parse().ok().and_then(|name| self.portal.find(&name));
        let node = found.ok_or(Status::NOT_FOUND)?;
        if !node.access.allows(initiator) {
            return Err(Status::AUTHORIZATION_FAILURE.into());
        }
        self.node = Some(Arc::clone(node));
        if !node.alias.is_empty() {
            answer.put("TargetAlias", &node.alias);
        }
        answer.put("TargetPortalGroupTag", &node.portal_group.to_string());
        Ok(())
    }

    /// The accounts of which the initiator must prove one; none are needed if there are none.
    fn accounts(&self) -> Vec<&Chap> {
        match (&self.node, &self.initiator) {
            (Some(node), Some(initiator)) => node.access.accounts(initiator),
            _ => self.portal.discovery.iter().collect(),
        }
    }

    fn prove(
        &mut self,
        keys: &Security<'_>,
        answer: &mut Text,
        entropy: &mut dyn Entropy,
    ) -> Result<(), Failure> {
        let proof = core::mem::replace(&mut self.proof, Proof::Open);
        self.proof = match (proof, keys) {
            (Proof::Open, Security { method: Some(methods), .. }) => self.choose_method(methods, answer)?,
            (Proof::ExpectAlgorithms, Security { algorithms: Some(offered), .. }) => {
                self.challenge(offered, answer, entropy)?
            }
            (Proof::ExpectResponse(challenge), Security { response: Some(_), .. }) => {
                self.proven = Some(self.check(keys, &challenge, answer)?);
                Proof::Done
            }
            (proof, Security { algorithms: None, name: None, response: None, challenge: None, .. }) => proof,
            _ => return Err(Violation::BadChap.into()),
        };
        Ok(())
    }

    fn choose_method(&self, methods: &str, answer: &mut Text) -> Result<Proof, Failure> {
        let (method, proof) = match self.accounts().as_slice() {
            [] => ("None", Proof::Done),
            _ => ("CHAP", Proof::ExpectAlgorithms),
        };
        if !methods.split(',').any(|offered| offered == method) {
            return Err(Violation::NoCommonMethod.into());
        }
        answer.put("AuthMethod", method);
        Ok(proof)
    }

    fn challenge(
        &self,
        offered: &str,
        answer: &mut Text,
        entropy: &mut dyn Entropy,
    ) -> Result<Proof, Failure> {
        let accounts = self.accounts();
        // The name is not known yet: the hash must be good enough for every account.
        let good = |hash: &Algorithm| accounts.iter().all(|chap| chap.algorithms.contains(hash));
        let allowed: Vec<Algorithm> = Algorithm::ALL.into_iter().filter(good).collect();
        let algorithm = Algorithm::choose(offered, &allowed).ok_or(Violation::NoCommonMethod)?;
        let challenge = Challenge::new(algorithm, entropy);
        answer.put("CHAP_A", &algorithm.number().to_string());
        challenge.put(answer);
        Ok(Proof::ExpectResponse(challenge))
    }

    /// Looks whether the response proves an account, and proves the target's own if that is asked for.
    fn check(
        &self,
        keys: &Security<'_>,
        challenge: &Challenge,
        answer: &mut Text,
    ) -> Result<Credentials, Failure> {
        let name = keys.name.ok_or(Violation::BadChap)?;
        let response = keys.response.and_then(chap::decode).ok_or(Violation::BadChap)?;
        let answered = Answered { challenge, name, response: &response };
        let chap = answered.proven(&self.accounts()).ok_or(Violation::WrongResponse)?;
        let proven = chap.initiator.clone();
        let (Some(identifier), Some(theirs)) = (keys.identifier, keys.challenge) else {
            return if keys.identifier.or(keys.challenge).is_none() {
                Ok(proven)
            } else {
                Err(Violation::BadChap.into())
            };
        };
        let identifier = crate::text::number(identifier).and_then(|number| u8::try_from(number).ok());
        let identifier = identifier.ok_or(Violation::BadChap)?;
        let theirs = chap::decode(theirs).filter(|bytes| !bytes.is_empty()).ok_or(Violation::BadChap)?;
        if theirs == challenge.bytes {
            return Err(Violation::Reflection.into());
        }
        let us = chap.target.as_ref().ok_or(Violation::NoCommonMethod)?;
        answer.put("CHAP_N", &us.user);
        answer.put("CHAP_R", &chap::encode(&challenge.algorithm.respond(identifier, &us.secret, &theirs)));
        Ok(proven)
    }

    /// True when nothing stands in the way of leaving the security stage.
    fn proved(&self) -> bool {
        matches!(self.proof, Proof::Done) || self.accounts().is_empty()
    }

    fn respond(
        &mut self,
        request: &LoginRequest,
        wanted: Move,
        mut answer: Text,
    ) -> Result<Outcome, Failure> {
        if !self.proved() && (self.stage != Stage::Security || matches!(self.proof, Proof::Open)) {
            // Whoever leaves out what is needed is told so at once.
            return Err(Violation::NoCommonMethod.into());
        }
        let response = LoginResponse::new(request, Status::SUCCESS);
        let next = match wanted {
            Move::Propose(next) if self.proved() => next,
            _ => {
                self.declare(&mut answer);
                return Ok(Outcome::Respond(response, answer));
            }
        };
        if next != Stage::FullFeature {
            self.stage = next;
            return Ok(Outcome::Respond(response.transit(next), answer));
        }
        let (agreed, wanted, session) = (&self.parameters, &self.tuning, self.session_type());
        (self.check)(KeyValues { agreed, wanted, session })?;
        self.declare_now(&mut answer);
        self.last = Some((*request, answer));
        Ok(Outcome::Join(self.join(request)))
    }

    /// Declares what this side receives, once, in the stage for it.
    fn declare(&mut self, answer: &mut Text) {
        if self.stage == Stage::Operational {
            self.declare_now(answer);
        }
    }

    fn declare_now(&mut self, answer: &mut Text) {
        if core::mem::replace(&mut self.declared, true) {
            return;
        }
        self.tuning.declare(self.session_type(), |key| self.seen.contains(key), answer);
    }

    fn session_type(&self) -> SessionType {
        if self.discovery { SessionType::Discovery } else { SessionType::Normal }
    }

    fn join(&self, request: &LoginRequest) -> Request {
        let node = self.node.as_ref();
        let nexus = Nexus {
            initiator: self.initiator.as_ref().map(ToString::to_string).unwrap_or_default(),
            isid: request.isid,
            target: node.map(|node| node.name.to_string()).unwrap_or_default(),
            portal_group: node.map_or(0, |node| node.portal_group),
        };
        Request::Join { nexus, tsih: request.tsih(), cid: request.cid() }
    }

    /// The group has answered: the last response of the login, and the first CmdSN of the session.
    pub(super) fn finish(&mut self, tsih: u16) -> Option<(LoginResponse, Text, LoginRequest)> {
        let (request, answer) = self.last.take()?;
        self.proof = Proof::Done;
        let response =
            LoginResponse::new(&request, Status::SUCCESS).transit(Stage::FullFeature).with_tsih(tsih);
        Some((response, answer, request))
    }

    /// The request whose answer waits for the group.
    pub(super) fn waiting(&self) -> Option<LoginRequest> {
        self.last.as_ref().map(|(request, _)| *request)
    }
}
