//! The state machine of persistent reservations (SPC-4 §5.13, NVMe Base §8.1.22).
//!
//! A command is checked whole before anything changes. The state *is* the [`View`]: a change makes a new one, so that
//! whoever holds the old one goes on seeing a consistent picture. Changes are rare; checking access is not, and needs
//! no lock.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{
    Command, CommandError, MAX_REGISTRATIONS, Notice, Registrant, Registration, ReservationType, View,
};

/// One volume's registrations and reservation.
#[derive(Debug, Clone, Default)]
pub struct Reservations {
    view: Arc<View>,
}

/// What a command has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The state from now on: the very same as before (`Arc::ptr_eq`) if the command changed nothing.
    pub view: Arc<View>,
    /// What other registrants are to be told.
    pub notices: Vec<(Registrant, Notice)>,
    /// Whose requests are to be aborted: the victims of a preempt-and-abort.
    pub aborted: Vec<Registrant>,
}

/// A change in the making.
struct Draft {
    view: View,
    notices: Vec<(Registrant, Notice)>,
    aborted: Vec<Registrant>,
}

impl Reservations {
    /// The state that was kept from before.
    pub fn restore(view: View) -> Self {
        Self { view: Arc::new(view) }
    }

    /// The state now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Carries a command of `registrant` out, or refuses it and changes nothing.
    pub fn apply(&mut self, registrant: &Registrant, command: &Command) -> Result<Change, CommandError> {
        let draft = match *command {
            Command::Register { key, new_key, persist } => {
                self.register(registrant, Registering { key, new_key, persist })?
            }
            Command::Reserve { key, kind } => self.reserve(registrant, key, kind)?,
            Command::Release { key, kind } => self.release(registrant, key, kind)?,
            Command::Clear { key } => Some(self.clear(registrant, key)?),
            Command::Preempt { key, victim, kind, abort } => {
                self.check_key(registrant, key)?;
                let mut draft = self.preempt(registrant, victim, kind)?;
                if abort {
                    draft.aborted = draft.preempted();
                }
                Some(draft)
            }
        };
        let Some(draft) = draft else {
            return Ok(Change { view: self.view(), notices: Vec::new(), aborted: Vec::new() });
        };
        self.view = Arc::new(draft.view);
        Ok(Change { view: self.view(), notices: draft.notices, aborted: draft.aborted })
    }

    fn check_key(&self, registrant: &Registrant, key: u64) -> Result<(), CommandError> {
        if self.view.key_of(registrant) == Some(key) { Ok(()) } else { Err(CommandError::Conflict) }
    }

    /// SPC-4 §5.13.7, §5.13.11.3; NVMe Base §8.1.22.3 and 4.
    fn register(&self, registrant: &Registrant, command: Registering) -> Result<Option<Draft>, CommandError> {
        let Registering { key, new_key, persist } = command;
        let registered = self.view.key_of(registrant);
        let is_host = matches!(registrant, Registrant::Host { .. });
        // NVMe lets a host register once more with the key that it has; SCSI calls that a conflict.
        let again = is_host && registered == Some(new_key);
        if !again && key.is_some_and(|key| key != registered.unwrap_or(0)) {
            return Err(CommandError::Conflict);
        }
        let mut draft = self.draft();
        draft.view.persist = persist.unwrap_or(draft.view.persist);
        match (registered, new_key) {
            // SCSI calls it a success to remove nothing (SPC-4 §5.13.7), NVMe a conflict (NVMe Base §8.1.22.4).
            (None, 0) if is_host => return Err(CommandError::Conflict),
            (None, 0) => return Ok(None),
            (None, _) if draft.view.registrations.len() >= MAX_REGISTRATIONS => {
                return Err(CommandError::Full);
            }
            (None, key) => {
                draft.view.registrations.push(Registration { registrant: registrant.clone(), key });
            }
            (Some(_), 0) => draft.unregister(registrant),
            (Some(_), key) => draft.replace_key(registrant, key),
        }
        draft.count();
        Ok(Some(draft))
    }

    /// SPC-4 §5.13.9.
    fn reserve(
        &self,
        registrant: &Registrant,
        key: u64,
        kind: ReservationType,
    ) -> Result<Option<Draft>, CommandError> {
        self.check_key(registrant, key)?;
        match &self.view.reservation {
            None => {
                let mut draft = self.draft();
                draft.give(registrant, kind);
                Ok(Some(draft))
            }
            Some((held, _)) if *held == kind && self.view.holds(registrant) => Ok(None),
            Some(_) => Err(CommandError::Conflict),
        }
    }

    /// SPC-4 §5.13.11.2.
    fn release(
        &self,
        registrant: &Registrant,
        key: u64,
        kind: ReservationType,
    ) -> Result<Option<Draft>, CommandError> {
        self.check_key(registrant, key)?;
        let held = self.view.reservation.as_ref().filter(|_| self.view.holds(registrant));
        match held {
            None => Ok(None),
            Some((held, _)) if *held != kind => Err(CommandError::WrongType),
            Some(_) => {
                let mut draft = self.draft();
                draft.release(registrant);
                Ok(Some(draft))
            }
        }
    }

