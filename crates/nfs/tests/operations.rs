//! Which operations are served, as the decoder knows them; the same table is in docs/protocols/nfs.md.
//!
//! `UPDATE_TABLES=1 cargo test -p nfs --test operations` writes it anew.

use std::fmt::Write as _;

use nfs::v4::Principal;
use nfs::v4::operation::{Decoded, OpNumber, Operation};
use rpc::xdr::Reader;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../", "docs/protocols/nfs.md");
const BEGIN: &str = "<!-- operations: begin -->\n";
const END: &str = "<!-- operations: end -->\n";

/// True unless whatever follows is refused with NFS4ERR_NOTSUPP.
fn is_served(number: OpNumber) -> bool {
    let decoded = Operation::decode(number, &mut Reader::new(&[0; 256]), Principal::Nobody);
    !matches!(decoded, Ok(Decoded { operation: Operation::NotServed(_), .. }))
}

#[test]
fn the_document_lists_every_operation() {
    let mut table = String::from("| number | operation | versions | |\n|---|---|---|---|\n");
    for number in OpNumber::ALL {
        let versions = if number.is_of(1) { "4.1, 4.2" } else { "4.2" };
        let served = if is_served(*number) { "served" } else { "NFS4ERR_NOTSUPP" };
        writeln!(table, "| {} | {} | {versions} | {served} |", number.0, number.name()).unwrap();
    }
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (front, rest) = document.split_once(BEGIN).unwrap();
    let (middle, back) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(DOCUMENT, format!("{front}{BEGIN}{table}{END}{back}")).unwrap();
    } else {
        assert_eq!(middle, table, "UPDATE_TABLES=1 writes the document's table anew");
    }
}
