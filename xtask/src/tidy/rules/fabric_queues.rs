//! The queues of NVMe name nothing of NVMe/TCP.
//!
//! Why: a queue takes submission and completion queue entries over any transport, and asks it by a trait for what it needs. Once a queue named an R2T or a
//! digest, every other transport would have to pretend that it had them. PDUs, digests, R2Ts and what is agreed about them are `nvme::transport::tcp`'s.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "fabric_queues",
    demands: "nothing under nvme's controller/ and host/ names a PDU, a digest or an R2T of NVMe/TCP",
    check,
};

const FOLDERS: &[&str] = &["crates/nvme/src/controller/", "crates/nvme/src/host/"];

/// Words of a name that only NVMe/TCP has, and pairs of words that follow each other in one.
const WORDS: &[&[&str]] = &[
    &["pdu"],
    &["r2t"],
    &["h2c"],
    &["c2h"],
    &["digest"],
    &["digests"],
    &["ic", "req"],
    &["ic", "resp"],
    &["term", "req"],
    &["capsule", "cmd"],
    &["capsule", "resp"],
];

/// Settings of an operator's for the transport: a queue carries them and never looks at them.
const CARRIED: &[(&str, &str)] = &[
    ("crates/nvme/src/controller/portal.rs", "require_digests"),
    ("crates/nvme/src/host/mod.rs", "header_digest"),
    ("crates/nvme/src/host/mod.rs", "data_digest"),
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in FOLDERS {
        for (file, source) in workspace.rust_under(folder).filter(|(file, _)| !file.is_test()) {
            for (number, line) in source.product_lines() {
                let foreign = names(line).filter(|name| is_of_tcp(name));
                let found = foreign.filter(|name| !CARRIED.contains(&(file.path.as_str(), *name)));
                findings.extend(
                    found.map(|name| Finding::at(&file.path, number, format!("`{name}` is NVMe/TCP's"))),
                );
            }
        }
    }
    findings
}

/// The names in a line of code.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|name| !name.is_empty())
}

fn is_of_tcp(name: &str) -> bool {
    let words = words(name);
    WORDS.iter().any(|wanted| words.windows(wanted.len()).any(|window| window == *wanted))
}

/// The words of a name in any of Rust's spellings, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let mut word = String::new();
        for letter in part.chars() {
            if letter.is_uppercase() && word.ends_with(char::is_lowercase) {
                words.push(std::mem::take(&mut word).to_lowercase());
            }
            word.push(letter);
        }
        words.push(word.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    const QUEUE: &str = "crates/nvme/src/controller/queue.rs";

    #[test]
    fn what_is_of_tcp_is_found_in_every_spelling() {
        for planted in [
            "use crate::pdu::R2t;",
            "let longest = MAX_H2C_DATA;",
            "fn handle_c2h_data(&mut self) {}",
            "let agreed = Agreement { header_digest };",
            "IcReq::new(true)",
            "fn answer(response: CapsuleResp) {}",
            "struct H2cTermReq;",
        ] {
            assert_eq!(plant::lines(&RULE, QUEUE, &format!("//! x\n{planted}\n"))[0], 2, "{planted}");
            assert!(!plant::lines(&RULE, "crates/nvme/src/host/setup.rs", planted).is_empty(), "{planted}");
        }
    }

    #[test]
    fn other_names_comments_tests_and_the_transport_pass() {
        for fine in [
            "let stop_due = update(icon, requests);",
            "fn send(capsule: CommandCapsule) -> Response {}",
            "// An R2T is the transport's.",
            "#[cfg(test)]\nmod tests {\n    use crate::pdu::R2t;\n}",
        ] {
            assert!(plant::lines(&RULE, QUEUE, &format!("//! x\n{fine}\n")).is_empty(), "{fine}");
        }
        let tcp = "use crate::pdu::{IcReq, R2t};\n";
        assert!(plant::lines(&RULE, "crates/nvme/src/transport/tcp/host.rs", tcp).is_empty());
    }

    #[test]
    fn settings_are_carried_where_they_are_listed_and_nowhere_else() {
        for (path, name) in CARRIED {
            let text = format!("//! x\npub {name}: bool,\n");
            assert!(plant::lines(&RULE, path, &text).is_empty(), "{path}: {name}");
            assert_eq!(plant::lines(&RULE, QUEUE, &text), [2], "{name}");
        }
    }
}
