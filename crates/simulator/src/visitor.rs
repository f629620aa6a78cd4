//! An initiator that is only there: nobody may put it out of a target that stays, and what it asks for is answered. It reads its logical unit, which may have another
//! number from one read to the next, and resets it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Core;
use host::EndpointId;
use iscsi::pdu::{Function, LoginResponse, Opcode, TaskManagementRequest};
use protocol::Instant;

use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::peers::{Initiator, Pdu};
use crate::script::{Peer, dial};
use crate::world::World;

/// What the names of all such initiators have.
pub(crate) const NAMED: &str = "org.example:peer";

/// How often, for each step, it asks for a reset of its unit, and of one that is going; how often it reads and writes; and how long the answers may take.
const RESETS: Odds = Odds(2);
const LAST_RESETS: Odds = Odds(30);
const READS: Odds = Odds(10);
const WRITES: Odds = Odds(10);
const ANSWER: Duration = Duration::from_millis(1500);
/// From when on nothing is served to who was asked to leave: the target's `LOGOUT_TIME`, 3 s, cores that stand still, and the network.
const SERVED: Duration = Duration::from_millis(3600);
/// How long who was asked to leave may be connected: less than the engine's `WITHDRAWAL`, which would close it without notice.
const CONNECTED: Duration = Duration::from_millis(4200);
/// Bytes of a request.
const LENGTH: u32 = 512;

/// Whether it may be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Who has come since then is let in, and nobody may put it out.
    Open(Instant),
    /// It may have to leave, or may come again.
    Changing,
    /// It had to leave at this time, on all cores, and nobody may let it in.
    Closed(Instant),
}

/// Its logical unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    /// Its number.
    pub(crate) lun: u8,
    /// The volume is on its way out.
    pub(crate) leaves: bool,
    /// The number may not be known everywhere.
    pub(crate) moves: bool,
    /// Somebody else has reserved it.
    pub(crate) is_reserved: bool,
    pub(crate) admission: Admission,
}

/// What it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Reset,
    /// A reset of a unit that is going.
    LastReset,
    Read,
    /// A write to what somebody else has reserved.
    Write,
}

impl What {
    const fn text(self) -> &'static str {
        match self {
            Self::Reset => "a reset",
            Self::LastReset => "a reset of a unit that is going",
            Self::Read => "a read",
            Self::Write => "a write",
        }
    }
}

/// What it waits for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    since: Instant,
    what: What,
}

