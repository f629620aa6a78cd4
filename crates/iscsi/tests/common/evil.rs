//! An initiator whose target is a script: for everything that a well-behaved target never does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

use buf::Pool;
use iscsi::datamover::tcp;
use iscsi::initiator::{Action, Config};
use iscsi::pdu::{BasicHeaderSegment, Bhs, LoginRequest, LoginResponse, Opcode, Stage, Status, padding};
use iscsi::text::Text;
use protocol::pair::Half;
use protocol::{Connection as _, Instant, SeededEntropy};

use super::raw::Pdu;

/// The initiator, and what the script knows.
pub struct Evil {
    pub half: Half<tcp::InitiatorConnection>,
    pub now: Instant,
    /// Bytes of a digest behind each header and each data segment that the initiator sends.
    pub digests: (usize, usize),
    pub failed: Option<String>,
    pub actions: Vec<Action>,
    stat_sn: u32,
}

impl Evil {
    pub fn new(config: Config) -> Self {
        let entropy = Box::new(SeededEntropy::new(5));
        let connection = tcp::InitiatorConnection::new(Instant::ZERO, config, Pool::new(16 << 20), entropy);
        Self {
            half: Half::new(connection),
            now: Instant::ZERO,
            digests: (0, 0),
            failed: None,
            actions: Vec::new(),
            stat_sn: 1,
        }
    }

    /// What the initiator sends now.
    pub fn requests(&mut self) -> Vec<Pdu> {
        let bytes = self.half.transmit(self.now);
        self.act();
        split(&bytes, self.digests)
    }

    fn act(&mut self) {
        while let Some(action) = self.half.connection.poll_action() {
            match action {
                Action::Failed { reason } => self.failed = Some(reason),
                other => self.actions.push(other),
            }
        }
    }

    /// Sends a PDU whose numbers are right, and data of that length.
    pub fn send(&mut self, header: Bhs, data: &[u8]) {
        let bytes = self.numbered(header, data);
        self.half.receive(self.now, &bytes);
        self.act();
    }

    fn numbered(&mut self, mut header: Bhs, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        header[5..8].copy_from_slice(&length[1..]);
        header[24..28].copy_from_slice(&self.stat_sn.to_be_bytes());
        // A window that is as wide as may be.
        header[28..32].copy_from_slice(&1_u32.to_be_bytes());
        header[32..36].copy_from_slice(&1000_u32.to_be_bytes());
        self.stat_sn += 1;
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len()), 0);
        bytes
    }

    /// Takes the one login request that the initiator sends, with its keys.
    pub fn login_request(&mut self) -> (LoginRequest, Vec<(String, String)>) {
        let mut pdus = self.requests();
        assert_eq!(pdus.len(), 1, "one login request at a time; failed: {:?}", self.failed);
        let pdu = pdus.remove(0);
        assert_eq!(pdu.opcode(), Opcode::LOGIN_REQUEST);
        let text = String::from_utf8(pdu.data).unwrap();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        let keys = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        (LoginRequest::from_bytes(&pdu.header), keys)
    }

    /// Answers it.
    pub fn login_response(&mut self, request: &LoginRequest, next: Option<Stage>, keys: &[(&str, &str)]) {
        let mut response = LoginResponse::new(request, Status::SUCCESS);
        if let Some(next) = next {
            response = response.transit(next).with_tsih(u16::from(next == Stage::FullFeature));
        }
        let mut text = Text::new();
        for (key, value) in keys {
            text.put(key, value);
        }
        self.send(response.to_bytes(), text.bytes());
    }

    /// Logs the initiator in without authentication; the operational answers are those.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) {
        let (first, _) = self.login_request();
        self.login_response(
            &first,
            Some(Stage::Operational),
            &[("AuthMethod", "None"), ("TargetPortalGroupTag", "1")],
        );
        let (second, _) = self.login_request();
        self.login_response(&second, Some(Stage::FullFeature), keys);
    }

    pub fn failure(&self) -> &str {
        self.failed.as_deref().unwrap_or("it goes on")
    }
}

/// The PDUs of a send.
pub fn split(bytes: &[u8], (header_digest, data_digest): (usize, usize)) -> Vec<Pdu> {
    let mut rest = bytes;
    let mut pdus = Vec::new();
    while !rest.is_empty() {
        let header: Bhs = rest[..48].try_into().unwrap();
        let length = BasicHeaderSegment::from_bytes(&header).data_length() as usize;
        let start = 48 + header_digest;
        let tail = if length == 0 { 0 } else { padding(length) + data_digest };
        pdus.push(Pdu { header, data: rest[start..start + length].to_vec() });
        rest = &rest[start + length + tail..];
    }
    pdus
}
