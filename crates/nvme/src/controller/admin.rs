//! A controller as its admin queue has it: properties, events, keep alive (NVMe Base §3.1.4, §5.1.2, §3.9).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use protocol::Instant;
use volume::reservation::Notice;
use volume::{Features, Geometry, VolumeId};

use super::command::Plan;
use super::feature_values::Values;
use super::portal::Portal;
use super::service::Service;
use super::subsystem::{Namespace, NamespaceKey, Subsystem};
use crate::VERSION;
use crate::async_event::AsyncEvent;
use crate::fabrics::{HostIdentity, Property};
use crate::features::round_keep_alive;
use crate::limits::{ADMIN_QUEUE, DISCOVERY_IDLE, KEEP_ALIVE_GRANULARITY, PENDING_EVENTS, READY_TIME};
use crate::log::{ChangedNamespaces, Notifications};
use crate::properties::{Capabilities, Configuration, ControllerStatus, ReadyTimeouts, offset};
use crate::sgl::SglSupport;
use crate::status::Status;
use crate::subsystem::{ControllerState, Request};

/// An event, and the slot of the Asynchronous Event Request that it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReportedEvent {
    pub(super) slot: u16,
    pub(super) event: AsyncEvent,
}

/// A controller as its admin connection knows it.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) service: Service,
    pub(super) host: HostIdentity,
    pub(super) cntlid: u16,
    /// The keep alive timeout in milliseconds, rounded; 0 for none.
    pub(super) kato: u32,
    /// Which data pointers its commands may have.
    pub(super) sgls: SglSupport,
    pub(super) values: Values,
    pub(super) changed: ChangedNamespaces,
    pub(super) notifications: Notifications,
    configuration: Configuration,
    status: ControllerStatus,
    /// The controller is being reset: it is not ready again, and not yet unready.
    resetting: bool,
    /// How often the group will still say that no I/O queue has a request at a volume.
    quiescing: usize,
    /// Slots of the Asynchronous Event Requests.
    pub(super) event_requests: Vec<u16>,
    events: VecDeque<AsyncEvent>,
    masked: Vec<AsyncEvent>,
    /// What the group is to be told.
    pub(super) news: VecDeque<Request>,
}

impl Admin {
    /// A disabled controller.
    pub(super) fn new(service: Service, host: HostIdentity, kato: u32, sgls: SglSupport) -> Box<Self> {
        Box::new(Self {
            service,
            host,
            cntlid: 0,
            kato: round_keep_alive(kato, KEEP_ALIVE_GRANULARITY),
            sgls,
            values: Values::default(),
            changed: ChangedNamespaces::default(),
            notifications: Notifications::default(),
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            resetting: false,
            quiescing: 0,
            event_requests: Vec::new(),
            events: VecDeque::new(),
            masked: Vec::new(),
            news: VecDeque::new(),
        })
    }

    /// The subsystem; `None` for a discovery controller.
    pub(super) fn subsystem(&self) -> Option<&Subsystem> {
        self.service.subsystem()
    }

    /// Bytes that it keeps and that grow with what is served.
    pub(super) fn size(&self) -> usize {
        match &self.service {
            Service::Subsystem(_) => 0,
            Service::Discovery(discovery) => discovery.size(),
        }
    }

    /// A volume has another size: the host is to know of those of its namespaces that have it too.
    pub(super) fn resize(&mut self, volume: VolumeId, geometry: Geometry) {
        if let Some(subsystem) = self.service.resize(volume, geometry) {
            let of_volume = subsystem.namespaces.iter().filter(|namespace| namespace.volume == volume);
            of_volume.for_each(|namespace| self.changed.add(namespace.nsid));
            self.notify(AsyncEvent::Namespaces);
        }
    }

    /// The namespaces that are not in the subsystem.
    pub(super) fn gone_from(&self, subsystem: &Subsystem) -> Vec<NamespaceKey> {
        let namespaces = self.subsystem().into_iter().flat_map(|shown| &shown.namespaces);
        namespaces.map(Namespace::key).filter(|key| !subsystem.has(*key)).collect()
    }

