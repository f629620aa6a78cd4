//! Counting processor time against `getrusage(2)`, in every way that this machine has, with processes that are really busy.
//!
//! All comparisons are between processor seconds, which do not depend on how much else the machine has to do.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use lab_model::result::Flag;
use lab_runner::measure::cgroup::Method;
use lab_runner::measure::{Counted, Role, Side, Sides, Window};

/// Spends the processor time that it is told, in seconds, and says on its errors how much that was (bash's `time`, which asks the kernel).
const BURN: &str = r#"
TIMEFORMAT='%U %S'
spend() { local -i all=0; until (( all >= $1 )); do for ((i = 0; i < 5000; i++)); do :; done; read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user system _ < /proc/$$/stat; (( all = user + system )) || :; done; }
time spend "$1"
"#;

/// All ways of counting; those that this machine does not have are named.
fn methods() -> Vec<Method> {
    let available = Method::available();
    for method in [Method::Cgroup2, Method::Cgroup1] {
        if !available.contains(&method) {
            println!("not tested, because this machine or user cannot: {}", method.name());
        }
    }
    available
}

fn run_name(test: &str, method: Method) -> String {
    format!("{test}-{}-{}", std::process::id(), method.name().replace(' ', "-"))
}

/// A program that spends so many clock ticks of 10 ms, in the side.
fn burn(sides: &Sides, role: Role, ticks: u32) -> Child {
    let side = sides.get(role).unwrap();
    let mut command = side.command("bash");
    command.args(["-c", BURN, "burn", &ticks.to_string()]).stderr(Stdio::piped());
    side.spawn(&mut command).unwrap()
}

/// Waits for it and gives the seconds that it says.
fn finish(sides: &Sides, role: Role, mut child: Child) -> f64 {
    assert!(sides.get(role).unwrap().wait(&mut child).unwrap().success());
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    said.split_whitespace().map(|seconds| seconds.parse::<f64>().unwrap()).sum()
}

fn count(test: &str, method: Method, measured: impl FnOnce(&Sides) -> f64) -> (Counted, f64) {
    let run = run_name(test, method);
    let sides = Sides::with_method(&run, &[Role::Host, Role::Target], method).unwrap();
    let folders: Vec<_> = sides.iter().filter_map(Side::folder).collect();
    let window = Window::open(&sides, None).unwrap();
    let seconds = measured(&sides);
    let counted = window.close().unwrap();
    sides.remove().unwrap();
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    assert_eq!(Sides::left_behind(&run), Vec::<std::path::PathBuf>::new());
    (counted, seconds)
}

#[test]
fn processor_time_agrees_with_the_kernels_own_account() {
    for method in methods() {
        let (counted, said) = count("agree", method, |sides| {
            let child = burn(sides, Role::Target, 150);
            finish(sides, Role::Target, child)
        });
        let target = counted.cpu.target.unwrap().seconds();
        println!("{}: counted {target:.3} s, the kernel says {said:.3} s", method.name());
        assert!((target / said - 1.0).abs() < 0.02, "{target} s against {said} s by {}", method.name());
        assert!(counted.cpu.host.seconds() < 0.02, "{counted:?}");
        assert_eq!(counted.cpu.method, method.name());
        assert!(counted.memory["target"] > 1 << 20, "{:?}", counted.memory);
    }
}

#[test]
fn load_outside_the_sides_is_foreign_and_flagged() {
    for method in methods() {
        let mut own = 0.0;
        let (counted, said) = count("foreign", method, |sides| {
            let child = burn(sides, Role::Host, 30);
            let mut stranger = Command::new("bash");
            let stranger = stranger.args(["-c", BURN, "burn", "100"]).stderr(Stdio::piped()).spawn().unwrap();
            own = finish(sides, Role::Host, child);
            // Counted in no side: only waited for.
            let output = stranger.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            said.split_whitespace().map(|seconds| seconds.parse::<f64>().unwrap()).sum()
        });
        let host = counted.cpu.host.seconds();
        assert!((host - own).abs() < 0.05, "{host} s against {own} s by {}", method.name());
        // The machine's own account is by clock ticks and holds everybody else's load too.
        assert!(
            counted.cpu.foreign > said * 0.8,
            "{} s of {said} s by {}",
            counted.cpu.foreign,
            method.name()
        );
        assert!(counted.cpu.foreign > 0.05 * counted.machine.all.all(), "{counted:?}");
        assert!(counted.flags.iter().any(|flag| matches!(flag, Flag::Contended { .. })), "{counted:?}");
    }
}

