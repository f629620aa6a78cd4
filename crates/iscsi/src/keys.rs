//! The operational keys of RFC 7143 §13, and how each is negotiated (§6.2).
//!
//! One table says of every key what kind of negotiation it takes. Both roles read it: the target as the responder, the
//! initiator to check the target's results against its own offers.

use alloc::string::{String, ToString};

use crate::limits;
use crate::text::{Text, number};
use crate::violation::Violation;

/// Whether a CRC32C digest is used on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestPolicy {
    /// Never.
    Off,
    /// If the peer prefers it; an initiator offers it second.
    Allow,
    /// Always, or there is no session.
    Require,
}

/// What this side wants of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// HeaderDigest.
    pub header_digest: DigestPolicy,
    /// DataDigest.
    pub data_digest: DigestPolicy,
    /// MaxRecvDataSegmentLength of this side, in bytes.
    pub segment: u32,
    /// MaxBurstLength, in bytes.
    pub max_burst: u32,
    /// FirstBurstLength, in bytes.
    pub first_burst: u32,
    /// InitialR2T: unsolicited Data-Out is not wanted.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// MaxOutstandingR2T.
    pub outstanding_r2t: u16,
    /// DefaultTime2Wait, in seconds.
    pub time2wait: u16,
    /// DefaultTime2Retain, in seconds.
    pub time2retain: u16,
    /// What a session over RDMA negotiates besides; `None` over a byte stream.
    pub rdma: Option<RdmaTuning>,
}

/// What this side wants of a session over RDMA (RFC 7145 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdmaTuning {
    /// InitiatorRecvDataSegmentLength, in bytes.
    pub initiator_segment: u32,
    /// TargetRecvDataSegmentLength, in bytes.
    pub target_segment: u32,
    /// MaxOutstandingUnexpectedPDUs of this side: PDUs beside commands and their responses for which it has receives.
    pub unexpected_pdus: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            header_digest: DigestPolicy::Allow,
            data_digest: DigestPolicy::Allow,
            segment: limits::SEGMENT,
            max_burst: limits::MAX_BURST,
            first_burst: limits::FIRST_BURST,
            initial_r2t: false,
            immediate_data: true,
            outstanding_r2t: limits::OUTSTANDING_R2T,
            time2wait: limits::TIME2WAIT,
            time2retain: limits::TIME2RETAIN,
            rdma: None,
        }
    }
}

/// What was agreed on, beginning with the standard's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a Boolean key of the standard")]
pub struct Parameters {
    /// HeaderDigest=CRC32C.
    pub header_digest: bool,
    /// DataDigest=CRC32C.
    pub data_digest: bool,
    /// The peer's MaxRecvDataSegmentLength, in bytes: the most that this side sends in one PDU.
    pub peer_segment: u32,
    /// MaxBurstLength, in bytes.
    pub max_burst: u32,
    /// FirstBurstLength, in bytes.
    pub first_burst: u32,
    /// InitialR2T.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// MaxOutstandingR2T.
    pub outstanding_r2t: u16,
    /// DefaultTime2Wait, in seconds.
    pub time2wait: u16,
    /// DefaultTime2Retain, in seconds.
    pub time2retain: u16,
    /// What was agreed on for RDMA.
    pub rdma: RdmaParameters,
}

/// What was agreed on of RFC 7145 §6's keys, beginning with the standard's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdmaParameters {
    /// RDMAExtensions=Yes.
    pub extensions: bool,
    /// InitiatorRecvDataSegmentLength, in bytes.
    pub initiator_segment: u32,
    /// TargetRecvDataSegmentLength, in bytes.
    pub target_segment: u32,
    /// MaxOutstandingUnexpectedPDUs of the peer; zero where it has not said how many.
    pub unexpected_pdus: u32,
    /// What an initiator's Write Base Offset names the beginning of.
    pub write_base: WriteBase,
    /// iSERHelloRequired=Yes: the initiator wants Hello messages, which nothing here speaks.
    pub hello_required: bool,
}

/// What the Write Base Offset of an iSER header names the beginning of (RFC 7145 §6, TaggedBufferForSolicitedDataOnly).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBase {
    /// The data that does not come with the command: what initiators mean that say nothing of it, whatever the key's default says.
    Solicited,
    /// All of the command's data.
    Whole,
}

