//! iSER, both roles, over queue pairs of software iWARP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::iser::ready;
use common::{BLOCK, config, portal};
use protocol::pair::aperiodic;

#[test]
fn login_probe_write_read() {
    let mut bench = ready(config(), portal(2048));
    let unit = bench.unit.clone().unwrap();
    assert_eq!((unit.geometry.blocks, unit.product.as_str()), (2048, "DISK"));
    let bytes = aperiodic(8 * BLOCK, 1);
    bench.write(8, bytes.clone()).unwrap();
    assert_eq!(bench.read(8, 8).unwrap(), bytes);
    assert_eq!(bench.memory.bytes[8 * BLOCK..16 * BLOCK], bytes);
}

#[test]
fn data_of_all_sizes_arrives() {
    let mut bench = ready(config(), portal(4096));
    bench.check_integrity("iSER");
    assert_eq!(bench.pair.far.connection.outstanding(), 0);
}
