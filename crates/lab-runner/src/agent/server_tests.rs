//! Strangers, wrong tokens and a lab that goes away, over loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::agent::client::Client;
use crate::arm::{Endpoint, Volumes};
use crate::site::{AgentHost, Processors};
use lab_model::scenario::{Initiator, Target, ToolKind};

use super::super::message::{Place, Reply, Step, Work};
use super::super::token::Token;

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs `test` against an agent in a folder of its own.
fn with_agent(test: impl FnOnce(&Agent, &AgentHost, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: Token::make(&token_file).unwrap(),
        state: folder.path().join("state"),
        linerate: "/no/such/linerate".into(),
        destroy: BTreeSet::new(),
    };
    let agent = Agent::start(settings, &|_| ()).unwrap();
    let host = AgentHost {
        agent: agent.address().unwrap().to_string(),
        token_file,
        address: None,
        interface: None,
        processors: Processors::default(),
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| agent.run(&stop, &|_| ()).unwrap());
        let end = Stop(&stop);
        test(&agent, &host, folder.path());
        drop(end);
    });
}

/// Ends the agent even when a test fails, or its thread would be waited for without end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn frame(value: &serde_json::Value) -> Vec<u8> {
    let json = value.to_string().into_bytes();
    [u32::try_from(json.len()).unwrap().to_be_bytes().as_slice(), &json].concat()
}

/// Sends bytes after the agent's first words, and gives all that it says then until it closes.
fn answer(agent: &Agent, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(agent.address().unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut hello = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut hello).unwrap();
    assert!(String::from_utf8(hello).unwrap().contains(PROTOCOL));
    // The agent may close before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

fn proof(version: u32, nonce: &str, proof: &str) -> Vec<u8> {
    frame(&json!({ "version": version, "nonce": nonce, "proof": proof }))
}

/// Waits until something is so.
fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < TIMEOUT, "it never came about");
        thread::yield_now();
    }
}

#[test]
fn strangers_are_refused_and_the_agent_serves_on() {
    with_agent(|agent, host, _| {
        let zeros = "00".repeat(32);
        assert!(answer(agent, &proof(VERSION, &zeros, &zeros)).contains("token is wrong"));
        assert!(answer(agent, &proof(VERSION, &zeros, "")).contains("token is wrong"), "no proof at all");
        assert!(answer(agent, &proof(VERSION, "0", "g")).contains("not as the protocol says"));
        assert!(answer(agent, &proof(VERSION + 1, &zeros, &zeros)).contains("version"));
        assert_eq!(answer(agent, b"GET / HTTP/1.1\r\n\r\n"), "", "a length of a gigabyte");
        assert_eq!(answer(agent, &u32::MAX.to_be_bytes()), "");
        assert_eq!(answer(agent, b"\0\0\0\x02{]"), "");
        assert_eq!(answer(agent, b"\0\0"), "", "cut in the middle");
        assert_eq!(answer(agent, &frame(&json!({ "now": {} }))), "", "a request before the proof");
        Client::connect("h", host).unwrap().environment().unwrap();
    });
}

#[test]
fn a_wrong_token_and_a_second_lab_are_told_why() {
    with_agent(|agent, host, folder| {
        let other = folder.join("other");
        Token::make(&other).unwrap();
        let wrong = AgentHost { token_file: other, ..host.clone() };
        let error = format!("{:#}", Client::connect("h", &wrong).unwrap_err());
        assert!(error.contains("host h") && error.contains("token is wrong"), "{error}");
        let first = Client::connect("h", host).unwrap();
        let error = format!("{:#}", Client::connect("h", host).unwrap_err());
        assert!(error.contains("another lab"), "{error}");
        first.environment().unwrap();
        drop(first);
        until(|| agent.lab().is_none());
        Client::connect("h", host).unwrap();
    });
}