    /// The subsystem is this from now on: the host is to know of the namespaces that are otherwise.
    pub(super) fn replace(&mut self, subsystem: Arc<Subsystem>) {
        let gone = self.gone_from(&subsystem);
        let Service::Subsystem(before) = &self.service else { return };
        let all = before.namespaces.iter().chain(&subsystem.namespaces).map(|namespace| namespace.nsid);
        let changed: Vec<u32> = all.filter(|&nsid| before.find(nsid) != subsystem.find(nsid)).collect();
        self.service = Service::Subsystem(subsystem);
        self.values.forget(&gone);
        if !changed.is_empty() {
            for nsid in changed {
                self.changed.add(nsid);
            }
            self.notify(AsyncEvent::Namespaces);
        }
    }

    /// Shows the discovery log page of this portal, and reports that it has changed if the host sees a difference.
    pub(super) fn show_log(&mut self, portal: &Arc<Portal>) {
        if let Service::Discovery(discovery) = &mut self.service
            && discovery.replace(portal, &self.host.nqn)
        {
            self.notify(AsyncEvent::Discovery);
        }
    }

    /// Something happened to the host's registration on a volume.
    pub(super) fn log_reservation(&mut self, volume: VolumeId, notice: Notice) {
        let Some(subsystem) = self.subsystem() else { return };
        let of_volume = subsystem.namespaces.iter().filter(|namespace| namespace.volume == volume);
        let concerned: Vec<u32> = of_volume.map(|namespace| namespace.nsid).collect();
        for nsid in concerned {
            if !self.values.masks(nsid, notice) {
                self.notifications.add(nsid, notice);
                self.notify(AsyncEvent::Reservation);
            }
        }
    }

    /// The host is to give up all of its namespaces.
    pub(super) fn hide(&mut self) {
        if let Service::Subsystem(subsystem) = &self.service {
            let empty = subsystem.with_namespaces(Vec::new());
            self.replace(Arc::new(empty));
        }
    }

    pub(super) fn max_queues(&self) -> u16 {
        self.subsystem().map_or(1, |subsystem| subsystem.limits.queues.max(1))
    }

    pub(super) fn depth(&self) -> u16 {
        self.subsystem().map_or(ADMIN_QUEUE, |subsystem| subsystem.limits.depth.max(2))
    }

    pub(super) fn has_cache(&self) -> bool {
        let cached = |subsystem: &Subsystem| {
            subsystem.namespaces.iter().any(|each| each.features.contains(Features::VOLATILE_CACHE))
        };
        self.subsystem().is_some_and(cached)
    }

    /// Sets the keep alive timeout in milliseconds; 0 disarms the timer.
    pub(super) fn set_keep_alive(&mut self, kato: u32) {
        self.kato = round_keep_alive(kato, KEEP_ALIVE_GRANULARITY);
    }

