//! The contract of queue pairs over two iWARP connections: in all combinations of markers and CRCs, and however bytes are cut.

mod rig;

use iwarp::mpa::{Offer, Revision, Rtr, RtrKinds};
use rig::{Chunks, Joined, OFFER};
use verbs::contract::check;

/// Each bit is a choice of one end: markers and CRCs.
fn offers(bits: u8) -> [Offer; 2] {
    let bit = |at: u8| bits & (1 << at) != 0;
    [Offer { markers: bit(0), crc: bit(1), ..OFFER }, Offer { markers: bit(2), crc: bit(3), ..OFFER }]
}

#[test]
fn the_contract_is_kept_with_and_without_markers_and_crcs() {
    for bits in 0..16 {
        let mut seed = 0;
        let result = check(&mut || {
            seed += 1;
            Box::new(Joined::open(offers(bits), Chunks::random(seed)))
        });
        assert_eq!(result, Ok(()), "{bits:#b}");
    }
}

#[test]
fn the_contract_is_kept_byte_by_byte() {
    for bits in [0, 0b1111] {
        let result = check(&mut || Box::new(Joined::open(offers(bits), Chunks::Of(1))));
        assert_eq!(result, Ok(()), "{bits:#b}");
    }
}

#[test]
fn the_contract_is_kept_with_every_revision_and_way_to_show_readiness() {
    let one = Offer { revision: Revision::One, ..OFFER };
    let own = Offer { rtr: RtrKinds::default(), ..OFFER };
    let kinds = [Rtr::Write, Rtr::Read, Rtr::ZeroLength];
    let ready = kinds.map(|rtr| Offer { rtr: RtrKinds::only(rtr), ..OFFER });
    for near in [one, own].into_iter().chain(ready) {
        let result = check(&mut || Box::new(Joined::open([near, OFFER], Chunks::Of(usize::MAX))));
        assert_eq!(result, Ok(()), "{near:?}");
    }
}