#[test]
fn only_so_many_strangers_may_be_silent_at_a_time() {
    with_agent(|agent, host, _| {
        let address = agent.address().unwrap();
        let silent: Vec<TcpStream> = (0..STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
        until(|| agent.strangers.load(Ordering::Relaxed) == STRANGERS);
        let mut one_more = TcpStream::connect(address).unwrap();
        one_more.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut said = Vec::new();
        let _ = one_more.read_to_end(&mut said);
        assert!(said.is_empty(), "it was greeted");
        drop(silent);
        until(|| agent.strangers.load(Ordering::Relaxed) == 0);
        Client::connect("h", host).unwrap();
    });
}

#[test]
fn a_false_agent_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    Token::make(&token_file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = AgentHost {
        agent: listener.local_addr().unwrap().to_string(),
        token_file,
        address: None,
        interface: None,
        processors: Processors::default(),
    };
    let hello =
        |version: u32| frame(&json!({ "protocol": PROTOCOL, "version": version, "nonce": "00".repeat(32) }));
    let welcome = frame(&json!({ "welcome": { "proof": "00".repeat(32) } }));
    let error = |says: Vec<u8>| {
        thread::scope(|scope| {
            scope.spawn(|| listener.accept().unwrap().0.write_all(&says).unwrap());
            format!("{:#}", Client::connect("h", &host).unwrap_err())
        })
    };
    assert!(error([hello(VERSION), welcome].concat()).contains("does not know the token"));
    assert!(error(hello(VERSION + 1)).contains("run the same linerate"));
    assert!(error(b"HTTP/1.1 400\r\n".to_vec()).contains("not an agent"));
}

fn place() -> Place {
    Place {
        address: [127, 0, 0, 1].into(),
        interface: Some("lo".to_owned()),
        processors: Processors::default(),
    }
}

fn serve(target: Target, url: &str) -> Request {
    let volumes = Volumes { targets: 1, luns: 1, url: url.to_owned() };
    Request::Serve { arm: "A".to_owned(), target, volumes, place: place() }
}

fn adapt(url: &str) -> Request {
    let endpoints = vec![Endpoint { url: url.to_owned(), size: 0 }];
    Request::Adapt { arm: "B".to_owned(), initiator: Initiator::Linerate, endpoints, place: place() }
}

/// The ledger of the session under way.
fn ledger_of(folder: &Path) -> Option<String> {
    let sessions = std::fs::read_dir(folder.join("state")).unwrap().flatten();
    let mut ledgers = sessions.map(|entry| entry.path().join("ledger.jsonl"));
    ledgers.find_map(|path| std::fs::read_to_string(path).ok())
}

#[test]
fn requests_out_of_turn_and_out_of_bounds_are_refused_and_the_session_goes_on() {
    with_agent(|_, host, _| {
        let client = Client::connect("h", host).unwrap();
        let refused = |request: &Request, part: &str| {
            let error = format!("{:#}", client.ask(request).unwrap_err());
            assert!(error.contains("host h") && error.contains(part), "{error}");
        };
        refused(&Request::Open { arm: "A".to_owned() }, "does not stand");
        refused(&Request::End { arm: "A".to_owned() }, "does not stand");
        refused(&Request::Poll {}, "no load is planned");
        refused(&Request::Outcome {}, "no load is planned");
        refused(&Request::Start { step: Step::Load {} }, "no load is planned");
        refused(&Request::Read { name: "../x".to_owned(), offset: 0 }, "not a name");
        refused(&serve(Target::LinerateIscsi, "file:/etc/passwd"), "refused");
        refused(&serve(Target::Site, "null:1M"), "site");
        refused(&adapt("/etc/passwd"), "/dev");
        client.ask(&adapt("null:1M")).unwrap();
        refused(&adapt("null:1M"), "stands here already");
        let settings = BTreeMap::from([("exec_prerun".to_owned(), "id".to_owned())]);
        let work = Work { tool: ToolKind::Fio, settings, ramp: 0.0, runtime: 1.0 };
        refused(&Request::Plan { arm: "B".to_owned(), work: work.clone() }, "exec_prerun");
        let endless = Work { settings: BTreeMap::new(), runtime: 1e9, ..work };
        refused(&Request::Plan { arm: "B".to_owned(), work: endless }, "lasts");
        client.tell(&Request::Open { arm: "B".to_owned() }).unwrap();
        client.environment().unwrap();
    });
}

#[test]
fn a_load_that_cannot_run_says_so_and_what_is_counted_is_told() {
    with_agent(|_, host, _| {
        let client = Client::connect("h", host).unwrap();
        client.ask(&adapt("null:1M")).unwrap();
        let work = Work { tool: ToolKind::Fio, settings: BTreeMap::new(), ramp: 0.0, runtime: 0.0 };
        client.ask(&Request::Plan { arm: "B".to_owned(), work }).unwrap();
        client.tell(&Request::Open { arm: "B".to_owned() }).unwrap();
        let from = client.to_there(crate::machine::clock::now());
        let error = client.ask(&Request::Start { step: Step::Load {} }).unwrap_err().to_string();
        assert!(error.contains("/no/such/linerate"), "{error}");
        let close = Request::Close { arm: "B".to_owned(), from, to: f64::MAX };
        let Reply::Counted { counted, hardware } = client.ask(&close).unwrap() else { unreachable!() };
        assert!(counted.cpu.processors > 0 && counted.network.is_some());
        assert!(counted.memory.is_empty(), "nothing ran: {:?}", counted.memory);
        assert!(!hardware.interrupts.is_empty() || hardware.seconds < 1.0);
        assert!(client.ask(&close).unwrap_err().to_string().contains("open it first"));
    });
}

#[test]
fn what_a_lab_started_is_gone_when_its_connection_is() {
    with_agent(|agent, host, folder| {
        let client = Client::connect("h", host).unwrap();
        if crate::machine::program::find("iperf3").is_none() {
            let error = client.ask(&serve(Target::Stream, "null:1M")).unwrap_err().to_string();
            assert!(error.contains("apt install iperf3"), "{error}");
            return;
        }
        let Reply::Served { endpoints } = client.ask(&serve(Target::Stream, "null:1M")).unwrap() else {
            unreachable!()
        };
        let target: SocketAddr = endpoints[0].url.parse().unwrap();
        TcpStream::connect(target).unwrap();
        assert!(ledger_of(folder).unwrap().contains("iperf3"));
        // The connection ends as it does when the lab is killed.
        drop(client);
        until(|| agent.lab().is_none());
        assert!(TcpStream::connect(target).is_err(), "the target still listens");
        assert_eq!(ledger_of(folder), None, "the session's folder is still there");
    });
}

#[test]
fn a_second_agent_on_the_same_folder_is_refused() {
    with_agent(|_, _, folder| {
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: Token::read(&folder.join("token")).unwrap(),
            state: folder.join("state"),
            linerate: "linerate".into(),
            destroy: BTreeSet::new(),
        };
        let error = Agent::start(settings, &|_| ()).unwrap_err().to_string();
        assert!(error.contains("--state"), "{error}");
    });
}
