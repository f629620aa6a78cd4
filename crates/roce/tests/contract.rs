//! The contract of queue pairs over two endpoints and a network that loses nothing.

mod rig;

use rig::{CONFIG, World};
use roce::Config;
use roce::mtu::Mtu;
use verbs::contract::check;

#[test]
fn the_contract_is_kept_at_every_path_mtu() {
    for mtu in [Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024, Mtu::Bytes2048, Mtu::Bytes4096] {
        let config = Config { mtu, ..CONFIG };
        let result = check(&mut || Box::new(World::connected([config, config])));
        assert_eq!(result, Ok(()), "{mtu:?}");
    }
}

#[test]
fn the_contract_is_kept_over_ipv6() {
    let result = check(&mut || {
        let mut world = World::new([CONFIG, CONFIG], true, 1);
        world.connect();
        Box::new(world)
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn the_contract_is_kept_with_few_reads_under_way() {
    for [near, far] in [[1, 4], [4, 1], [128, 128]] {
        let config = |reads| Config { reads_served: reads, reads_sent: reads, ..CONFIG };
        let result = check(&mut || Box::new(World::connected([config(near), config(far)])));
        assert_eq!(result, Ok(()), "{near} and {far}");
    }
}

#[test]
fn the_contract_is_kept_where_numbers_begin_anew() {
    for begin in [0x00ff_fff0, 0x00ff_ffff, 0x007f_fff8] {
        let result = check(&mut || {
            let mut world = World::with_numbers([CONFIG, CONFIG], false, 1, vec![100, begin]);
            world.connect();
            Box::new(world)
        });
        assert_eq!(result, Ok(()), "{begin:#x}");
    }
}
