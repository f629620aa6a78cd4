//! A server of several cores for one disk.

use std::sync::Arc;
use std::task::Waker;

use engine::{
    Catalogue, ControlObserver, Core, EngineConfig, EntropySource, ListenerRole, Message, NamedVolume,
    Transport,
};
use host::{CoreIndex, Journal, World as HostWorld};
use volume::Volume;

use crate::dice::{Dice, Odds};
use crate::disk::{CrashDisk, DiskOptions, PlantedBug};
use crate::failure::TrialFailure;
use crate::mail::{Mail, MessageHook, Sender};
use crate::trial::{bind, carry};
use crate::world::{World, WorldDialer};

/// What a server is like.
pub(crate) struct Serving {
    /// What is spoken on each port, from 1.
    pub(crate) listeners: Vec<ListenerRole>,
    /// What carries it.
    pub(crate) transport: Transport,
    pub(crate) cores: CoreIndex,
    /// Buffers of each core, in bytes.
    pub(crate) pool: usize,
    /// What is done to the messages between its cores.
    pub(crate) hook: Option<MessageHook<Message>>,
}

/// What the cores of a server are made of.
pub(crate) struct Makings {
    pub(crate) catalogue: Catalogue,
    pub(crate) cores: CoreIndex,
    /// Buffers of each core, in bytes.
    pub(crate) pool: usize,
    /// What is done to the messages between its cores.
    pub(crate) hook: Option<MessageHook<Message>>,
    pub(crate) entropy: EntropySource,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) observer: Arc<dyn ControlObserver>,
}

/// The cores of a server for the disk, and their mailboxes.
pub(crate) fn cores(
    disk: Arc<dyn Volume>,
    serving: Serving,
    entropy: EntropySource,
) -> Result<(Vec<Core>, Arc<Mail<Message>>), TrialFailure> {
    let Serving { listeners, transport, cores, pool, hook } = serving;
    let mut catalogue = Catalogue::first([NamedVolume { name: "disk".into(), volume: disk }], listeners);
    carry(&mut catalogue, transport);
    let (journal, observer) = (Arc::new(host::Silent), Arc::new(host::Silent));
    make_cores(Makings { catalogue, cores, pool, hook, entropy, journal, observer })
}

/// The cores of a server, and their mailboxes.
pub(crate) fn make_cores(makings: Makings) -> Result<(Vec<Core>, Arc<Mail<Message>>), TrialFailure> {
    let config = Arc::new(EngineConfig {
        pool_limit: makings.pool,
        entropy: makings.entropy,
        adapters: Arc::new(host::NoAdapters),
        journal: makings.journal,
        observer: makings.observer,
        roce: Arc::default(),
    });
    let mail = Mail::new(makings.cores.into());
    let mail = Arc::new(match makings.hook {
        None => mail,
        Some(hook) => mail.tampered(hook),
    });
    let options = DiskOptions { sectors: 1, errors: Odds::NEVER, bug: PlantedBug::None, write_back: None };
    let storage = CrashDisk::new(options, Dice::new(1));
    let cores = (0..makings.cores).map(|core| {
        let context = HostWorld {
            core,
            storage: Arc::new(storage.clone()),
            dialer: Arc::new(WorldDialer),
            postbox: Arc::new(Sender { mail: Arc::clone(&mail), from: core }),
            waker: Waker::noop().clone(),
        };
        let catalogue = makings.catalogue.clone();
        Core::new(Arc::clone(&config), catalogue, context)
    });
    Ok((cores.collect::<Result<_, _>>()?, mail))
}

/// Starts a server for the disk.
pub(crate) fn serve(
    world: &mut World<Core>,
    disk: Arc<dyn Volume>,
    serving: Serving,
) -> Result<(), TrialFailure> {
    let transport = serving.transport;
    let (cores, mail) = cores(disk, serving, world.entropy())?;
    world.start_server(cores, mail);
    bind(world, transport);
    Ok(())
}
