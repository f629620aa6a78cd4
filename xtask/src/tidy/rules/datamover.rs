//! `iscsi::target` and `iscsi::initiator` name nothing that belongs to a datamover.
//!
//! Why: RFC 5047 draws the line between iSCSI and what moves its data, so that the same roles stand on a byte stream and on RDMA. A digest or an R2T above
//! that line compiles well, and holds for one transport only. Headers of PDUs and negotiated keys, MaxOutstandingR2T among them, belong to both sides; what is
//! listed here belongs to one. Comments may name it, to say where it is.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "datamover",
    demands: "iscsi's target and initiator name nothing of a byte stream or of RDMA",
    check,
};

const FOLDERS: &[&str] = &["crates/iscsi/src/target/", "crates/iscsi/src/initiator/"];
/// Words, wherever they stand in a name or a message.
const WORDS: &[&str] = &[
    "tcp",
    "stream",
    "framing",
    "digest",
    "digests",
    "crc",
    "crc32c",
    "staged",
    "staging",
    "placement",
    "iser",
    "rdma",
    "iwarp",
    "stag",
];
/// Parts of names: PDUs that move data, their numbers, and what is written into a header when it leaves.
const PARTS: &[&str] =
    &["data_in", "data_out", "data_sn", "r2t_sn", "stamp_length", "stamp_request", "stamp_response"];
/// Names as a whole: `initial_r2t` is a key of the session's.
const NAMES: &[&str] = &["r2t"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let files = FOLDERS.iter().flat_map(|folder| workspace.rust_under(folder));
    let mut findings = Vec::new();
    for (file, source) in files.filter(|(file, _)| !file.is_test()) {
        for (number, line) in source.lines_with_strings() {
            let hits = names(line).filter(|name| is_of_a_datamover(&snake(name)));
            findings.extend(hits.map(|name| {
                let message = format!("`{name}` belongs to a datamover (crates/iscsi/src/datamover/)");
                Finding::at(&file.path, number, message)
            }));
        }
    }
    findings
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|name| !name.is_empty())
}

fn is_of_a_datamover(name: &str) -> bool {
    let has = |part: &&str| format!("_{name}_").contains(&format!("_{part}_"));
    NAMES.contains(&name) || WORDS.iter().chain(PARTS).any(has)
}

/// A name in small letters, with an underscore between its words: `DataIn` and `DATA_IN` are both `data_in`.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    let mut previous = '_';
    for letter in name.chars() {
        if letter.is_uppercase() && previous.is_lowercase() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
        previous = letter;
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    const TARGET: &str = "crates/iscsi/src/target/commands.rs";

    #[test]
    fn what_belongs_to_a_datamover_is_found_in_names_and_messages() {
        for planted in [
            "use crate::datamover::tcp::TcpTarget;",
            "Carrier::Stream => {}",
            "let digests = parameters.header_digest;",
            "if length > STAGED {}",
            "Opcode::DATA_OUT => {}",
            "fn handle(data: &DataIn) {}",
            "let sn = r2t.r2t_sn();",
            "use crate::pdu::R2t;",
            "struct DataInSequence;",
            "stamp_length(&mut header, 0);",
            "tuning.over_rdma(8192)",
            "close(\"the byte stream ended\")",
        ] {
            // A line may name several things.
            let mut lines = plant::lines(&RULE, TARGET, &format!("//! x\n{planted}\n"));
            lines.dedup();
            assert_eq!(lines, [2], "{planted}");
        }
        assert_eq!(
            plant::lines(&RULE, "crates/iscsi/src/initiator/cdb.rs", "const A: usize = STAGED;\n"),
            [1]
        );
    }

    #[test]
    fn keys_comments_tests_and_other_folders_pass() {
        for fine in [
            "let more = parameters.initial_r2t && parameters.outstanding_r2t.min(MOST_R2T) > 1;",
            "// R2Ts and digests are the datamover's.",
            "let stage = Stage::Security; let upstream = 1;",
            "#[cfg(test)]\nmod tests {\n    use crate::datamover::tcp::TcpTarget;\n}",
            "self.mover.put_data(put); let data = DataDirection::In(0);",
        ] {
            assert!(plant::lines(&RULE, TARGET, &format!("//! x\n{fine}\n")).is_empty(), "{fine}");
        }
        for path in ["crates/iscsi/src/datamover/tcp/target.rs", "crates/iscsi/tests/pair.rs"] {
            assert!(plant::lines(&RULE, path, "use x::TcpTarget;\n").is_empty(), "{path}");
        }
    }
}
