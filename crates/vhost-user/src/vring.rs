//! What a queue and the thread that speaks with the device both have: the memory of a ring, and how either side is notified.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use virtio::Area;
use virtio::either::{AnyDriver, Layout};
use virtio::queue::Features;

use crate::session::{Stretch, VringSetup};
use crate::slots;
use crate::sys::{Created, SharedArea};

/// Areas begin at multiples of this many bytes: a line of the cache.
const LINE: usize = 64;

/// An event that nobody has heard of.
fn event() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// A ring, and the slots of its requests behind it.
#[derive(Debug, Clone)]
pub(crate) struct VringParts {
    pub(crate) index: u16,
    layout: Layout,
    area: SharedArea,
    pub(crate) file: Arc<OwnedFd>,
    kick: Arc<OwnedFd>,
    pub(crate) call: Arc<OwnedFd>,
}

impl VringParts {
    /// A fresh ring in memory of its own.
    pub(crate) fn new(index: u16, layout: Layout) -> io::Result<Self> {
        let ring: usize = layout.lens().map(|len| len.next_multiple_of(LINE)).iter().sum();
        let Created { area, file } = SharedArea::create(ring + slots::LEN)?;
        Ok(Self { index, layout, area, file: Arc::new(file), kick: event()?, call: event()? })
    }

    /// The same memory for another queue, with events that nobody else hears.
    pub(crate) fn with_own_events(&self) -> io::Result<Self> {
        Ok(Self { kick: event()?, call: event()?, ..self.clone() })
    }

    /// Where the three areas of the ring begin, and the slots.
    fn places(&self) -> [usize; 4] {
        let [table, driver, device] = self.layout.lens().map(|len| len.next_multiple_of(LINE));
        [0, table, table + driver, table + driver + device]
    }

    fn areas(&self) -> Option<[SharedArea; 3]> {
        let [table, driver, device, _] = self.places();
        let [table_len, driver_len, device_len] = self.layout.lens();
        Some([
            self.area.part(table, table_len)?,
            self.area.part(driver, driver_len)?,
            self.area.part(device, device_len)?,
        ])
    }

    /// The driver's side, fresh.
    pub(crate) fn driver(&self, features: Features) -> Option<AnyDriver<SharedArea>> {
        AnyDriver::new(self.layout, self.areas()?, features)
    }

    /// The memory of the slots.
    pub(crate) fn slots(&self) -> Option<SharedArea> {
        self.area.part(self.places()[3], slots::LEN)
    }

    /// Makes the ring fresh again. Nobody else uses it.
    pub(crate) fn clear(&self) {
        let zeros = [0; 4096];
        let end = self.places()[3];
        for at in (0..end).step_by(zeros.len()) {
            self.area.write(at, zeros.get(..zeros.len().min(end - at)).unwrap_or_default());
        }
    }

    /// Notifies the device.
    pub(crate) fn kick(&self) {
        // It cannot fail: a count that is full has notified already.
        let _told = rustix::io::write(&*self.kick, &1_u64.to_ne_bytes());
    }

    /// Notifies this side's own core.
    pub(crate) fn call(&self) {
        let _told = rustix::io::write(&*self.call, &1_u64.to_ne_bytes());
    }

    /// All of its memory.
    pub(crate) fn stretch(&self) -> Stretch {
        Stretch { address: wire::widen(self.area.address()), len: wire::widen(self.area.len()) }
    }

    /// The index of the used ring, where a split queue has it.
    fn used_index(&self) -> Option<u32> {
        match self.layout {
            Layout::Split(_) => Some(u32::from(self.areas()?[2].load(2))),
            Layout::Packed(_) => None,
        }
    }

    /// As the device is told of it. One that goes on with what was under way finds what was used behind the index of the used ring.
    pub(crate) fn setup(&self) -> VringSetup<'_> {
        let address = |place: usize| wire::widen(self.area.address() + place);
        let [table, driver, device, _] = self.places();
        VringSetup {
            index: self.index,
            layout: self.layout,
            addresses: [address(table), address(driver), address(device)],
            base: self.used_index(),
            kick: &self.kick,
            call: &self.call,
        }
    }
}
