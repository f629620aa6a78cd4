//! `engine` makes no system call.
//!
//! Why: daemon and simulator run the same driver code. Anything that the engine did to the world by itself would happen behind the
//! simulator's back, and a seed would no longer give the same run. It sees the world only through `host`'s traits.

use super::super::source::has_word;
use super::super::{Finding, Rule};
use crate::workspace::{Kind, Workspace};

pub(super) const RULE: Rule = Rule { name: "engine", demands: "engine makes no system call", check };

const FOLDER: &str = "crates/engine/src/";
/// An address is a value; what opens a socket or asks a resolver is not.
const PATHS: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "std::fs",
    "std::thread",
    "std::process",
    "std::os",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
];
const CRATES: &[&str] = &["rustix", "libc", "io_uring", "socket2", "tokio", "getrandom", "rand"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under(FOLDER).filter(|(file, _)| !file.is_test()) {
        for (number, line) in source.product_lines() {
            let path = PATHS.iter().find(|path| line.contains(**path));
            let foreign =
                CRATES.iter().find(|name| has_word(line, name) && line.contains(&format!("{name}::")));
            let hit = path.or(foreign);
            findings.extend(
                hit.map(|hit| Finding::at(&file.path, number, format!("reaches the world by `{hit}`"))),
            );
        }
    }
    findings.extend(dependencies(workspace));
    findings
}

fn dependencies(workspace: &Workspace) -> Vec<Finding> {
    let engine = workspace.crates.iter().filter(|member| member.name == "engine");
    let product =
        engine.flat_map(|member| member.dependencies.iter().map(move |dependency| (member, dependency)));
    product
        .filter(|(_, dependency)| dependency.kind == Kind::Product)
        .filter(|(_, dependency)| CRATES.contains(&dependency.name.replace('-', "_").as_str()))
        .map(|(member, dependency)| {
            Finding::whole(&member.manifest, format!("depends on `{}`", dependency.name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn protocol_time_passes() {
        let text = "//! x\nuse protocol::Instant;\nuse std::time::Duration;\nuse std::net::SocketAddr;\n";
        assert!(plant::lines(&RULE, "crates/engine/src/driver.rs", text).is_empty());
    }

    #[test]
    fn system_calls_are_found() {
        let text = "//! x\nuse std::fs;\nlet now = Instant::now();\nrustix::io::read(fd);\nuse std::net::{SocketAddr, TcpStream};\n";
        assert_eq!(plant::lines(&RULE, "crates/engine/src/driver.rs", text), [2, 3, 4, 5]);
    }

    #[test]
    fn a_dependency_that_makes_them_is_found() {
        let mut member = plant::member("engine", &[]);
        member.dependencies.push(plant::dependency("io-uring", false));
        let workspace = Workspace { crates: vec![member], ..Workspace::default() };
        assert_eq!(plant::findings(&RULE, &workspace).len(), 1);
    }
}
