//! A target driven by hand-made PDUs: for everything that a well-behaved initiator never does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    missing_docs,
    reason = "each test file uses its own part"
)]

use std::sync::Arc;

use buf::Pool;
use iscsi::datamover::tcp;
use iscsi::pdu::{
    BasicHeaderSegment, Bhs, LoginIdentity, LoginRequest, LoginResponse, Opcode, Stage, padding,
};
use iscsi::session::Sessions;
use iscsi::target::{Action, Input, Portal, ResetResult};
use iscsi::text::Text;
use protocol::pair::Half;
use protocol::{CloseReason, Connection, Group, GroupMessage, Instant};
use volume::{Epoch, Submission, VolumeId};

use super::{INITIATOR, ISID, Memory, TARGET, resources};

/// One PDU that the target sent.
#[derive(Debug, Clone)]
pub struct Pdu {
    pub header: Bhs,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn view(&self) -> BasicHeaderSegment {
        BasicHeaderSegment::from_bytes(&self.header)
    }

    pub fn opcode(&self) -> Opcode {
        self.view().opcode()
    }
}

/// A target, its volume, and the time.
pub struct Raw {
    pub half: Half<tcp::TargetConnection>,
    pub memory: Memory,
    pub sessions: Sessions<u8>,
    pub now: Instant,
    pub cmd_sn: u32,
    pub events: Vec<(VolumeId, scsi::NexusEvent)>,
    /// Resets that others' tasks have not ended for.
    pub resets: Vec<u32>,
    pub hold_resets: bool,
    /// What was submitted, and judged by which epoch.
    pub submitted: Vec<(VolumeId, Epoch)>,
    /// Commands for the owner of the reservations, who answers nothing.
    pub reserves: Vec<u32>,
    received: Vec<u8>,
}

impl Raw {
    pub fn new(portal: Portal) -> Self {
        Self::with_pool(portal, &Pool::new(64 << 20))
    }

    /// A target with memory that it shares with others.
    pub fn with_pool(portal: Portal, pool: &Pool) -> Self {
        let blocks = portal.nodes.first().map_or(0, |node| node.device.units[0].geometry.blocks);
        let connection = tcp::TargetConnection::new(Instant::ZERO, Arc::new(portal), resources(pool));
        Self {
            half: Half::new(connection),
            memory: Memory::new(usize::try_from(blocks).unwrap()),
            sessions: Sessions::new(),
            now: Instant::ZERO,
            cmd_sn: 1,
            events: Vec::new(),
            resets: Vec::new(),
            hold_resets: false,
            submitted: Vec::new(),
            reserves: Vec::new(),
            received: Vec::new(),
        }
    }

    pub fn logged_in(portal: Portal) -> Self {
        let mut raw = Self::new(portal);
        let status = raw.log_in(&[("InitialR2T", "No"), ("MaxRecvDataSegmentLength", "65536")]);
        assert_eq!(status, Ok(()));
        raw
    }

    /// Logs in without authentication; the error is the login's status.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) -> Result<(), u16> {
        let mut text = Text::new();
        text.put("InitiatorName", INITIATOR);
        text.put("TargetName", TARGET);
        text.put("SessionType", "Normal");
        for (key, value) in keys {
            text.put(key, value);
        }
        let request = LoginRequest::new(Stage::Operational, LoginIdentity::new_session(ISID), 0, self.cmd_sn)
            .transit(Stage::FullFeature);
        self.login(request, &text)
    }

    pub fn login(&mut self, request: LoginRequest, text: &Text) -> Result<(), u16> {
        let answers = self.send(request.to_bytes(), text.bytes());
        let response = LoginResponse::from_bytes(&answers.last().expect("a response").header);
        if response.status().0 == 0 { Ok(()) } else { Err(response.status().0) }
    }

    /// Sends a PDU whose length field is filled in here, and gives what comes back.
    pub fn send(&mut self, mut header: Bhs, data: &[u8]) -> Vec<Pdu> {
        let [_, a, b, c] = u32::try_from(data.len()).unwrap().to_be_bytes();
        header[5..8].copy_from_slice(&[a, b, c]);
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len()), 0);
        self.send_bytes(&bytes)
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> Vec<Pdu> {
        self.half.receive(self.now, bytes);
        self.settle()
    }

    /// Lets everything happen that follows, and gives what the target sent.
    pub fn settle(&mut self) -> Vec<Pdu> {
        loop {
            let mut any = false;
            self.half.connection.handle_memory(self.now);
            while let Some(action) = self.half.connection.poll_action() {
                any = true;
                match action {
                    Action::Submit(Submission { volume, epoch, request }) => {
                        self.submitted.push((volume, epoch));
                        if self.memory.hold {
                            self.memory.held.push(request);
                        } else {
                            let completion = self.memory.carry_out(request);
                            self.half.connection.handle_input(self.now, Input::Completion(completion));
                        }
                    }
                    Action::Cancel { tag, .. } => self.memory.cancelled.push(tag),
                    Action::Group(request) => self.sessions.handle_message(self.now, 1, request),
                    Action::Event { volume, event } => self.events.push((volume, event)),
                    Action::Reserve { tag, .. } => self.reserves.push(tag),
                    Action::Reset { tag, volumes, event } => {
                        self.events.extend(volumes.into_iter().map(|volume| (volume, event.clone())));
                        self.resets.push(tag);
                    }
                }
            }
            while !self.hold_resets
                && let Some(tag) = self.resets.pop()
            {
                any = true;
                self.half.connection.handle_input(self.now, Input::Reset { tag, result: ResetResult::Done });
            }
            while let Some(GroupMessage { message: reply, .. }) = self.sessions.poll_message() {
                any = true;
                self.half.connection.handle_input(self.now, Input::Group(reply));
            }
            let sent = self.half.transmit(self.now);
            any |= !sent.is_empty();
            self.received.extend(sent);
            self.half.receive(self.now, &[]);
            if !any {
                return self.pdus();
            }
        }
    }

    /// Ends what the volume held back.
    pub fn release(&mut self) -> Vec<Pdu> {
        self.memory.hold = false;
        for request in std::mem::take(&mut self.memory.held) {
            let completion = self.memory.carry_out(request);
            self.half.connection.handle_input(self.now, Input::Completion(completion));
        }
        self.settle()
    }

    fn pdus(&mut self) -> Vec<Pdu> {
        let bytes = std::mem::take(&mut self.received);
        let mut rest = bytes.as_slice();
        let mut pdus = Vec::new();
        while !rest.is_empty() {
            let header: Bhs = rest[..48].try_into().unwrap();
            let length = BasicHeaderSegment::from_bytes(&header).data_length() as usize;
            pdus.push(Pdu { header, data: rest[48..48 + length].to_vec() });
            rest = &rest[48 + length + padding(length)..];
        }
        pdus
    }

    pub fn closed(&self) -> Option<CloseReason> {
        self.half.connection.poll_close()
    }
}
