//! A port: where the events of queue pairs come, and the requests of peers if somebody listens there.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use buf::Account;
use host::{AdapterError, AdapterPair, AdapterPort, PairId, PairNeeds, PairRequest};

use crate::inbox::Channels;
use crate::limits::REQUESTS;
use crate::pair::{Incoming, Pair};
use crate::sys::{CmEvent, CmEventKind, CmId};
use crate::words;

/// A request that nobody has decided about.
#[derive(Debug)]
struct Asked {
    id: PairId,
    identifier: CmId,
    event: CmEvent,
    /// Somebody was told of it.
    is_told: bool,
}

/// A port of one core's.
#[derive(Debug)]
pub(crate) struct Port {
    asked: VecDeque<Asked>,
    /// The listener, until nobody is to be let in any more.
    listener: Option<CmId>,
    channels: Rc<Channels>,
}

impl Port {
    pub(crate) fn new(channels: Rc<Channels>, listener: Option<CmId>) -> Self {
        Self { asked: VecDeque::new(), listener, channels }
    }

    fn handle_event(&mut self, mut event: CmEvent, ready: &mut Vec<PairId>) {
        if let Some(identifier) = event.newcomer.take() {
            if self.asked.len() < REQUESTS && self.listener.is_some() {
                let id = self.channels.new_id();
                self.asked.push_back(Asked { id, identifier, event, is_told: false });
            } else {
                // Who is in earnest asks again.
                let _ = identifier.reject(&[]);
            }
            return;
        }
        if let Some(event) = self.channels.deliver(event, ready)
            && event.kind == CmEventKind::Disconnected
        {
            self.asked.retain(|asked| asked.identifier.name() != event.name);
        }
    }

    fn take(&mut self, request: PairRequest) -> Option<Asked> {
        let at = self.asked.iter().position(|asked| asked.id == request.id)?;
        self.asked.remove(at)
    }
}

impl AdapterPort for Port {
    fn descriptor(&self) -> io::Result<OwnedFd> {
        self.channels.descriptor()
    }

    fn poll(&mut self, ready: &mut Vec<PairId>) {
        let events = std::sync::Arc::clone(&self.channels.events);
        while let Some(event) = events.next_event() {
            self.handle_event(event, ready);
        }
        self.channels.take_completions(ready);
    }

    fn next_request(&mut self) -> Option<PairRequest> {
        let asked = self.asked.iter_mut().find(|asked| !asked.is_told)?;
        asked.is_told = true;
        Some(PairRequest { id: asked.id, from: asked.identifier.peer(), local: asked.identifier.local() })
    }

    fn accept(
        &mut self,
        request: PairRequest,
        needs: PairNeeds,
        account: Account,
    ) -> Result<AdapterPair, AdapterError> {
        let Some(Asked { id, identifier, event, .. }) = self.take(request) else {
            return Err(AdapterError("its initiator has left before it was let in".to_owned()));
        };
        let incoming = Incoming { id, identifier, needs, event };
        Pair::accept(&self.channels, incoming, account)
            .map(AdapterPair::new)
            .map_err(|error| AdapterError(format!("{}: {error}", words::NO_QUEUE_PAIR)))
    }

    fn refuse(&mut self, request: PairRequest) {
        if let Some(asked) = self.take(request) {
            let _ = asked.identifier.reject(&[]);
        }
    }

    fn retire(&mut self) {
        self.listener = None;
        for asked in self.asked.drain(..) {
            let _ = asked.identifier.reject(&[]);
        }
    }
}
