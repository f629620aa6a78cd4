//! A server of several cores for one disk.

use std::sync::Arc;
use std::task::Waker;

use engine::{Catalogue, Core, EngineConfig, ListenerRole, Message};
use host::{CoreIndex, World as HostWorld};
use volume::Volume;

use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, Plant};
use crate::mail::{Mail, Sender, Tamper};
use crate::world::{World, WorldDialer};

/// What a server is like.
pub(crate) struct Serving {
    /// What is spoken on each port, from 1.
    pub(crate) listeners: Vec<ListenerRole>,
    pub(crate) cores: CoreIndex,
    /// Buffers of each core, in bytes.
    pub(crate) pool: usize,
    /// What is done to the messages between its cores.
    pub(crate) tamper: Option<Tamper<Message>>,
}

/// The cores of a server for the disk, and their mailboxes.
pub(crate) fn cores(
    disk: Arc<dyn Volume>,
    serving: Serving,
) -> Result<(Vec<Core>, Arc<Mail<Message>>), String> {
    let config = Arc::new(EngineConfig {
        pool_limit: serving.pool,
        entropy: Arc::new(|| Box::new(Dice::new(1))),
        journal: Arc::new(host::Silent),
        observer: Arc::new(host::Silent),
    });
    let catalogue = Catalogue::first([("disk".into(), disk)], serving.listeners);
    let mail = Mail::new(serving.cores.into());
    let mail = Arc::new(match serving.tamper {
        None => mail,
        Some(tamper) => mail.tampered(tamper),
    });
    let options = DiskOptions { sectors: 1, errors: Odds::NEVER, plant: Plant::None, write_back: None };
    let storage = CrashDisk::new(options, Dice::new(1));
    let cores = (0..serving.cores).map(|core| {
        let surroundings = HostWorld {
            core,
            storage: Arc::new(storage.clone()),
            dialer: Arc::new(WorldDialer),
            postbox: Arc::new(Sender { mail: Arc::clone(&mail), from: core }),
            waker: Waker::noop().clone(),
        };
        Core::new(Arc::clone(&config), catalogue.clone(), surroundings).map_err(|error| error.to_string())
    });
    Ok((cores.collect::<Result<_, String>>()?, mail))
}

/// Starts a server for the disk.
pub(crate) fn serve(world: &mut World<Core>, disk: Arc<dyn Volume>, serving: Serving) -> Result<(), String> {
    let (cores, mail) = cores(disk, serving)?;
    world.start_server(cores, mail);
    Ok(())
}