impl Default for RdmaParameters {
    fn default() -> Self {
        Self {
            extensions: false,
            initiator_segment: limits::DEFAULT_SEGMENT,
            target_segment: limits::DEFAULT_SEGMENT,
            unexpected_pdus: 0,
            write_base: WriteBase::Solicited,
            hello_required: false,
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            peer_segment: limits::DEFAULT_SEGMENT,
            max_burst: 262_144,
            first_burst: 65_536,
            initial_r2t: true,
            immediate_data: true,
            outstanding_r2t: 1,
            time2wait: 2,
            time2retain: 20,
            rdma: RdmaParameters::default(),
        }
    }
}

/// What a session is for (RFC 7143 §13.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionType {
    /// SCSI commands.
    Normal,
    /// SendTargets.
    Discovery,
}

/// How a key's result comes about (RFC 7143 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A list; the responder takes the first that it supports.
    Digest,
    /// Yes only if both say Yes.
    And,
    /// Yes if one says Yes.
    Or,
    /// The smaller number of this range.
    Least(u32, u32),
    /// The larger number of this range.
    Most(u32, u32),
    /// No negotiation: a number of this range, declared.
    Declared(u32, u32),
    /// No negotiation: Yes or No, declared.
    DeclaredBoolean,
    /// No longer in use; answered as RFC 7143 §13.25 says.
    Obsolete,
}

/// An operational key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its rule.
    pub rule: Rule,
    /// In which sessions it has a meaning.
    pub scope: Scope,
}

/// In which sessions a key has a meaning (RFC 7143 §13, the Use of each).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In all.
    All,
    /// Not in discovery sessions.
    Normal,
}

impl Key {
    /// True when it has a meaning in such a session.
    pub fn is_for(&self, session: SessionType) -> bool {
        self.scope == Scope::All || session == SessionType::Normal
    }
}

const fn key(name: &'static str, rule: Rule, scope: Scope) -> Key {
    Key { name, rule, scope }
}

/// A key that is negotiated, or declared, like a length.
const LEAST_LENGTH: Rule = Rule::Least(limits::LEAST_LENGTH, limits::MOST_LENGTH);
const DECLARED_LENGTH: Rule = Rule::Declared(limits::LEAST_LENGTH, limits::MOST_LENGTH);

/// Every operational key, in the order in which an initiator offers them.
pub const KEYS: [Key; 19] = [
    key("HeaderDigest", Rule::Digest, Scope::All),
    key("DataDigest", Rule::Digest, Scope::All),
    key("MaxRecvDataSegmentLength", DECLARED_LENGTH, Scope::All),
    key("DefaultTime2Wait", Rule::Most(0, 3600), Scope::All),
    key("DefaultTime2Retain", Rule::Least(0, 3600), Scope::All),
    key("ErrorRecoveryLevel", Rule::Least(0, 2), Scope::All),
    key("InitialR2T", Rule::Or, Scope::Normal),
    key("ImmediateData", Rule::And, Scope::Normal),
    key("MaxBurstLength", LEAST_LENGTH, Scope::Normal),
    key("FirstBurstLength", LEAST_LENGTH, Scope::Normal),
    key("MaxConnections", Rule::Least(1, 65_535), Scope::Normal),
    key("MaxOutstandingR2T", Rule::Least(1, 65_535), Scope::Normal),
    key("DataPDUInOrder", Rule::Or, Scope::Normal),
    key("DataSequenceInOrder", Rule::Or, Scope::Normal),
    key("TaskReporting", Rule::Digest, Scope::Normal),
    key("IFMarker", Rule::Obsolete, Scope::All),
    key("OFMarker", Rule::Obsolete, Scope::All),
    key("IFMarkInt", Rule::Obsolete, Scope::All),
    key("OFMarkInt", Rule::Obsolete, Scope::All),
];

/// The keys of a session over RDMA (RFC 7145 §6). Over a byte stream they are not understood.
pub const RDMA_KEYS: [Key; 7] = [
    key("RDMAExtensions", Rule::And, Scope::Normal),
    key("InitiatorRecvDataSegmentLength", LEAST_LENGTH, Scope::Normal),
    key("TargetRecvDataSegmentLength", LEAST_LENGTH, Scope::Normal),
    key("MaxOutstandingUnexpectedPDUs", Rule::Declared(0, u32::MAX), Scope::Normal),
    key("TaggedBufferForSolicitedDataOnly", Rule::DeclaredBoolean, Scope::Normal),
    key("MaxAHSLength", Rule::Declared(0, u32::MAX), Scope::Normal),
    key("iSERHelloRequired", Rule::DeclaredBoolean, Scope::Normal),
];

