//! Keeps many reads of one volume under way for a number of requests: `many_reads URL DEPTH REQUESTS`. Shows callbacks: each
//! end starts the next request on the core's own thread.
#![expect(clippy::print_stdout, reason = "what the program is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

use linerate::{Client, ClientConfig, Disk, Extent, VolumeErrorKind};

/// What all requests share.
struct Run {
    disk: Disk,
    blocks: u64,
    left: AtomicU64,
}

impl Run {
    /// Starts a read, and when it has ended the next one, until none is left. `tell` goes with the last.
    fn go_on(self: Arc<Self>, tell: Sender<VolumeErrorKind>) {
        let number = self.left.load(Ordering::Relaxed);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return;
        }
        let extent = Extent::new(number.wrapping_mul(7919) % (self.blocks / 8) * 8, 8);
        let disk = self.disk.clone();
        disk.submit_read(extent, move |result| match result {
            Ok(_) => self.go_on(tell),
            Err(kind) => {
                // Nobody hears it only when another request has failed first.
                let _ = tell.send(kind);
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, depth, requests] = arguments.as_slice() else {
        return Err("usage: many_reads URL DEPTH REQUESTS".into());
    };
    let (depth, requests): (usize, u64) = (depth.parse()?, requests.parse()?);
    let client = Client::start(&ClientConfig { depth, ..ClientConfig::default() })?;
    let disk = client.open(&url.parse()?)?;
    let blocks = disk.geometry().blocks;
    let run = Arc::new(Run { disk, blocks, left: AtomicU64::new(requests) });
    let (tell, told) = mpsc::channel();
    let began = Instant::now();
    for _ in 0..depth {
        Arc::clone(&run).go_on(tell.clone());
    }
    drop(tell);
    if let Ok(kind) = told.recv() {
        return Err(kind.into());
    }
    println!("{requests} reads in {:.3} s", began.elapsed().as_secs_f64());
    Ok(())
}
