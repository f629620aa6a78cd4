//! Reservations of a volume on another machine: who is registered, who holds it, and changes of that.
//!
//! A registrant is a name: an initiator port, or a host. What registers now must be known again when it reserves later, so that a URL
//! without such a name (`isid=`, `hostid=`) gets one that this machine always comes to.

use std::sync::Arc;
use std::task::Waker;

use names::{HostId, Isid, Source, VolumeUrl};
use protocol::Instant;
use volume::reservation::{Command, Registrant, View};
use volume::{
    Completion, CoreId, OpenError, Operation, Outcome, QueueContext, QueueFull, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

use crate::error::{DataError, Error, ReservationError};
use crate::job::Job;
use crate::run::on_volume;

/// What is reserved, and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdings {
    /// The registrations and the reservation.
    pub view: Arc<View>,
    own: Own,
}

/// A change of the reservations, done or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whether the far end has done it.
    pub result: Result<(), VolumeErrorKind>,
    /// What is reserved now.
    pub now: Holdings,
}

/// Under which name this side is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Own {
    /// An initiator port's, in lower case.
    Port(String),
    /// A host identifier.
    Host([u8; 16]),
}

impl Holdings {
    /// True when a registrant is this side.
    pub fn is_own(&self, registrant: &Registrant) -> bool {
        match (registrant, &self.own) {
            (Registrant::Nexus { initiator_port, .. }, Own::Port(own)) => {
                initiator_port.to_ascii_lowercase() == *own
            }
            (Registrant::Host { identifier, .. }, Own::Host(own)) => identifier == own,
            _ => false,
        }
    }

    /// The key under which this side is registered.
    pub fn own_key(&self) -> Option<u64> {
        let mut registrations = self.view.registrations.iter();
        registrations.find(|entry| self.is_own(&entry.registrant)).map(|entry| entry.key)
    }

    /// True when this side holds the reservation, alone or with all others.
    pub fn holds(&self) -> bool {
        self.view
            .registrations
            .iter()
            .any(|entry| self.is_own(&entry.registrant) && self.view.holds(&entry.registrant))
    }

    /// The key of whoever holds the reservation; `None` if nobody does, or all registrants do.
    pub fn holders_key(&self) -> Option<u64> {
        let (_, holder) = self.view.reservation.as_ref()?;
        self.view.key_of(holder.as_ref()?)
    }
}

/// What is reserved on a volume of another machine.
pub fn reservations(url: &VolumeUrl) -> Result<Holdings, Error> {
    Ok(asked(url, None)?.now)
}

/// Changes what is reserved on a volume of another machine, as `choose` says once it knows what is reserved now; its error is
/// the call's ([`ReservationError::NotChosen`]).
pub fn reserve<E: Into<BoxedError>>(
    url: &VolumeUrl,
    choose: impl FnOnce(&Holdings) -> Result<Command, E> + 'static,
) -> Result<Changed, Error> {
    asked(url, Some(Box::new(|holdings| choose(holdings).map_err(Into::into))))
}

/// An error of the caller's.
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// What makes a change of what is reserved.
type Choose = Box<dyn FnOnce(&Holdings) -> Result<Command, BoxedError>>;

fn asked(url: &VolumeUrl, choose: Option<Choose>) -> Result<Changed, Error> {
    let mut named = url.clone();
    let own = identify(&mut named).map_err(|error| Error::Open { url: url.to_string(), error })?;
    let result = on_volume(&named, move |volume, waker| Asking::new(volume, own, choose, waker))?;
    Ok(result?)
}

/// The name under which a volume's far end will know this side. A URL that leaves it to chance is given one.
fn identify(url: &mut VolumeUrl) -> Result<Own, OpenError> {
    match &mut url.source {
        Source::Iscsi(iscsi) => {
            let [_, a, b, c, ..] = machine();
            let isid = *iscsi.options.isid.get_or_insert(Isid([RANDOM_TYPE, a, b, c, 0, 0]));
            let initiator = match &iscsi.options.initiator {
                Some(initiator) => initiator.to_string(),
                None => engine::remote::INITIATOR.to_owned(),
            };
            Ok(Own::Port(format!("{initiator},i,0x{isid}").to_ascii_lowercase()))
        }
        Source::Nvme(nvme) => Ok(Own::Host(nvme.options.hostid.get_or_insert_with(|| HostId(machine())).0)),
        _ => Err(OpenError::new(
            "a volume of this machine has no reservations of its own: name it as others see it, by iscsi://, iser://, nvme+tcp:// or nvme+rdma://",
        )),
    }
}

/// ISID type 10b: the next 24 bits are random (RFC 7143 §11.12.5).
const RANDOM_TYPE: u8 = 0x80;

/// Sixteen bytes that are always the same on this machine and likely others elsewhere, in the shape of a UUID (RFC 9562 §5.8).
fn machine() -> [u8; 16] {
    /// FNV-1a with 128 bits: its offset and its prime.
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let sources = ["/etc/machine-id", "/proc/sys/kernel/hostname"];
    let told = sources.iter().find_map(|path| std::fs::read(path).ok().filter(|text| !text.is_empty()));
    // The identifier itself is not to be shown to others (machine-id(5)).
    let bytes = b"linerate reserve".iter().copied().chain(told.unwrap_or_default());
    let sum = bytes.fold(OFFSET, |sum, byte| (sum ^ u128::from(byte)).wrapping_mul(PRIME));
    let mut identifier = sum.to_be_bytes();
    identifier[6] = identifier[6] & 0x0f | 0x80;
    identifier[8] = identifier[8] & 0x3f | 0x80;
    identifier
}