/// An iSCSI session.
pub(crate) struct Visitor {
    port: u32,
    target: String,
    endpoint: EndpointId,
    peer: Peer,
    initiator: Initiator,
    /// When it asked to be let in.
    came: Option<Instant>,
    up: bool,
    /// What it waits for.
    asked: BTreeMap<u32, Asked>,
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
            came: None,
            up: false,
            asked: BTreeMap::new(),
        }
    }

    /// The port that it came to, from one.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// True when its session is over.
    pub(crate) fn has_left(&self) -> bool {
        self.peer.borrow().ended
    }

    /// Hears what came, and asks for something.
    pub(crate) fn play(
        &mut self,
        unit: Unit,
        dice: &mut Dice,
        world: &mut World<Core>,
    ) -> Result<(), TrialFailure> {
        let now = world.now();
        if self.came.is_none() {
            self.came = Some(now);
            let login = self.initiator.login_to(Some(&self.target));
            self.say(&login, world);
        }
        loop {
            let next = Pdu::take(&mut self.peer.borrow_mut().received);
            let Some(pdu) = next else { break };
            self.hear(&pdu, unit, world)?;
        }
        if self.has_left() {
            let stays = self.stays(unit);
            return if stays {
                Err(TrialFailure::Broken("it stays, and a session is put out".to_owned()))
            } else {
                Ok(())
            };
        }
        if let Admission::Closed(since) = unit.admission
            && self.up
            && now > since + CONNECTED
        {
            return Err(TrialFailure::Late(format!(
                "a session that had to leave is left open for {CONNECTED:?}"
            )));
        }
        if self.up {
            self.ask(unit, dice, world);
        }
        let late = self.asked.values().find(|asked| now > asked.since + ANSWER);
        late.map_or(Ok(()), |asked| {
            Err(TrialFailure::Late(format!("{} is not answered within {ANSWER:?}", asked.what.text())))
        })
    }

    /// True when nobody may put it out.
    fn stays(&self, unit: Unit) -> bool {
        matches!(unit.admission, Admission::Open(since) if self.came.is_some_and(|came| came >= since))
    }

    /// Asks for a read, a write that is to fail, or a reset, sometimes.
    fn ask(&mut self, unit: Unit, dice: &mut Dice, world: &mut World<Core>) {
        if !self.asked.is_empty() {
            return;
        }
        let lun = [0, unit.lun, 0, 0, 0, 0, 0, 0];
        let (resets, reset) =
            if unit.leaves { (LAST_RESETS, What::LastReset) } else { (RESETS, What::Reset) };
        let is_quiet = unit.moves || unit.leaves;
        let (bytes, what) = if dice.happens(resets) {
            let request =
                TaskManagementRequest::new(Function::LOGICAL_UNIT_RESET, lun, self.initiator.next_tag());
            (self.initiator.immediate(request.to_bytes(), &[]), reset)
        } else if dice.happens(READS) && !is_quiet {
            (self.initiator.read_first(lun), What::Read)
        } else if unit.is_reserved && dice.happens(WRITES) && !is_quiet {
            (self.initiator.write_first(lun, &[0xee; LENGTH as usize]), What::Write)
        } else {
            return;
        };
        self.say(&bytes, world);
        self.asked.insert(self.initiator.tag, Asked { since: world.now(), what });
    }

    fn say(&self, bytes: &[u8], world: &mut World<Core>) {
        self.peer.borrow_mut().out.extend_from_slice(bytes);
        world.wake_client(self.endpoint);
    }

    fn hear(&mut self, pdu: &Pdu, unit: Unit, world: &mut World<Core>) -> Result<(), TrialFailure> {
        if let Some(answer) = self.initiator.hear(pdu) {
            self.say(&answer, world);
        }
        let stays = self.stays(unit);
        match pdu.view().opcode() {
            Opcode::LOGIN_RESPONSE => {
                let status = LoginResponse::from_bytes(&pdu.header).status();
                self.up = status.0 == 0;
                if stays && !self.up {
                    return Err(TrialFailure::Broken(format!(
                        "it stays, and a login to it fails: {}",
                        status.text()
                    )));
                }
                let shut = matches!(unit.admission, Admission::Closed(since) if self.came > Some(since));
                if shut && self.up {
                    return Err(TrialFailure::Broken("an initiator without access logs in".to_owned()));
                }
            }
            Opcode::TASK_MANAGEMENT_RESPONSE => {
                self.asked.remove(&pdu.view().task_tag());
            }
            // The status comes with a read's data, or by itself.
            Opcode::SCSI_RESPONSE => return self.hear_status(pdu, unit),
            Opcode::DATA_IN if pdu.header[1] & 1 != 0 => return self.hear_status(pdu, unit),
            Opcode::ASYNC_MESSAGE if stays => {
                return Err(TrialFailure::Broken(
                    "it stays, and an idle session hears that it is to leave".to_owned(),
                ));
            }
            Opcode::REJECT => {
                return Err(TrialFailure::Broken("a PDU of an idle session is rejected".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn hear_status(&mut self, pdu: &Pdu, unit: Unit) -> Result<(), TrialFailure> {
        let is_good = pdu.header[3] == 0;
        match self.asked.remove(&pdu.view().task_tag()) {
            Some(Asked { what: What::Write, .. }) if is_good => Err(TrialFailure::Broken(
                "its reservation is lost: somebody who is not registered writes".to_owned(),
            )),
            Some(Asked { since, .. }) if is_good => match unit.admission {
                Admission::Closed(closed) if since > closed + SERVED => {
                    Err(TrialFailure::Broken(format!("I/O is served {SERVED:?} after access was taken away")))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
