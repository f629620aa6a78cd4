//! `linerate lab agent` as its users meet it: a scenario across two agents, what is left when the lab is killed, and what it
//! refuses to start with.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{program, run_in_vain, until};
use serde_json::Value;
use tempfile::tempdir;

/// Two arms, one point, as short as it can be.
const SCENARIO: &str = r#"
id = "test.two-hosts"
title = "Two hosts"
question = "Does a target on one host and a load on another give a result with both hosts' processors?"
compares = ["protocol"]

[source]
publication = "Linerate"
part = "a test"

[[arm]]
key = "A"
name = "iSCSI"
initiator = "linerate"
target = "linerate-iscsi"
evidence = { kind = "real" }

[[arm]]
key = "B"
name = "NVMe/TCP"
initiator = "linerate"
target = "linerate-nvme"
evidence = { kind = "real" }

[topology]
volume = "ram:8M"
link = { kind = "loopback" }

[workload]
tool = "fio"
options = { rw = "randread", iodepth = "8", numjobs = "1", direct = "1", time_based = "1" }

[[sweep]]
axis = "bs"
values = ["4k"]

[design]
min_pairs = 5
max_pairs = 5
ramp = 0.1
runtime = RUNTIME

[[figure]]
id = "iops"
title = "IOPS"
kind = "bars"
x = "bs"
y = ["iops"]
"#;

/// A command in a network namespace, or here.
fn inside(namespace: Option<&str>) -> Command {
    match namespace {
        None => Command::new(program()),
        Some(name) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/run/netns/{name}")).arg("--").arg(program());
            command
        }
    }
}

/// A running `linerate lab agent`, killed when it is dropped.
struct Agent {
    child: Child,
    address: String,
    token: PathBuf,
    state: PathBuf,
}

impl Agent {
    fn start(folder: &Path, name: &str, (namespace, listen): (Option<&str>, &str)) -> Self {
        let (token, state) = (folder.join(format!("{name}.token")), folder.join(name));
        fs::write(&token, format!("a token of {name}, long enough\n")).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let mut child = inside(namespace)
            .args(["lab", "agent", "--listen", listen, "--token-file"])
            .arg(&token)
            .arg("--state")
            .arg(&state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("listening: ") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the agent ended");
        }
        let address = line.trim().trim_start_matches("listening: ").to_owned();
        // Nobody reads on: what it says later must not stop it.
        drop(lines);
        Self { child, address, token, state }
    }

    /// Its table of a site file.
    fn site(&self, name: &str, interface: &str) -> String {
        format!(
            "[host.{name}]\nagent = \"{}\"\ntoken_file = {:?}\ninterface = \"{interface}\"\n",
            self.address,
            self.token.display().to_string()
        )
    }

    /// Folders of labs that it serves.
    fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.state).unwrap().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Scenario and site in a folder; both arms have their target on one agent and their load on the other.
fn write_files(folder: &Path, (target, host): (&Agent, &Agent), (interface, runtime): (&str, &str)) {
    fs::write(folder.join("two.toml"), SCENARIO.replace("RUNTIME", runtime)).unwrap();
    let arm = "target_host = \"storage\"\nhost = \"client\"\nevidence = { kind = \"real\" }\n";
    let site = [
        target.site("storage", interface),
        host.site("client", interface),
        format!("[arm.A]\n{arm}[arm.B]\n{arm}"),
    ];
    fs::write(folder.join("site.toml"), site.concat()).unwrap();
}

fn lab_run(folder: &Path, namespace: Option<&str>) -> Command {
    let mut command = inside(namespace);
    command.args(["lab", "run", "two.toml", "--site", "site.toml", "--runs", "runs", "--json-progress"]);
    command.current_dir(folder).stdin(Stdio::null());
    command.stdout(File::create(folder.join("lab.out")).unwrap());
    command.stderr(File::create(folder.join("lab.log")).unwrap());
    command
}