    /// When the host must have been heard of again.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let grain = Duration::from_millis(u64::from(KEEP_ALIVE_GRANULARITY).saturating_mul(100));
        match self.kato {
            0 if self.subsystem().is_none() => Some(now + DISCOVERY_IDLE),
            0 => None,
            kato => Some(now + Duration::from_millis(u64::from(kato)).saturating_add(grain)),
        }
    }

    pub(super) fn get_property(&self, property: Property) -> Result<u64, Status> {
        match (property.ofst.get(), property.size()) {
            (offset::CAP, Some(8)) => Ok(self.capabilities().0),
            (offset::VS, Some(4)) => Ok(u64::from(VERSION)),
            (offset::CC, Some(4)) => Ok(u64::from(self.configuration.0)),
            (offset::CSTS, Some(4)) => Ok(u64::from(self.status.0)),
            (offset::CRTO, Some(4)) => Ok(u64::from(ReadyTimeouts::new(READY_TIME).0)),
            _ => Err(Status::INVALID_FIELD.dnr()),
        }
    }

    /// A discovery controller has no I/O queues; nothing is to be chosen there.
    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::new(self.depth(), READY_TIME);
        if self.subsystem().is_some() { capabilities.with_command_sets() } else { capabilities }
    }

    pub(super) fn set_property(&mut self, property: Property) -> Result<Plan, Status> {
        let quiescing = self.quiescing;
        let (offset::CC, Some(4)) = (property.ofst.get(), property.size()) else {
            return Err(Status::INVALID_FIELD.dnr());
        };
        let value =
            Configuration(u32::try_from(property.value.get()).map_err(|_| Status::INVALID_FIELD.dnr())?);
        let old = core::mem::replace(&mut self.configuration, value);
        self.status = match (old.enabled(), value.enabled()) {
            (_, true) if !value.is_supported() => ControllerStatus::FATAL,
            (false, true) if self.resetting => self.status,
            (false, true) => self.begin(),
            (true, false) => {
                self.resetting = true;
                self.quiesce();
                self.reset();
                self.status
            }
            _ => self.status,
        };
        if value.shutdown() && !old.shutdown() {
            self.quiesce();
            self.status = self.status.with_shutdown(ControllerStatus::SHUTTING_DOWN);
        }
        Ok(if self.quiescing > quiescing { Plan::Quiesce } else { Plan::success(0) })
    }

    fn begin(&mut self) -> ControllerStatus {
        self.news.push_back(Request::Ready(ControllerState::Enabled));
        ControllerStatus::READY
    }

    /// True when admin commands are taken.
    pub(super) fn is_ready(&self) -> bool {
        !self.resetting && self.status.has(ControllerStatus::READY)
    }

    /// Ends the I/O queues; [`Admin::quiesced`] follows.
    fn quiesce(&mut self) {
        self.news.push_back(Request::Ready(ControllerState::Disabled));
        self.quiescing = self.quiescing.saturating_add(1);
    }

    /// No I/O queue has a request at a volume any more: only now the controller is what it was told to be (CSTS.RDY and CSTS.SHST,
    /// NVMe Base §3.1.4.6). A volume that does not answer leaves it as it is, and the host gives it up after CAP.TO. True when this was
    /// the last that was waited for.
    pub(super) fn quiesced(&mut self) -> bool {
        self.quiescing = self.quiescing.saturating_sub(1);
        if self.quiescing > 0 {
            return false;
        }
        if core::mem::take(&mut self.resetting) {
            self.status = match self.configuration {
                again if again.enabled() && again.is_supported() => self.begin(),
                again if again.enabled() => ControllerStatus::FATAL,
                _ => ControllerStatus::default(),
            };
        }
        if self.configuration.shutdown() {
            self.status = self.status.with_shutdown(ControllerStatus::SHUT_DOWN);
        }
        true
    }

    /// A controller level reset: what the host had set is forgotten.
    fn reset(&mut self) {
        self.values = Values::default();
        self.events.clear();
        self.masked.clear();
        self.notifications = Notifications::default();
    }

    /// Keeps an Asynchronous Event Request.
    pub(super) fn hold(&mut self, slot: u16) {
        self.event_requests.push(slot);
    }

    /// Gives up an Asynchronous Event Request; false if this is none.
    pub(super) fn release(&mut self, slot: u16) -> bool {
        let known = self.event_requests.iter().position(|waiting| *waiting == slot);
        known.map(|index| self.event_requests.remove(index)).is_some()
    }

    /// Something happened that the host may want to know.
    pub(super) fn notify(&mut self, event: AsyncEvent) {
        let known = self.events.contains(&event) || self.masked.contains(&event);
        if self.values.async_events.asks_for(event) && !known && self.events.len() < PENDING_EVENTS {
            self.events.push_back(event);
        }
    }

    /// A request that waits, and the event that completes it. Until the event's log page is read, no further
    /// event of its kind is reported.
    pub(super) fn poll_event(&mut self) -> Option<ReportedEvent> {
        if self.event_requests.is_empty() {
            return None;
        }
        let event = self.events.pop_front()?;
        self.masked.push(event);
        Some(ReportedEvent { slot: self.event_requests.remove(0), event })
    }

    /// The host has read a log page, so that its events are reported again.
    pub(super) fn log_was_read(&mut self, lid: u8) {
        let Some(event) = AsyncEvent::of_log(lid) else { return };
        self.masked.retain(|masked| *masked != event);
        match event {
            AsyncEvent::Namespaces => self.changed.clear(),
            AsyncEvent::Reservation if self.notifications.take() => self.notify(event),
            AsyncEvent::Reservation | AsyncEvent::Discovery => {}
        }
    }
}
