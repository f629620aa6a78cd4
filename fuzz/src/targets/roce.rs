//! RoCE's packets: what decodes says the same when it is encoded again, and what is summed is right.

use roce::icrc::{self, Addresses, Path};
use roce::packet::{PORT, Packet};
use wire::Writer;

/// A packet without its invariant CRC.
///
/// # Panics
/// A packet changes or grows when it is encoded again, or its right sum is refused.
pub fn packet(bytes: &[u8]) {
    let addresses = Addresses::V4 { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
    let path = Path { addresses, source_port: 49_152, destination_port: PORT };
    let _ = icrc::check(&path, bytes);
    let Ok(packet) = Packet::decode(bytes) else { return };
    let mut again = vec![0; bytes.len()];
    assert!(packet.encode(&mut Writer::new(&mut again)).is_ok(), "a packet grew");
    assert_eq!(Packet::decode(&again).as_ref(), Ok(&packet), "a packet changed");
    again.extend(path.icrc(7, &again));
    assert!(icrc::check(&path, &again).is_ok(), "a right sum is refused");
}
