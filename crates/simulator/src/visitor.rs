//! An initiator that is only there: nobody may put it out of a target that stays, and what it asks for is answered. It reads its logical unit, which may have another
//! number from one read to the next, and resets it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Core;
use host::EndpointId;
use iscsi::pdu::{Function, LoginResponse, Opcode, TaskManagementRequest};
use protocol::Instant;

use crate::dice::{Dice, Odds};
use crate::peers::{Initiator, Pdu};
use crate::script::{Peer, dial};
use crate::world::World;

/// What the names of all such initiators have.
pub(crate) const NAMED: &str = "org.example:peer";

/// How often, for each step, it asks for a reset of its unit, and of one that is going; how often it reads; and how long the answers may take.
const RESETS: Odds = Odds(2);
const LAST_RESETS: Odds = Odds(30);
const READS: Odds = Odds(10);
const ANSWER: Duration = Duration::from_millis(1500);

/// Its logical unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    /// Its number.
    pub(crate) lun: u8,
    /// The volume is on its way out.
    pub(crate) leaves: bool,
    /// The number may not be known everywhere.
    pub(crate) moves: bool,
}

/// An iSCSI session.
pub(crate) struct Visitor {
    port: u32,
    target: String,
    endpoint: EndpointId,
    peer: Peer,
    initiator: Initiator,
    greeted: bool,
    up: bool,
    /// What it waits for: since when, and what it is called.
    asked: BTreeMap<u32, (Instant, &'static str)>,
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
            asked: BTreeMap::new(),
        }
    }

    /// The port that it came to, from one.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Hears what came, and asks for something.
    pub(crate) fn play(
        &mut self,
        unit: Unit,
        dice: &mut Dice,
        world: &mut World<Core>,
    ) -> Result<(), String> {
        let now = world.now();
        if !std::mem::replace(&mut self.greeted, true) {
            let login = self.initiator.login_to(Some(&self.target));
            self.say(&login, world);
        }
        loop {
            let next = Pdu::take(&mut self.peer.borrow_mut().received);
            let Some(pdu) = next else { break };
            self.hear(&pdu, !unit.leaves, world)?;
        }
        if self.peer.borrow().ended {
            return if unit.leaves { Ok(()) } else { Err("it stays, and a session is put out".to_owned()) };
        }
        if self.up {
            self.ask(unit, dice, world);
        }
        let late = self.asked.values().find(|(since, _)| now > *since + ANSWER);
        late.map_or(Ok(()), |(_, what)| Err(format!("{what} is not answered within {ANSWER:?}")))
    }

    /// Asks for a read or a reset, sometimes.
    fn ask(&mut self, unit: Unit, dice: &mut Dice, world: &mut World<Core>) {
        let lun = [0, unit.lun, 0, 0, 0, 0, 0, 0];
        let (resets, what) =
            if unit.leaves { (LAST_RESETS, "a reset of a unit that is going") } else { (RESETS, "a reset") };
        if dice.happens(resets) && self.asked.is_empty() {
            let request =
                TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, lun, self.initiator.next_tag());
            let bytes = self.initiator.immediate(request.to_bytes(), &[]);
            self.say(&bytes, world);
            self.asked.insert(self.initiator.tag, (world.now(), what));
        } else if dice.happens(READS) && self.asked.is_empty() && !unit.moves && !unit.leaves {
            let bytes = self.initiator.read_first(lun);
            self.say(&bytes, world);
            self.asked.insert(self.initiator.tag, (world.now(), "a read"));
        }
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
            Opcode::TASK_MANAGEMENT_RESPONSE | Opcode::SCSI_RESPONSE => {
                self.asked.remove(&pdu.view().task_tag());
            }
            // A read whose status comes with its data.
            Opcode::DATA_IN if pdu.header[1] & 1 != 0 => {
                self.asked.remove(&pdu.view().task_tag());
            }
            Opcode::ASYNC_MESSAGE if stays => {
                return Err("it stays, and an idle session hears that it is to leave".to_owned());
            }
            Opcode::REJECT => return Err("a PDU of an idle session is rejected".to_owned()),
            _ => {}
        }
        Ok(())
    }
}
