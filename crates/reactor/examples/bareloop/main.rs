//! The bare loop: the least that a request/response protocol over TCP streams costs on this machine, as the measure for
//! the real protocols. Requests are 72 bytes, responses 24, as NVMe/TCP's are about; payloads come from and go to memory.
//!
//! The plain mode drives sockets with the reactor's driver and nothing else: no table, no timers, no service, no dynamic
//! dispatch per connection. `--endpoint` runs the same two parties under the whole reactor: the difference is what the loop
//! costs, over one stream. Without `--serve` or `--connect` both ends run in one process, on a processor each.
//!
//! ```text
//! cargo run --release -p reactor --example bareloop -- --bs 4096 --qd 32 --rw read --runtime 3 --json
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark's result goes there")]

mod bare;
mod options;
mod party;
mod whole;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;

use buf::SharedBuf;
use options::Options;
use party::{Initiator, Report, Target};
use reactor::Listener;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

fn main() -> io::Result<()> {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => return Err(io::Error::new(io::ErrorKind::InvalidInput, message)),
    };
    let report = match (options.serve, options.connect) {
        (Some(address), _) => return serve(&options, address),
        (None, Some(peer)) => call(&options, peer)?,
        (None, None) => both(&options)?,
    };
    println!("{}", if options.json { report.json(&options) } else { report.text(&options) });
    Ok(())
}

/// Binds the calling thread to the `index`-th processor, where there are as many.
fn pin(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(processor) = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).nth(index) {
        let mut one = CpuSet::new();
        one.set(processor);
        // Without permission the figures are only less steady.
        let _ = sched_setaffinity(None, &one);
    }
}

fn both(options: &Options) -> io::Result<Report> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let server = options.clone();
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        pin(0);
        if server.endpoint {
            drop(listener);
            return Ok(None);
        }
        let payloads = server.payloads();
        // Nobody to tell means that the client has failed, and says so.
        let _ = tell.send(());
        let streams = accept(&server, &listener)?;
        let mut targets = targets(&server, &payloads);
        bare::run(&server, streams, &mut targets)?;
        Ok::<_, io::Error>(Some(Target::cpu_per_request(&targets)))
    });
    if options.endpoint {
        let _ = thread.join();
        return whole::both(options);
    }
    // The thread has ended without a word if it failed, which its listener's end tells the call.
    let _ = told.recv();
    let mut report = call(options, address)?;
    if let Ok(Ok(Some(cpu))) = thread.join() {
        report.server_cpu = Some(cpu);
    }
    Ok(report)
}

fn call(options: &Options, peer: SocketAddr) -> io::Result<Report> {
    if options.endpoint {
        return whole::call(options, peer);
    }
    pin(1);
    let connections = 0..options.connections;
    let streams = connections.clone().map(|_| TcpStream::connect(peer)).collect::<io::Result<_>>()?;
    let mut initiators: Vec<Initiator> = connections.map(|_| Initiator::new(options)).collect();
    bare::run(options, streams, &mut initiators)?;
    Ok(Initiator::report(&initiators))
}

fn accept(options: &Options, listener: &TcpListener) -> io::Result<Vec<TcpStream>> {
    (0..options.connections).map(|_| listener.accept().map(|(stream, _)| stream)).collect()
}

fn targets(options: &Options, payloads: &SharedBuf) -> Vec<Target> {
    (0..options.connections).map(|_| Target::new(payloads)).collect()
}

/// Serves one stream after the other, or as many at a time as there are to be, until it is ended from outside. Port 0 takes a free one; the first line says which.
fn serve(options: &Options, address: SocketAddr) -> io::Result<()> {
    pin(0);
    if options.endpoint {
        let listener = Listener::bind(address)?;
        println!("listening {}", listener.local());
        return whole::serve(options, listener);
    }
    let payloads = options.payloads();
    let listener = TcpListener::bind(address)?;
    println!("listening {}", listener.local_addr()?);
    loop {
        bare::run(options, accept(options, &listener)?, &mut targets(options, &payloads))?;
    }
}
