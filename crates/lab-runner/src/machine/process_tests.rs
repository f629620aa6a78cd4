//! Tests of child processes: real ones, since the kernel's behaviour is what is relied on.

use super::*;

const LONG: Duration = Duration::from_secs(30);

fn shell(folder: &Path, script: &str) -> CommandLine {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    CommandLine::new("child", argv, folder)
}

fn start(folder: &Path, script: &str) -> Running {
    Running::start(&shell(folder, script), &Placement::default()).unwrap()
}

/// Waits until a file has a whole line, and gives it as a process.
fn process_in(file: &Path) -> Identity {
    let deadline = Instant::now() + LONG;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n') {
            return Identity::of(pid.parse().unwrap()).unwrap();
        }
        assert!(Instant::now() < deadline, "nothing came into {}", file.display());
        std::thread::yield_now();
    }
}

/// A killed process may take a moment to be gone; one that lives fails the test.
fn assert_gone(identity: Identity) {
    let deadline = Instant::now() + LONG;
    while identity.is_alive() {
        assert!(Instant::now() < deadline, "{identity:?} outlived its group");
        std::thread::yield_now();
    }
}

#[test]
fn words_and_status_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut line = shell(folder.path(), "echo \"$GREETING\"; echo badly >&2; exit 3");
    line.environment.insert("GREETING".to_owned(), "well".to_owned());
    let mut running = Running::start(&line, &Placement::default()).unwrap();
    assert_eq!(running.wait(LONG).unwrap().code(), Some(3));
    assert_eq!(running.wait(LONG).unwrap().code(), Some(3), "the status is kept");
    assert!(!running.is_alive());
    assert_eq!(std::fs::read_to_string(&line.stdout).unwrap(), "well\n");
    let error = running.finish(LONG).unwrap_err().to_string();
    assert!(error.contains('3') && error.contains("badly"), "{error}");
}

#[test]
fn past_the_limit_everything_is_killed_and_the_error_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(folder.path(), "echo stuck >&2; sleep 600 & echo $! >pid; wait");
    let grandchild = process_in(&folder.path().join("pid"));
    let error = running.wait(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("killed") && error.contains("stuck"), "{error}");
    assert_gone(grandchild);
}

#[test]
fn a_grandchild_dies_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), "sleep 600 & echo $! >pid; wait");
    let (child, grandchild) = (running.identity(), process_in(&folder.path().join("pid")));
    drop(running);
    assert_gone(child);
    assert_gone(grandchild);
}

#[test]
fn a_grandchild_in_a_session_of_its_own_dies_too() {
    let folder = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$ >pid; exec sleep 600' & wait";
    for ending in 0..3 {
        let mut running = start(folder.path(), script);
        let grandchild = process_in(&folder.path().join("pid"));
        match ending {
            0 => running.stop(LONG),
            1 => running.stop(Duration::ZERO),
            _ => drop(running),
        }
        assert_gone(grandchild);
        std::fs::remove_file(folder.path().join("pid")).unwrap();
    }
}

#[test]
fn what_a_leader_leaves_behind_is_killed_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("gate"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let mut running = start(folder.path(), "sleep 600 & echo $! >pid; read -r line <gate");
    let grandchild = process_in(&folder.path().join("pid"));
    std::fs::write(folder.path().join("gate"), "go\n").unwrap();
    assert!(running.wait(LONG).unwrap().success());
    assert_gone(grandchild);
}

#[test]
fn a_polite_end_is_waited_for_and_a_deaf_program_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let polite = "trap 'echo bye >ended; exit 0' TERM; echo $$ >pid; while :; do sleep 0.01; done";
    let mut running = start(folder.path(), polite);
    process_in(&folder.path().join("pid"));
    running.stop(LONG);
    assert_eq!(std::fs::read_to_string(folder.path().join("ended")).unwrap(), "bye\n");
    std::fs::remove_file(folder.path().join("pid")).unwrap();
    let mut running = start(folder.path(), "trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done");
    let deaf = process_in(&folder.path().join("pid"));
    assert!(running.is_alive());
    running.stop(Duration::from_millis(1));
    assert!(!running.is_alive());
    assert_gone(deaf);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = CommandLine::new("child", vec!["linerate-no-such-program".to_owned()], folder.path());
    let error = Running::start(&line, &Placement::default()).unwrap_err().to_string();
    assert!(error.contains("linerate-no-such-program"), "{error}");
    let placement = Placement { cgroup: Some(folder.path().to_owned()), ..Placement::default() };
    let error = Running::start(&shell(folder.path(), "true"), &placement).unwrap_err().to_string();
    assert!(error.contains("not a control group"), "{error}");
}

#[test]
fn placement_is_in_effect_before_the_program_begins() {
    let folder = tempfile::tempdir().unwrap();
    // A file stands for the control group: what matters is who writes into it, and when.
    std::fs::write(folder.path().join("cgroup.procs"), "").unwrap();
    let placement = Placement {
        processors: Some(vec![0]),
        cgroup: Some(folder.path().to_owned()),
        ..Placement::default()
    };
    let line = shell(folder.path(), "cat cgroup.procs; echo $$; grep Cpus_allowed_list /proc/self/status");
    let mut running = Running::start(&line, &placement).unwrap();
    running.finish(LONG).unwrap();
    let pid = running.pid();
    let said = std::fs::read_to_string(&line.stdout).unwrap();
    assert_eq!(said, format!("{pid}\n{pid}\nCpus_allowed_list:\t0\n"));
}