/// The key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Tuning {
    /// The same for a session over RDMA, in which this side takes data segments of at most `segment` bytes: without digests, as the transport has its own
    /// (RFC 7145 §6.1), and without data that comes by itself but in its command's own PDU.
    pub(crate) fn over_rdma(self, segment: u32) -> Self {
        Self {
            header_digest: DigestPolicy::Off,
            data_digest: DigestPolicy::Off,
            initial_r2t: true,
            segment,
            rdma: Some(RdmaTuning {
                initiator_segment: segment,
                target_segment: limits::RDMA_SEGMENT,
                unexpected_pdus: limits::UNEXPECTED_PDUS,
            }),
            ..self
        }
    }

    /// The key of that name, if it has a meaning in this session.
    pub fn find(&self, name: &str) -> Option<&'static Key> {
        let rdma = || RDMA_KEYS.iter().find(|key| key.name == name);
        find(name).or_else(|| self.rdma.and_then(|_| rdma()))
    }

    /// This side's value of a numeric or Boolean key (1 for Yes).
    fn number(&self, name: &str) -> u32 {
        match name {
            "MaxRecvDataSegmentLength" => self.segment,
            "DefaultTime2Wait" => self.time2wait.into(),
            "DefaultTime2Retain" => self.time2retain.into(),
            "InitialR2T" => self.initial_r2t.into(),
            "ImmediateData" => self.immediate_data.into(),
            "MaxBurstLength" => self.max_burst,
            "FirstBurstLength" => self.first_burst,
            "MaxOutstandingR2T" => self.outstanding_r2t.clamp(1, limits::MOST_R2T).into(),
            "MaxConnections"
            | "DataPDUInOrder"
            | "DataSequenceInOrder"
            | "RDMAExtensions"
            | "TaggedBufferForSolicitedDataOnly" => 1,
            _ => self.rdma.map_or(0, |rdma| rdma.number(name)),
        }
    }

    /// What this side allows of a list key, the preferred first.
    fn list(&self, name: &str) -> &'static [&'static str] {
        let policy = match name {
            "HeaderDigest" => self.header_digest,
            "DataDigest" => self.data_digest,
            _ => return &["RFC3720"],
        };
        match policy {
            DigestPolicy::Off => &["None"],
            DigestPolicy::Allow => &["None", "CRC32C"],
            DigestPolicy::Require => &["CRC32C"],
        }
    }

    /// Declares what a target takes in such a session, in the stage for it (RFC 7143 §13.12, RFC 7145 §6). open-iscsi gives up a login that has a key which it does
    /// not know: keys of RDMA are told only to who says them.
    pub(crate) fn declare(&self, session: SessionType, is_said: impl Fn(&str) -> bool, answer: &mut Text) {
        const UNEXPECTED: &str = "MaxOutstandingUnexpectedPDUs";
        match self.rdma.filter(|_| session == SessionType::Normal) {
            Some(rdma) if is_said(UNEXPECTED) => answer.put(UNEXPECTED, &rdma.unexpected_pdus.to_string()),
            Some(_) => {}
            None => answer.put("MaxRecvDataSegmentLength", &self.segment.to_string()),
        }
    }

    /// The same for a discovery session, whose answers are text: a PDU of them is staged whole.
    pub(crate) fn for_discovery(&self) -> Self {
        Self { segment: self.segment.min(limits::DEFAULT_SEGMENT), ..*self }
    }

    /// Every key that an initiator offers for such a session.
    pub fn offer(&self, session: SessionType, text: &mut Text) {
        let discovery = session == SessionType::Discovery;
        let ours = if discovery { self.for_discovery() } else { *self };
        let rdma = ours.rdma.is_some() && !discovery;
        let more: &[Key] = if rdma { RDMA_KEYS.get(..OFFERED_RDMA_KEYS).unwrap_or_default() } else { &[] };
        for key in KEYS.iter().filter(|key| key.is_for(session)).chain(more) {
            match key.rule {
                Rule::Obsolete => {}
                // Two keys stand in for it, one for each direction.
                Rule::Declared(..) if rdma && key.name == "MaxRecvDataSegmentLength" => {}
                Rule::Digest if key.name == "TaskReporting" => {}
                Rule::Digest => text.put(key.name, &ours.list(key.name).join(",")),
                Rule::And | Rule::Or | Rule::DeclaredBoolean => {
                    text.put(key.name, yes_no(ours.number(key.name) != 0));
                }
                Rule::Least(..) | Rule::Most(..) | Rule::Declared(..) => {
                    text.put(key.name, &ours.number(key.name).to_string());
                }
            }
        }
    }
}