/// How far a change is.
enum Stage {
    /// What is reserved before it is being asked for; `None` if that is all.
    Before(Option<Choose>),
    /// It is under way.
    Change,
    /// What is reserved after it is being asked for, and what it came to.
    After(Result<(), VolumeErrorKind>),
}

/// Reads what is reserved, changes it, and reads it again.
struct Asking {
    queue: Box<dyn VolumeQueue>,
    own: Own,
    stage: Stage,
    next: Option<Operation>,
    done: Vec<Completion>,
}

impl Asking {
    fn new(
        volume: &Arc<dyn Volume>,
        own: Own,
        choose: Option<Choose>,
        waker: &Waker,
    ) -> Result<Self, OpenError> {
        let queue = volume.open_queue(&QueueContext::without_pool(CoreId(0), waker.clone()))?;
        let next = Some(Operation::ReadReservations);
        Ok(Self { queue, own, stage: Stage::Before(choose), next, done: Vec::new() })
    }

    /// Goes on after an answer; gives the result once it is there.
    fn take(
        &mut self,
        answer: Result<Outcome, VolumeErrorKind>,
    ) -> Result<Option<Changed>, ReservationError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Change);
        let result = match stage {
            Stage::Change => match answer {
                Err(kind) if is_unknown(kind) => {
                    return Err(ReservationError::Unknown(kind));
                }
                answer => {
                    self.stage = Stage::After(answer.map(drop));
                    self.next = Some(Operation::ReadReservations);
                    return Ok(None);
                }
            },
            Stage::Before(None) => Ok(()),
            Stage::Before(Some(choose)) => {
                let holdings = self.holdings(answer)?;
                let chosen = choose(&holdings).map_err(|error| ReservationError::NotChosen(error.into()))?;
                self.next = Some(Operation::Reserve(chosen));
                return Ok(None);
            }
            Stage::After(result) => result,
        };
        Ok(Some(Changed { result, now: self.holdings(answer)? }))
    }

    fn holdings(&self, answer: Result<Outcome, VolumeErrorKind>) -> Result<Holdings, ReservationError> {
        match answer {
            Ok(Outcome::Reservations(view)) => Ok(Holdings { view, own: self.own.clone() }),
            Ok(_) => Err(ReservationError::NoReport),
            // An operation code or a field that it does not know.
            Err(VolumeErrorKind::Unsupported | VolumeErrorKind::Misaligned) => {
                Err(ReservationError::NoFullReport)
            }
            Err(kind) => Err(ReservationError::NotTold(kind)),
        }
    }
}

/// True for failures that leave open what became of a change.
const fn is_unknown(kind: VolumeErrorKind) -> bool {
    matches!(kind, VolumeErrorKind::TimedOut | VolumeErrorKind::Unreachable | VolumeErrorKind::Cancelled)
}

impl Job for Asking {
    type Output = Result<Changed, DataError>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        loop {
            if let Some(operation) = self.next.take()
                && let Err(QueueFull(request)) = self.queue.submit(now, Request { tag: Tag(0), operation })
            {
                self.next = Some(request.operation);
            }
            self.queue.poll(now, &mut self.done);
            let answer = self.done.pop()?.outcome();
            match self.take(answer) {
                Ok(None) => {}
                Ok(Some(changed)) => return Some(Ok(changed)),
                Err(error) => return Some(Err(DataError::new("reservation", None, error.into()))),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> (VolumeUrl, Own) {
        let mut url = text.parse().unwrap();
        let own = identify(&mut url).unwrap();
        (url, own)
    }

    #[test]
    fn a_name_is_kept_or_made_and_always_the_same() {
        let named = "iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0?initiator=iqn.2026-11.org.example:one&isid=0000DEADBEEF";
        let port = "iqn.2026-11.org.example:one,i,0x0000deadbeef";
        assert_eq!(own(named).1, Own::Port(port.to_owned()));
        let plain = "iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0";
        assert_eq!(own(plain), own(plain));
        assert!(own(plain).0.to_string().contains("?isid=80"));
        let plain = "nvme+tcp://127.0.0.1:4420/nqn.2026-11.org.linerate:disk/1";
        assert_eq!(own(plain), own(plain));
        assert!(own(plain).0.to_string().contains("?hostid="));
        assert!(identify(&mut "ram:1M".parse().unwrap()).unwrap_err().to_string().contains("iscsi://"));
    }

    #[test]
    fn one_finds_oneself_and_the_holder() {
        use volume::reservation::{Registration, ReservationType};
        let one = Registrant::Host { identifier: [1; 16], nqn: "".into() };
        let two = Registrant::Host { identifier: [2; 16], nqn: "".into() };
        let registrations =
            vec![Registration { registrant: one, key: 7 }, Registration { registrant: two.clone(), key: 8 }];
        let reservation = Some((ReservationType::WriteExclusive, Some(two)));
        let view = View { registrations, reservation, ..View::default() };
        let mut holdings = Holdings { view: Arc::new(view), own: Own::Host([1; 16]) };
        assert_eq!((holdings.own_key(), holdings.holders_key()), (Some(7), Some(8)));
        holdings.own = Own::Host([3; 16]);
        assert_eq!(holdings.own_key(), None);
    }
}
