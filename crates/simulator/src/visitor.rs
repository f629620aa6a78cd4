//! An initiator that is only there: nobody may put it out of a target that stays, and of one that goes it asks for a reset, which is answered.

use std::time::Duration;

use engine::Core;
use host::EndpointId;
use iscsi::pdu::{Function, LoginResponse, Opcode, TaskManagementRequest};
use protocol::Instant;

use crate::dice::{Dice, Odds};
use crate::peers::{Initiator, LUN, Pdu};
use crate::script::{Peer, dial};
use crate::world::World;

/// What the names of all such initiators have.
pub(crate) const NAMED: &str = "org.example:peer";

/// How often, for each step, it asks for a reset of a unit that is going, and how long the answer may take.
const RESETS: Odds = Odds(30);
const ANSWER: Duration = Duration::from_millis(1500);

/// An iSCSI session.
pub(crate) struct Visitor {
    port: u32,
    target: String,
    endpoint: EndpointId,
    peer: Peer,
    initiator: Initiator,
    greeted: bool,
    up: bool,
    /// When it has asked for a reset.
    asked: Option<Instant>,
    answered: bool,
}

impl Visitor {
    /// A session with the target of a volume, over a port, that is to be.
    pub(crate) fn dial(port: u16, name: &str, number: u8) -> Self {
        let (endpoint, peer) = dial(port);
        Self {
            port: port.into(),
            target: format!("iqn.2026-11.org.linerate:{name}"),
            endpoint,
            peer,
            initiator: Initiator::new(number),
            greeted: false,
            up: false,
            asked: None,
            answered: false,
        }
    }

    /// The port that it came to, from one.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Hears what came; `leaving` is since when the volume has been on its way out.
    pub(crate) fn play(
        &mut self,
        (now, leaving): (Instant, Option<Instant>),
        dice: &mut Dice,
        world: &mut World<Core>,
    ) -> Result<(), String> {
        if !std::mem::replace(&mut self.greeted, true) {
            let login = self.initiator.login_to(Some(&self.target));
            self.say(&login, world);
        }
        loop {
            let next = Pdu::take(&mut self.peer.borrow_mut().received);
            let Some(pdu) = next else { break };
            self.hear(&pdu, leaving.is_none(), world)?;
        }
        let ended = self.peer.borrow().ended;
        if ended && leaving.is_none() {
            return Err("it stays, and an idle session is put out".to_owned());
        }
        if self.up && !ended && leaving.is_some() && self.asked.is_none() && dice.happens(RESETS) {
            let request =
                TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, LUN, self.initiator.next_tag());
            let bytes = self.initiator.immediate(request.to_bytes(), &[]);
            self.say(&bytes, world);
            self.asked = Some(now);
        }
        let late = self.asked.is_some_and(|asked| now > asked + ANSWER);
        if late && !self.answered && !ended {
            return Err(format!("a reset of a unit that is going is not answered within {ANSWER:?}"));
        }
        Ok(())
    }

    fn say(&self, bytes: &[u8], world: &mut World<Core>) {
        self.peer.borrow_mut().out.extend_from_slice(bytes);
        world.nudge_client(self.endpoint);
    }

    fn hear(&mut self, pdu: &Pdu, stays: bool, world: &mut World<Core>) -> Result<(), String> {
        if let Some(answer) = self.initiator.hear(pdu) {
            self.say(&answer, world);
        }
        match pdu.view().opcode() {
            Opcode::LOGIN_RESPONSE => {
                let status = LoginResponse::from_bytes(&pdu.header).status();
                self.up = status.0 == 0;
                if stays && !self.up {
                    return Err(format!("it stays, and a login to it fails: {}", status.text()));
                }
            }
            Opcode::TASK_MANAGEMENT_RESPONSE => self.answered = true,
            Opcode::ASYNC_MESSAGE if stays => {
                return Err("it stays, and an idle session hears that it is to leave".to_owned());
            }
            Opcode::REJECT => return Err("a PDU of an idle session is rejected".to_owned()),
            _ => {}
        }
        Ok(())
    }
}
