//! Counting what crosses a link between two network namespaces, by bytes that are really sent. Needs root.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use lab_runner::measure::network::{End, Probe};
use lab_runner::measure::{Role, Sides, Window};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const UP: usize = 3_000_000;
const DOWN: usize = 1_000_000;

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

fn retransmitted_in(namespace: &str) -> u64 {
    let arguments = ["netns", "exec", namespace, "nstat", "-a", "-s", "-z", "TcpRetransSegs"];
    let output = Command::new("ip").args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("TcpRetransSegs")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Two namespaces with a cable; gone at the end.
struct Pair {
    names: [String; 2],
}

impl Pair {
    /// `None` where this user may not.
    fn new() -> Option<Self> {
        let names = ["h", "t"].map(|end| format!("lab-net{end}{}", std::process::id()));
        if !ip(&format!("netns add {}", names[0])) {
            return None;
        }
        let pair = Self { names };
        let [host, target] = &pair.names;
        assert!(ip(&format!("netns add {target}")));
        assert!(ip(&format!("link add lab0 netns {host} type veth peer name lab1 netns {target}")));
        for (name, interface, address) in [(host, "lab0", "10.99.0.1/24"), (target, "lab1", "10.99.0.2/24")] {
            assert!(ip(&format!("-n {name} addr add {address} dev {interface}")));
            assert!(ip(&format!("-n {name} link set {interface} up")));
        }
        Some(pair)
    }

    /// Runs something inside one of them, on a thread that is used for nothing else.
    fn inside<T: Send>(&self, index: usize, work: impl FnOnce() -> T + Send) -> T {
        let handle = File::open(format!("/run/netns/{}", self.names[index])).unwrap();
        let work = || {
            move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    /// Segments that both ends sent again since they exist, as `nstat` reads them.
    fn retransmitted(&self) -> u64 {
        self.names.iter().map(|name| retransmitted_in(name)).sum()
    }

    fn end(&self, index: usize) -> End {
        End { namespace: Some(self.names[index].clone()), interface: format!("lab{index}") }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Sends bytes toward the target, and others back.
fn exchange(pair: &Pair) {
    let listener = pair.inside(1, || TcpListener::bind("10.99.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let mut host = pair.inside(0, || TcpStream::connect(address).unwrap());
    let (mut target, _) = listener.accept().unwrap();
    let serving = thread::spawn(move || {
        target.read_exact(&mut vec![0; UP]).unwrap();
        target.write_all(&vec![1; DOWN]).unwrap();
    });
    host.write_all(&vec![2; UP]).unwrap();
    host.read_exact(&mut vec![0; DOWN]).unwrap();
    serving.join().unwrap();
}

#[test]
fn bytes_are_counted_where_they_cross_and_by_direction() {
    let Some(pair) = Pair::new() else {
        println!("not tested, because this user cannot make network namespaces");
        return;
    };
    let sides = Sides::create(&format!("net-{}", std::process::id()), &[Role::Host]).unwrap();
    let link = Probe::open(&[pair.end(0)], Some(&pair.end(1))).unwrap();
    let window = Window::open(&sides, Some(link)).unwrap();
    exchange(&pair);
    let before = pair.retransmitted();
    let network = window.close().unwrap().network.unwrap();
    let after = pair.retransmitted();
    sides.remove().unwrap();
    for (counted, payload) in [(network.sent, UP), (network.received, DOWN)] {
        let payload = u64::try_from(payload).unwrap();
        // Headers and acknowledgements come on top: 66 bytes for each packet.
        assert!((payload..payload + payload / 5).contains(&counted), "{network:?}");
    }
    // None is lost, but a busy machine may be late with an acknowledgement, or with that of a goodbye.
    assert!((before..=after).contains(&network.retransmitted), "{network:?}, {before} to {after}");
    let wrong = End { interface: "lab9".to_owned(), ..pair.end(0) };
    assert!(Probe::open(&[wrong], None).unwrap_err().to_string().contains("no interface lab9"));
}