#[test]
fn a_window_in_the_middle_counts_only_what_happened_in_it() {
    for method in methods() {
        let run = run_name("middle", method);
        let sides = Sides::with_method(&run, &[Role::Host], method).unwrap();
        let window = Window::open(&sides, None).unwrap();
        let child = burn(&sides, Role::Host, 20);
        let before = finish(&sides, Role::Host, child);
        let from = seconds_since_1970();
        let child = burn(&sides, Role::Host, 50);
        let inside = finish(&sides, Role::Host, child);
        let to = seconds_since_1970();
        let child = burn(&sides, Role::Host, 20);
        let after = finish(&sides, Role::Host, child);
        let counted = window.close_over(from, to).unwrap();
        sides.remove().unwrap();
        // What is spent between the samples around an edge is divided evenly, so a little of the neighbours may be in it.
        let host = counted.cpu.host.seconds();
        let bounds = 0.5 * inside..inside + 0.5 * (before + after);
        assert!(bounds.contains(&host), "{host} s, not within {bounds:?} s, by {}", method.name());
        assert!((counted.seconds - (to - from)).abs() < 1e-3, "{counted:?}");
    }
}

#[test]
fn folders_are_known_before_they_are_made_and_another_run_cannot_take_them() {
    let run = run_name("folders", Method::best());
    let roles = [Role::Host, Role::Adapter, Role::Target];
    let folders = Sides::folders(&run, &roles, 0);
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    let sides = Sides::create(&run, &roles).unwrap();
    assert_eq!(sides.iter().filter_map(Side::folder).collect::<Vec<_>>(), folders);
    if !folders.is_empty() {
        assert_eq!(Sides::left_behind(&run).len(), 3);
        let error = Sides::create(&run, &roles).unwrap_err().to_string();
        assert!(error.contains("is there already") && error.contains("lab clean"), "{error}");
        // The failed attempt must not have removed what it found.
        assert!(folders.iter().all(|folder| folder.exists()), "{folders:?}");
    }
    sides.remove().unwrap();
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
}

#[test]
fn a_node_s_processes_are_counted_for_the_node_and_for_the_side() {
    let run = run_name("nodes", Method::best());
    let roles = [Role::Host, Role::Target];
    let folders = Sides::folders(&run, &roles, 2);
    let sides = Sides::of_nodes(&run, &roles, 2).unwrap();
    let side = sides.get(Role::Target).unwrap();
    if Method::best() == Method::ProcessTree {
        assert!(folders.is_empty() && sides.usage_of_nodes().unwrap().is_empty());
        return;
    }
    assert!(folders.len() == 6 && folders.iter().all(|folder| folder.is_dir()), "{folders:?}");
    let second = side.folder_of(Some(1)).unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{}exec bash -c \"$0\" burn 30", enter(&second)), BURN])
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    side.wait(&mut child).unwrap();
    let nodes = sides.usage_of_nodes().unwrap();
    assert!((0.25..0.60).contains(&nodes[1].target.seconds()), "{nodes:?}");
    assert!(nodes[0].seconds() < 0.01 && nodes[1].host.seconds() < 0.01, "{nodes:?}");
    let spent = side.usage().unwrap().seconds();
    assert!((spent - nodes[1].target.seconds()).abs() < 0.05, "{spent} s, {nodes:?}");
    assert!(side.memory().unwrap() == 0 && side.pids().unwrap().is_empty());
    sides.remove().unwrap();
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
}

#[test]
fn a_process_that_enters_by_itself_is_counted() {
    let method = Method::best();
    let run = run_name("enter", method);
    let sides = Sides::create(&run, &[Role::Adapter]).unwrap();
    let side = sides.get(Role::Adapter).unwrap();
    let enter = side.folder().map_or_else(String::new, |folder| enter(&folder));
    let before = side.usage().unwrap().seconds();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{enter}exec bash -c \"$0\" burn 30"), BURN]).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    side.started(child.id());
    side.wait(&mut child).unwrap();
    let spent = side.usage().unwrap().seconds() - before;
    assert!((0.25..0.60).contains(&spent), "{spent} s by {}", method.name());
    sides.remove().unwrap();
}

fn enter(folder: &Path) -> String {
    format!("echo $$ > {}/cgroup.procs && ", folder.display())
}

fn seconds_since_1970() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}
