//! `linerate attach`: a volume as a device or server of another kind, for programs that do not speak its protocol.

use std::path::PathBuf;

use ::attach::fuse::{self, FuseConfig};
use ::attach::nbd::{self, NbdConfig, NbdVolume};
use ::attach::ublk::{self, UblkConfig};
use ::attach::vhost::{self, VhostConfig, VhostVolume};
use ::attach::{Congestion, Cores, CpuList, Driver, ListenAddress};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use names::{Span, VolumeUrl};

use crate::output;

/// As what a volume is to appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An NBD server, for QEMU, libnbd and Linux' nbd-client
    Nbd,
    /// A file, by FUSE, for loop devices and programs that open files
    Fuse,
    /// A vhost-user block device, for virtual machines
    VhostUser,
    /// A block device of this machine, by Linux' ublk driver
    Ublk,
}

/// Arguments of `attach`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1
    url: VolumeUrl,
    /// Where the volume appears: for nbd, unix:PATH or ADDR:PORT; for fuse, the path of a file; for vhost-user, the path of a socket; for
    /// ublk, /dev/ublkbN or auto
    place: String,
    /// More volumes, each with its place, that the same process serves: for nbd and vhost-user
    #[arg(value_name = "URL PLACE")]
    more: Vec<String>,
    /// What the volume appears as
    #[arg(long = "as", value_name = "KIND", value_enum)]
    kind: Kind,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Event loops, each on a core of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: Option<u16>,
    /// Bind the adapter to these processors, such as 1,2 or 4-7, and run one event loop on each
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// How long a core that expects work looks for it before it sleeps, such as 50us; 0 never does
    #[arg(long, value_name = "DURATION")]
    spin: Option<Span>,
    /// TCP congestion control of the connections, such as dctcp; system for the system's own [default: cubic, where that is permitted]
    #[arg(long, value_name = "NAME", value_parser = Congestion::named)]
    congestion: Option<Congestion>,
    /// How to reach the kernel: auto, uring or epoll
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    driver: String,
    /// Write the place to this file once the volume is ready for use; a line for each, if there are several
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Serve anybody who can reach the place: for nbd also beyond loopback, for fuse all users of the machine
    #[arg(long)]
    allow_any: bool,
}

impl Args {
    /// All volumes, each with its place.
    fn volumes(&self) -> Result<Vec<(VolumeUrl, &str)>> {
        let mut volumes = vec![(self.url.clone(), self.place.as_str())];
        for pair in self.more.chunks(2) {
            let [url, place] = pair else {
                bail!("{:?} has no place: write URL PLACE for each volume", pair.concat());
            };
            volumes.push((url.parse().with_context(|| url.clone())?, place));
        }
        Ok(volumes)
    }

    /// The only volume.
    fn only(&self) -> Result<(VolumeUrl, &str)> {
        if !self.more.is_empty() {
            bail!(
                "a process serves one volume as this kind: run `linerate attach` for each, or use --as nbd or --as vhost-user"
            );
        }
        Ok((self.url.clone(), &self.place))
    }
}

/// Runs the command: until a signal asks it to stop.
pub(crate) fn run(args: &Args) -> Result<()> {
    let cores = Cores {
        count: args.cores,
        cpus: args.cpus.clone(),
        spin: args.spin.map(|span| span.0),
        congestion: args.congestion.unwrap_or_default(),
        driver: driver(&args.driver)?,
    };
    let say = |line: &str| {
        // Whoever closed standard output does not want to know how to connect.
        let _unheard = output::line(line);
    };
    match args.kind {
        Kind::Nbd => {
            let volumes = args.volumes()?.into_iter();
            let volumes =
                volumes.map(|(url, place)| Ok(NbdVolume { url, place: place.parse::<ListenAddress>()? }));
            let config = NbdConfig {
                volumes: volumes.collect::<Result<_>>()?,
                read_only: args.read_only,
                allow_any: args.allow_any,
                cores,
                ready_file: args.ready_file.clone(),
            };
            nbd::serve(&config, &say)
        }
        Kind::Fuse => {
            let (url, place) = args.only()?;
            let config = FuseConfig {
                url,
                path: place.into(),
                read_only: args.read_only,
                allow_any: args.allow_any,
                cores,
                ready_file: args.ready_file.clone(),
            };
            fuse::serve(&config, &say)
        }
        Kind::VhostUser => {
            let volumes = args.volumes()?.into_iter();
            let config = VhostConfig {
                volumes: volumes.map(|(url, place)| VhostVolume { url, path: place.into() }).collect(),
                read_only: args.read_only,
                cores,
                ready_file: args.ready_file.clone(),
            };
            vhost::serve(&config, &say)
        }
        Kind::Ublk => {
            let (url, place) = args.only()?;
            let config = UblkConfig {
                url,
                place: place.parse()?,
                read_only: args.read_only,
                cores,
                ready_file: args.ready_file.clone(),
            };
            ublk::serve(&config, &say)
        }
    }
}

fn driver(name: &str) -> Result<Driver> {
    Ok(match name {
        "auto" => Driver::Auto,
        "uring" => Driver::Uring,
        "epoll" => Driver::Epoll,
        other => bail!("there is no driver {other:?}: say auto, uring or epoll"),
    })
}