    /// SPC-4 §5.13.11.6.
    fn clear(&self, registrant: &Registrant, key: u64) -> Result<Draft, CommandError> {
        self.check_key(registrant, key)?;
        let mut draft = self.draft();
        draft.view.reservation = None;
        for gone in core::mem::take(&mut draft.view.registrations) {
            if gone.registrant != *registrant {
                draft.notices.push((gone.registrant, Notice::Cleared));
            }
        }
        draft.count();
        Ok(draft)
    }

    /// SPC-4 §5.13.11.4 and 5.
    fn preempt(
        &self,
        registrant: &Registrant,
        victim: u64,
        kind: ReservationType,
    ) -> Result<Draft, CommandError> {
        let takes = match &self.view.reservation {
            Some((_, None)) => victim == 0,
            Some((_, Some(holder))) => victim != 0 && self.view.key_of(holder) == Some(victim),
            None => false,
        };
        if victim == 0 && !takes {
            return Err(CommandError::Invalid);
        }
        if victim != 0 && self.view.registrations.iter().all(|entry| entry.key != victim) {
            return Err(CommandError::Conflict);
        }
        let mut draft = self.draft();
        // Whoever takes the reservation stays registered, whatever its key is.
        let preemptor = if takes { Preemptor::Stays } else { Preemptor::MayGo };
        draft.remove_victims(registrant, victim, preemptor);
        if takes {
            draft.take_over(registrant, kind);
        }
        draft.count();
        Ok(draft)
    }

    fn draft(&self) -> Draft {
        Draft { view: View::clone(&self.view), notices: Vec::new(), aborted: Vec::new() }
    }
}

/// Whether whoever preempts keeps a registration of its own that has the victims' key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preemptor {
    Stays,
    MayGo,
}

/// A [`Command::Register`].
#[derive(Clone, Copy)]
struct Registering {
    /// The key that the registrant says that it has; none is asked for where it may register whatever it has.
    key: Option<u64>,
    new_key: u64,
    /// Whether registrations outlast a loss of power from now on.
    persist: Option<bool>,
}

impl Draft {
    /// PRGENERATION counts registrations, clears and preemptions, not reserve and release (SPC-4 §6.13.2).
    fn count(&mut self) {
        self.view.generation = self.view.generation.wrapping_add(1);
    }

    fn give(&mut self, registrant: &Registrant, kind: ReservationType) {
        let holder = (!kind.is_all()).then(|| registrant.clone());
        self.view.reservation = Some((kind, holder));
    }

    fn replace_key(&mut self, registrant: &Registrant, key: u64) {
        let entry = self.view.registrations.iter_mut().find(|entry| entry.registrant == *registrant);
        if let Some(entry) = entry {
            entry.key = key;
        }
    }

    /// Removes one registration, and the reservation if nobody holds it any more.
    fn unregister(&mut self, registrant: &Registrant) {
        let held = self.view.holds(registrant);
        self.view.registrations.retain(|entry| entry.registrant != *registrant);
        let all = self.view.reservation.as_ref().is_some_and(|(kind, _)| kind.is_all());
        if held && (!all || self.view.registrations.is_empty()) {
            self.release(registrant);
        }
    }

    /// Ends the reservation and tells the registrants whom it favoured.
    fn release(&mut self, by: &Registrant) {
        if let Some((kind, _)) = self.view.reservation.take()
            && kind.favours_registrants()
        {
            self.tell_others(by, Notice::Released);
        }
    }

    fn tell_others(&mut self, but: &Registrant, notice: Notice) {
        let others = self.view.registrations.iter().filter(|entry| entry.registrant != *but);
        self.notices.extend(others.map(|entry| (entry.registrant.clone(), notice)));
    }

    /// Removes the registrations under `victim`, or all others if it is zero.
    fn remove_victims(&mut self, by: &Registrant, victim: u64, preemptor: Preemptor) {
        let registrations = core::mem::take(&mut self.view.registrations);
        for entry in registrations {
            let named = victim == 0 || entry.key == victim;
            let own = entry.registrant == *by;
            if !named || (own && preemptor == Preemptor::Stays) {
                self.view.registrations.push(entry);
            } else if !own {
                self.notices.push((entry.registrant, Notice::Preempted));
            }
        }
        // The last holder of an all-registrants reservation may have removed itself.
        if self.view.registrations.is_empty() {
            self.view.reservation = None;
        }
    }

    fn preempted(&self) -> Vec<Registrant> {
        let victims = self.notices.iter().filter(|(_, notice)| *notice == Notice::Preempted);
        victims.map(|(registrant, _)| registrant.clone()).collect()
    }

    /// Makes the preempting registrant the holder; those who stay are told if the type is another one now.
    fn take_over(&mut self, by: &Registrant, kind: ReservationType) {
        let before = self.view.reservation.as_ref().map(|(kind, _)| *kind);
        if before != Some(kind) {
            self.tell_others(by, Notice::Released);
        }
        self.give(by, kind);
    }
}