/// So many of [`RDMA_KEYS`], from the first, are offered; the others are for initiators that say them.
const OFFERED_RDMA_KEYS: usize = 5;

impl RdmaTuning {
    fn number(&self, name: &str) -> u32 {
        match name {
            "InitiatorRecvDataSegmentLength" => self.initiator_segment,
            "TargetRecvDataSegmentLength" => self.target_segment,
            "MaxOutstandingUnexpectedPDUs" => self.unexpected_pdus,
            _ => 0,
        }
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn ranged(value: &str, least: u32, most: u32) -> Option<u32> {
    let value = u32::try_from(number(value)?).ok()?;
    (least..=most).contains(&value).then_some(value)
}

impl Parameters {
    /// The responder's part: takes the peer's offer of `key`, and gives the answer; `None` when it needs none.
    pub fn respond(&mut self, key: &Key, value: &str, ours: &Tuning) -> Option<String> {
        let mine = ours.number(key.name);
        let result = match key.rule {
            Rule::Obsolete => return Some(obsolete(key, value).into()),
            Rule::Digest => {
                let chosen = value.split(',').find(|offered| ours.list(key.name).contains(offered));
                let Some(chosen) = chosen else { return Some("Reject".into()) };
                self.set(key.name, u32::from(chosen == "CRC32C"));
                return Some(chosen.into());
            }
            Rule::And => boolean(value).map(|theirs| u32::from(theirs && mine != 0)),
            Rule::Or => boolean(value).map(|theirs| u32::from(theirs || mine != 0)),
            Rule::Least(least, most) => ranged(value, least, most).map(|theirs| theirs.min(mine)),
            Rule::Most(least, most) => ranged(value, least, most).map(|theirs| theirs.max(mine)),
            Rule::Declared(least, most) => {
                let Some(theirs) = ranged(value, least, most) else { return Some("Reject".into()) };
                self.set(key.name, theirs);
                return None;
            }
            Rule::DeclaredBoolean => {
                let Some(theirs) = boolean(value) else { return Some("Reject".into()) };
                self.set(key.name, theirs.into());
                return None;
            }
        };
        let Some(result) = result else { return Some("Reject".into()) };
        self.set(key.name, result);
        Some(match key.rule {
            Rule::And | Rule::Or => yes_no(result != 0).into(),
            _ => result.to_string(),
        })
    }

    /// The originator's part: takes the peer's answer to what [`Tuning::offer`] offered.
    pub fn accept(&mut self, key: &Key, value: &str, ours: &Tuning) -> Result<(), Violation> {
        if matches!(value, "NotUnderstood" | "Irrelevant" | "Reject") {
            return Self::accept_refusal(key, ours);
        }
        let mine = ours.number(key.name);
        let result = match key.rule {
            Rule::Obsolete => return Ok(()),
            Rule::Digest => ours.list(key.name).contains(&value).then_some(u32::from(value == "CRC32C")),
            Rule::And => boolean(value).map(u32::from).filter(|result| *result <= mine),
            Rule::Or => boolean(value).map(u32::from).filter(|result| *result >= mine),
            Rule::Least(least, most) => ranged(value, least, most).filter(|result| *result <= mine),
            Rule::Most(least, most) => ranged(value, least, most).filter(|result| *result >= mine),
            Rule::Declared(least, most) => ranged(value, least, most),
            Rule::DeclaredBoolean => boolean(value).map(u32::from),
        };
        self.set(key.name, result.ok_or(Violation::BadAnswer)?);
        Ok(())
    }

    /// A key that the peer did not take keeps its default, which must be good enough for this side.
    fn accept_refusal(key: &Key, ours: &Tuning) -> Result<(), Violation> {
        let needed = match key.name {
            "HeaderDigest" => ours.header_digest == DigestPolicy::Require,
            "DataDigest" => ours.data_digest == DigestPolicy::Require,
            "RDMAExtensions" => true,
            _ => false,
        };
        if needed { Err(Violation::BadAnswer) } else { Ok(()) }
    }

    /// True unless RDMA carries the session, and the peer has not agreed to that, or wants to begin with Hello messages.
    pub fn agree_on_rdma(&self, ours: &Tuning) -> bool {
        ours.rdma.is_none() || self.rdma.extensions && !self.rdma.hello_required
    }

    /// The same as a role takes them whose peer receives at most `segment` bytes in a PDU, as far as RDMA carries the session. All of a command's data that does not come
    /// with it is read at once, which an initiator cannot tell from several reads.
    pub(crate) fn over_rdma(self, segment: u32) -> Self {
        let agreed = self.rdma.extensions;
        let peer_segment = if agreed { segment } else { self.peer_segment.min(limits::RDMA_SEGMENT) };
        Self { peer_segment, first_burst: self.unsolicited(), max_burst: u32::MAX, ..self }
    }

    fn set(&mut self, name: &str, value: u32) {
        let short = wire::saturate::<u16>(value);
        match name {
            "HeaderDigest" => self.header_digest = value != 0,
            "DataDigest" => self.data_digest = value != 0,
            "MaxRecvDataSegmentLength" => self.peer_segment = value,
            "DefaultTime2Wait" => self.time2wait = short,
            "DefaultTime2Retain" => self.time2retain = short,
            "InitialR2T" => self.initial_r2t = value != 0,
            "ImmediateData" => self.immediate_data = value != 0,
            "MaxBurstLength" => self.max_burst = value,
            "FirstBurstLength" => self.first_burst = value,
            "MaxOutstandingR2T" => self.outstanding_r2t = short,
            _ => self.rdma.set(name, value),
        }
    }

    /// Unsolicited data per command, in bytes; FirstBurstLength may not exceed MaxBurstLength (RFC 7143 §13.14).
    pub fn unsolicited(&self) -> u32 {
        self.first_burst.min(self.max_burst)
    }
}

impl RdmaParameters {
    fn set(&mut self, name: &str, value: u32) {
        match name {
            "RDMAExtensions" => self.extensions = value != 0,
            "InitiatorRecvDataSegmentLength" => self.initiator_segment = value,
            "TargetRecvDataSegmentLength" => self.target_segment = value,
            "MaxOutstandingUnexpectedPDUs" => self.unexpected_pdus = value,
            "iSERHelloRequired" => self.hello_required = value != 0,
            "TaggedBufferForSolicitedDataOnly" => {
                self.write_base = if value != 0 { WriteBase::Solicited } else { WriteBase::Whole };
            }
            _ => {}
        }
    }
}

/// RFC 7143 §13.25: a marker may be declined with No; everything else about markers is rejected.
fn obsolete(key: &Key, value: &str) -> &'static str {
    let marker = matches!(key.name, "IFMarker" | "OFMarker");
    if marker && boolean(value).is_some() { "No" } else { "Reject" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn respond(name: &str, value: &str, ours: &Tuning) -> (Option<String>, Parameters) {
        let mut parameters = Parameters::default();
        let answer = parameters.respond(find(name).unwrap(), value, ours);
        (answer, parameters)
    }

    #[test]
    fn every_rule_has_its_result() {
        let ours = Tuning::default();
        for (name, offer, answer) in [
            ("HeaderDigest", "CRC32C,None", Some("CRC32C")),
            ("HeaderDigest", "None,CRC32C", Some("None")),
            ("HeaderDigest", "MD5", Some("Reject")),
            ("ImmediateData", "Yes", Some("Yes")),
            ("ImmediateData", "No", Some("No")),
            ("InitialR2T", "Yes", Some("Yes")),
            ("InitialR2T", "No", Some("No")),
            ("InitialR2T", "Perhaps", Some("Reject")),
            ("MaxBurstLength", "16776192", Some("1048576")),
            ("MaxBurstLength", "511", Some("Reject")),
            ("FirstBurstLength", "0x1000", Some("4096")),
            ("DefaultTime2Wait", "2", Some("2")),
            ("DefaultTime2Retain", "20", Some("0")),
            ("ErrorRecoveryLevel", "2", Some("0")),
            ("MaxConnections", "8", Some("1")),
            ("MaxOutstandingR2T", "1", Some("1")),
            ("DataPDUInOrder", "No", Some("Yes")),
            ("MaxRecvDataSegmentLength", "65536", None),
            ("MaxRecvDataSegmentLength", "16777216", Some("Reject")),
            ("TaskReporting", "FastAbort,RFC3720", Some("RFC3720")),
            ("IFMarker", "No", Some("No")),
            ("OFMarkInt", "2048~65535", Some("Reject")),
        ] {
            assert_eq!(respond(name, offer, &ours).0.as_deref(), answer, "{name}={offer}");
        }
    }

    #[test]
    fn an_answer_outside_the_offer_is_refused() {
        let ours =
            Tuning { header_digest: DigestPolicy::Require, immediate_data: false, ..Tuning::default() };
        let mut parameters = Parameters::default();
        for (name, answer) in [
            ("HeaderDigest", "None"),
            ("HeaderDigest", "Reject"),
            ("ImmediateData", "Yes"),
            ("MaxBurstLength", "16776192"),
            ("MaxOutstandingR2T", "0"),
            ("ErrorRecoveryLevel", "1"),
            ("InitialR2T", "maybe"),
        ] {
            let result = parameters.accept(find(name).unwrap(), answer, &ours);
            assert_eq!(result, Err(Violation::BadAnswer), "{name}={answer}");
        }
    }

    fn policy() -> impl Strategy<Value = DigestPolicy> {
        prop_oneof![Just(DigestPolicy::Off), Just(DigestPolicy::Allow), Just(DigestPolicy::Require)]
    }

    prop_compose! {
        fn tuning()(
            header_digest in policy(), data_digest in policy(),
            segment in 512_u32..1 << 24, max_burst in 512_u32..1 << 24, first_burst in 512_u32..1 << 24,
            initial_r2t: bool, immediate_data: bool, outstanding_r2t in 1_u16..8,
            time2wait in 0_u16..3600, time2retain in 0_u16..3600,
        ) -> Tuning {
            Tuning { header_digest, data_digest, segment, max_burst, first_burst, initial_r2t, immediate_data,
                     outstanding_r2t, time2wait, time2retain, rdma: None }
        }
    }

    proptest! {
        /// Whatever both sides want, they end up with the same parameters, or know that they cannot.
        #[test]
        fn both_sides_agree(near in tuning(), far in tuning()) {
            let mut offers = Text::new();
            near.offer(SessionType::Normal, &mut offers);
            let (mut initiator, mut target) = (Parameters::default(), Parameters::default());
            for pair in offers.pairs() {
                let (name, value) = pair.unwrap();
                let key = find(name).unwrap();
                if let Some(answer) = target.respond(key, value, &far) {
                    let refused = initiator.accept(key, &answer, &near).is_err();
                    prop_assert_eq!(refused, answer == "Reject" && key.rule == Rule::Digest
                        && near.list(key.name) == ["CRC32C"]);
                }
            }
            prop_assert_eq!(target.peer_segment, near.segment);
            initiator.peer_segment = target.peer_segment;
            prop_assert_eq!(initiator, target);
        }

        #[test]
        fn both_sides_agree_over_rdma(near in tuning(), far in tuning(), segment in 512_u32..8192) {
            let (near, far) = (near.over_rdma(segment), far.over_rdma(limits::RDMA_SEGMENT));
            let mut offers = Text::new();
            near.offer(SessionType::Normal, &mut offers);
            let (mut initiator, mut target) = (Parameters::default(), Parameters::default());
            for pair in offers.pairs() {
                let (name, value) = pair.unwrap();
                let key = far.find(name).unwrap();
                prop_assert!(name != "MaxRecvDataSegmentLength");
                if let Some(answer) = target.respond(key, value, &far) {
                    prop_assert_eq!(initiator.accept(key, &answer, &near), Ok(()), "{}={}", name, answer);
                }
            }
            prop_assert!(initiator.agree_on_rdma(&near) && target.agree_on_rdma(&far));
            prop_assert!(!target.header_digest && !target.data_digest && target.initial_r2t);
            prop_assert_eq!(target.rdma.initiator_segment, segment);
            prop_assert_eq!(target.rdma.unexpected_pdus, limits::UNEXPECTED_PDUS);
            initiator.rdma.unexpected_pdus = target.rdma.unexpected_pdus;
            prop_assert_eq!(initiator, target);
        }

        #[test]
        fn any_value_is_answered(value in "\\PC{0,40}") {
            for key in KEYS.iter().chain(&RDMA_KEYS) {
                let mut parameters = Parameters::default();
                let _ = parameters.respond(key, &value, &Tuning::default());
                let _ = parameters.accept(key, &value, &Tuning::default());
            }
        }
    }
}