/// Every result below a folder.
fn results(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(results(&entry.path()));
        } else if entry.file_name() == "result.json" {
            found.push(serde_json::from_str(&fs::read_to_string(entry.path()).unwrap()).unwrap());
            assert!(entry.path().with_file_name("bench.json").exists(), "the raw output stays beside it");
        }
    }
    found
}

fn seconds(share: &Value) -> f64 {
    share["user"].as_f64().unwrap() + share["system"].as_f64().unwrap()
}

/// A whole run, and what must be in each of its results.
fn measure_across(folder: &Path, (target, host): (&Agent, &Agent), namespace: Option<&str>) -> Vec<Value> {
    let status = lab_run(folder, namespace).status().unwrap();
    let [log, said] = ["lab.log", "lab.out"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
    assert!(status.success(), "{status}: {log}{said}");
    let all = results(&folder.join("runs"));
    // Disturbed pairs are taken again, once each at most.
    assert!(
        (20..=40).contains(&all.len()),
        "{} results, not five of each arm and of both in the control: {log}",
        all.len()
    );
    for result in &all {
        assert!(result["load"]["read"]["ios"].as_u64().unwrap() > 0, "{result}");
        assert!(seconds(&result["cpu"]["host"]) > 0.0 && seconds(&result["cpu"]["target"]) > 0.0, "{result}");
        assert_eq!(result["cpu"]["target"], result["hosts"]["storage"]["cpu"]["target"]);
        assert_eq!(result["cpu"]["host"], result["hosts"]["client"]["cpu"]["host"]);
        // A load may be over between two looks on a busy machine; then nothing is told, rather than zero.
        assert!(result["memory"].as_object().unwrap().values().all(|bytes| bytes.as_u64().unwrap() > 0));
        let machine = &result["hosts"]["storage"];
        assert!(machine["network"]["sent"].as_u64().unwrap() > 0, "{machine}");
        assert!(!machine["hardware"]["interrupts"].as_object().unwrap().is_empty(), "{machine}");
    }
    for side in ["host", "target"] {
        assert!(all.iter().any(|result| result["memory"][side].is_u64()), "{side}'s memory was never seen");
    }
    for agent in [target, host] {
        until(|| agent.sessions().is_empty().then_some(()));
    }
    all
}

#[test]
fn a_scenario_runs_across_two_agents_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let [target, host] =
        ["storage", "client"].map(|name| Agent::start(folder.path(), name, (None, "127.0.0.1:0")));
    write_files(folder.path(), (&target, &host), ("lo", "0.4"));
    measure_across(folder.path(), (&target, &host), None);
    let entries = fs::read_dir(folder.path().join("runs")).unwrap().flatten();
    let run = entries.map(|entry| entry.path()).next().unwrap();
    let text = fs::read_to_string(run.join("run.json")).unwrap();
    assert!(!text.contains("long enough"), "the token is in run.json");
    let record: Value = serde_json::from_str(&text).unwrap();
    assert!(record["hosts"]["client"]["processor"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn a_lab_that_is_killed_leaves_nothing_on_the_hosts() {
    let folder = tempdir().unwrap();
    let [target, host] =
        ["storage", "client"].map(|name| Agent::start(folder.path(), name, (None, "127.0.0.1:0")));
    write_files(folder.path(), (&target, &host), ("lo", "600.0"));
    let mut lab = lab_run(folder.path(), None).spawn().unwrap();
    // The first process is the check that the volume keeps its data, the second the load.
    let things = |agent: &Agent| {
        let session = agent.sessions().pop()?;
        fs::read_to_string(session.join("ledger.jsonl")).ok()
    };
    let loads = |text: &str| text.lines().filter(|line| line.contains("\"process\"")).count() >= 2;
    let ledger = until(|| things(&host).filter(|text| loads(text)));
    let serving = things(&target).unwrap();
    lab.kill().unwrap();
    lab.wait().unwrap();
    for agent in [&target, &host] {
        until(|| agent.sessions().is_empty().then_some(()));
    }
    for line in ledger.lines().chain(serving.lines()) {
        let thing: Value = serde_json::from_str(line).unwrap();
        if let Some(pid) = thing["identity"]["pid"].as_u64() {
            assert!(!Path::new(&format!("/proc/{pid}/exe")).exists(), "{thing} still runs");
        }
        if let Some(path) = thing["path"].as_str() {
            assert!(!Path::new(path).exists(), "{thing} is still there");
        }
    }
}

#[test]
fn an_agent_that_was_killed_is_cleaned_up_after_by_the_next() {
    let folder = tempdir().unwrap();
    let [mut target, host] =
        ["storage", "client"].map(|name| Agent::start(folder.path(), name, (None, "127.0.0.1:0")));
    write_files(folder.path(), (&target, &host), ("lo", "600.0"));
    let mut lab = lab_run(folder.path(), None).spawn().unwrap();
    let ledger = until(|| {
        let session = target.sessions().pop()?;
        fs::read_to_string(session.join("ledger.jsonl")).ok().filter(|text| text.contains("\"process\""))
    });
    target.child.kill().unwrap();
    target.child.wait().unwrap();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let process = ledger.lines().find(|line| line.contains("\"process\"")).unwrap();
    let thing: Value = serde_json::from_str(process).unwrap();
    let exe = format!("/proc/{}/exe", thing["identity"]["pid"]);
    assert!(Path::new(&exe).exists(), "the target outlives its agent, which was killed");
    let again = Agent::start(folder.path(), "storage", (None, "127.0.0.1:0"));
    assert!(again.sessions().is_empty());
    until(|| (!Path::new(&exe).exists()).then_some(()));
}

#[test]
fn an_agent_refuses_to_be_open_to_strangers() {
    let folder = tempdir().unwrap();
    let state = folder.path().join("state").display().to_string();
    let base = ["lab", "agent", "--state", &state];
    let refusal = run_in_vain(&[&base[..], &["--listen", "0.0.0.0:0"]].concat());
    assert!(refusal.contains("--token-file"), "{refusal}");
    let token = folder.path().join("token");
    let shown = token.display().to_string();
    let with_token = [&base[..], &["--listen", "127.0.0.1:0", "--token-file", &shown]].concat();
    assert!(run_in_vain(&with_token).contains("urandom"), "it is not there");
    fs::write(&token, "short").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(run_in_vain(&with_token).contains("chmod 600"));
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(run_in_vain(&with_token).contains("bytes"));
}

/// Namespaces of this test, gone at its end.
struct Namespaces([String; 2]);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_scenario_runs_across_two_namespaces() {
    let names = Namespaces(["t", "c"].map(|end| format!("lab-agent{end}{}", std::process::id())));
    let [storage, client] = &names.0;
    if !ip(&format!("netns add {storage}")) {
        eprintln!("passed over: network namespaces need root");
        return;
    }
    assert!(ip(&format!("netns add {client}")));
    assert!(ip(&format!("link add eth0 netns {storage} type veth peer name eth0 netns {client}")));
    for (name, address) in [(storage, "10.78.0.1/24"), (client, "10.78.0.2/24")] {
        assert!(ip(&format!("-n {name} address add {address} dev eth0")));
        assert!(ip(&format!("-n {name} link set eth0 up")) && ip(&format!("-n {name} link set lo up")));
    }
    let folder = tempdir().unwrap();
    let target = Agent::start(folder.path(), "storage", (Some(storage), "10.78.0.1:0"));
    let host = Agent::start(folder.path(), "client", (Some(client), "10.78.0.2:0"));
    write_files(folder.path(), (&target, &host), ("eth0", "0.4"));
    for result in measure_across(folder.path(), (&target, &host), Some(client)) {
        let bytes = result["load"]["read"]["bytes"].as_u64().unwrap();
        let sent = result["hosts"]["storage"]["network"]["sent"].as_u64().unwrap();
        assert!(sent >= bytes / 2, "{sent} bytes of frames for {bytes} of data");
    }
}
