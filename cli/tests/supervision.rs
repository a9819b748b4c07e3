//! The CLI and its worker share one fate, whatever either does. Real processes, real signals.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{BETWEEN_TWO, World, alive, await_that, every_trial, hears_hang_up, pid, script, signal, talk};
use rustix::process::Signal;

#[test]
fn a_result_is_one_json_document_and_talk_is_elsewhere() {
    let world = World::new();
    let output = world.work("stray-print,steps=3").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["ok"], &document["stage"]), (&true.into(), &"train".into()));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
    assert_eq!(output.status.code(), Some(0));
    assert!(talk(&output).contains("step 3/3"), "{}", talk(&output));
    assert!(
        std::fs::read_to_string(world.path("out/worker.log")).unwrap().contains("and so does its C code")
    );
}

/// A terminal's Ctrl-C reaches the whole group; `kill` and a service manager signal this program alone.
#[test]
fn a_signal_to_the_cli_alone_ends_the_module_that_it_runs() {
    let world = World::shelf_without_pages(&["a"]);
    let trained = world.expert_cli(&["train", "experts/a"], "final=x").output().unwrap();
    assert_eq!(trained.status.code(), Some(0), "{}", talk(&trained));
    let python = world.path("slow");
    let body = format!(
        "case \"$*\" in *expert_worker.report*) printf %s $$ >module; exec sleep 60;; *) exec '{}' \"$@\";; esac",
        common::python().display()
    );
    script(&python, &body);
    for (asked, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut command = world.expert_cli(&["report", "experts/a", "--json"], "");
        let cli = command.env("EXPERT_PYTHON", &python).spawn().unwrap();
        let module = world.pid_in("module");
        signal(pid(&cli), asked);
        let output = cli.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", talk(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["code"], "interrupted", "{document}");
        assert!(!alive(module));
        std::fs::remove_file(world.path("module")).unwrap();
    }
}

/// 20 times with `EXPERT_FULL_TESTS=1`.
#[test]
fn killing_the_cli_leaves_no_worker() {
    for _ in 0..if every_trial() { 20 } else { 3 } {
        let world = World::new();
        let mut cli = world.work("ignore-signals,hang").spawn().unwrap();
        let worker = world.worker();
        assert!(alive(worker));
        cli.kill().unwrap();
        cli.wait().unwrap();
        await_that(|| !alive(worker));
    }
}

#[test]
fn a_temporary_folder_that_a_killed_command_left_goes_with_the_next_command() {
    let world = World::shelf_without_pages(&["a"]);
    let trained = world.expert_cli(&["train", "experts/a"], "final=x").output().unwrap();
    assert_eq!(trained.status.code(), Some(0), "{}", talk(&trained));
    std::fs::remove_file(world.path("pid")).unwrap();
    let temporary = world.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let generate = |acts: &str| {
        let mut command = world.expert_cli(&["generate", "experts/a", "--prompt", "x"], acts);
        command.env("TMPDIR", &temporary);
        command
    };
    let mut cli = generate("hang").spawn().unwrap();
    let worker = world.worker();
    cli.kill().unwrap();
    cli.wait().unwrap();
    await_that(|| !alive(worker));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    let next = generate("steps=1").output().unwrap();
    assert_eq!(next.status.code(), Some(0), "{}", talk(&next));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// The worker may be anywhere in its start, also before it has asked the kernel for a death signal.
/// 20 moments with `EXPERT_FULL_TESTS=1`, else 5 of them, from the first to the last.
#[cfg(target_os = "linux")]
#[test]
fn killing_the_cli_at_any_moment_of_the_start_leaves_no_worker() {
    for round in (0..20).step_by(if every_trial() { 1 } else { 4 }) {
        let world = World::new();
        let mut cli = world.work("ignore-signals,hang").spawn().unwrap();
        thread::sleep(Duration::from_millis(round * 12));
        cli.kill().unwrap();
        cli.wait().unwrap();
        await_that(|| processes_that_mention(&world.path("plan.json")).is_empty());
    }
}

#[cfg(target_os = "linux")]
fn processes_that_mention(path: &std::path::Path) -> Vec<String> {
    let text = path.parent().unwrap().to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines =
        processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    command_lines.filter(|line| line.contains(text)).collect()
}

#[test]
fn a_silent_worker_is_reported_and_ended_where_asked() {
    let world = World::new();
    let output = world.work("quiet-stage=0.2,hang").args(["--stall-timeout", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains("warning: no progress in stage wait for"), "{}", talk(&output));
    assert!(talk(&output).contains("was ended because of --stall-timeout"), "{}", talk(&output));
    assert!(!alive(world.worker()));
}

/// As `docker pause` does, or Slurm with a suspended job.
#[test]
fn a_pause_of_cli_and_worker_is_not_a_stall() {
    let world = World::new();
    let cli = world.work("quiet-stage=0.2,obey").args(["--stall-timeout", "4"]).spawn().unwrap();
    let processes = [world.worker(), pid(&cli)];
    for process in processes {
        signal(process, Signal::STOP);
    }
    thread::sleep(Duration::from_secs(5));
    for process in processes {
        signal(process, Signal::CONT);
    }
    thread::sleep(Duration::from_millis(500));
    signal(pid(&cli), Signal::TERM);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", talk(&output));
    assert!(talk(&output).contains("saved checkpoint-3"), "{}", talk(&output));
}

#[test]
fn the_first_signal_lets_the_worker_save() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let world = World::new();
        let cli = hears_hang_up(world.work("obey")).spawn().unwrap();
        world.worker();
        signal(pid(&cli), sent);
        let output = cli.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(talk(&output).contains("saved checkpoint-3"), "{}", talk(&output));
    }
}

/// systemd and Slurm end a job so. The worker saves long enough to get the signal that the CLI passes on, too.
#[test]
fn a_signal_to_every_process_of_a_job_lets_the_worker_save() {
    let world = World::new();
    let cli = world.work("obey=1").spawn().unwrap();
    let worker = world.worker();
    for process in [worker, pid(&cli)] {
        signal(process, Signal::TERM);
    }
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(talk(&output).contains("saved checkpoint-3"), "{}", talk(&output));
}

/// A terminal that closes hangs up several times, and a session's end adds TERM.
#[test]
fn the_end_of_a_terminal_or_session_lets_the_worker_save() {
    for sent in [[Signal::HUP, Signal::TERM], [Signal::TERM, Signal::HUP], [Signal::INT, Signal::TERM]] {
        let world = World::new();
        let cli = hears_hang_up(world.work("obey=2")).spawn().unwrap();
        world.worker();
        for sent in sent {
            signal(pid(&cli), sent);
        }
        thread::sleep(BETWEEN_TWO);
        signal(pid(&cli), Signal::HUP);
        let output = cli.wait_with_output().unwrap();
        assert!(talk(&output).contains("saved checkpoint-3"), "{sent:?}: {}", talk(&output));
    }
}

/// A machine that shuts down while the run of a closed terminal is saved.
#[test]
fn after_the_end_of_a_terminal_the_next_signal_lets_the_worker_save_and_a_second_ends_everything() {
    let world = World::new();
    let cli = hears_hang_up(world.work("obey=3")).spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::HUP);
    thread::sleep(BETWEEN_TWO);
    signal(pid(&cli), Signal::TERM);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", talk(&output));
    assert!(talk(&output).contains("saved checkpoint-3"), "{}", talk(&output));

    let world = World::new();
    let mut work = hears_hang_up(world.work("ignore-signals,hang"));
    let cli = work.env("EXPERT_STOP_GRACE", "3600").spawn().unwrap();
    let worker = world.worker();
    for sent in [Signal::HUP, Signal::TERM, Signal::TERM] {
        thread::sleep(BETWEEN_TWO);
        assert!(alive(worker));
        signal(pid(&cli), sent);
    }
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(talk(&output).contains("stopped at once"), "{}", talk(&output));
    assert!(!alive(worker));
}

#[test]
fn nohup_has_cli_and_worker_ignore_the_end_of_the_terminal() {
    let world = World::new();
    let work = world.work("obey");
    let cli = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(work.get_program())
        .args(work.get_args())
        .envs(work.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(work.get_current_dir().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let worker = world.worker();
    for process in [pid(&cli), worker] {
        signal(process, Signal::HUP);
    }
    thread::sleep(BETWEEN_TWO);
    assert!(alive(worker) && alive(pid(&cli)));
    signal(pid(&cli), Signal::TERM);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{}", talk(&output));
    assert!(talk(&output).contains("saved checkpoint-3"), "{}", talk(&output));
}

#[test]
fn a_worker_that_ignores_the_signal_is_killed_after_its_grace() {
    let world = World::new();
    let cli = world.work("ignore-signals,hang").env("EXPERT_STOP_GRACE", "0.3").spawn().unwrap();
    let worker = world.worker();
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(talk(&output).contains("did not stop within"), "{}", talk(&output));
    assert!(!alive(worker));
}

#[test]
fn a_grace_that_cannot_be_read_is_refused_before_a_worker_starts() {
    let world = World::shelf(&["a"]);
    for arguments in [&["work", "plan.json"][..], &["train", "--all", "--device", "cpu"]] {
        for grace in ["2m", "0", "-1", "inf"] {
            let mut command = world.expert_cli(arguments, "steps=1");
            let output = command.env("EXPERT_STOP_GRACE", grace).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
            let message = format!("EXPERT_STOP_GRACE is {grace}, and must be a number of seconds above 0");
            assert!(talk(&output).contains(&message), "{}", talk(&output));
        }
    }
    assert!(!world.path("pid").exists());
}

#[test]
fn the_second_interrupt_ends_everything_at_once() {
    let world = World::new();
    let mut cli = world.work("ignore-signals,hang").env("EXPERT_STOP_GRACE", "3600").spawn().unwrap();
    let worker = world.worker();
    signal(pid(&cli), Signal::INT);
    thread::sleep(BETWEEN_TWO);
    assert!(alive(worker) && cli.try_wait().unwrap().is_none());
    signal(pid(&cli), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(talk(&output).contains("stopped at once"), "{}", talk(&output));
    assert!(!alive(worker));
}

/// Before the first worker, and where a second signal kills the worker.
#[test]
fn what_a_signal_ends_at_once_prints_one_document() {
    let ended = |cli: Child, sent: Signal, code: i32| {
        signal(pid(&cli), sent);
        let output = cli.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", talk(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&document["ok"], &document["exit"]), (&false.into(), &code.into()));
        assert_eq!(document["error"]["code"], "interrupted");
        document["error"]["message"].as_str().unwrap().to_owned()
    };
    let world = World::shelf(&["a"]);
    let python = world.path("slow-python");
    let real = common::python();
    let body = "case \"$*\" in *expert_worker.routing*) echo -n $$ >pid; exec sleep 600;; *) exec";
    script(&python, &format!("{body} '{}' \"$@\";; esac", real.display()));
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        let mut route = hears_hang_up(world.expert_cli(&["route", "hello", "--json"], ""));
        let cli = route.env("EXPERT_PYTHON", &python).spawn().unwrap();
        let module = world.worker();
        assert_eq!(ended(cli, sent, code), "ended on request");
        signal(module, Signal::KILL);
        std::fs::remove_file(world.path("pid")).unwrap();
    }

    // A terminal's Ctrl-C reaches the module too, and may reach it first.
    let mut route = world.expert_cli(&["route", "hello", "--json"], "");
    let cli = route.env("EXPERT_PYTHON", &python).spawn().unwrap();
    signal(world.worker(), Signal::INT);
    let output = cli.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["error"]["code"]), (Some(130), &"interrupted".into()));

    let world = World::new();
    let mut work = world.work("ignore-signals,hang");
    let cli = work.arg("--json").env("EXPERT_STOP_GRACE", "3600").spawn().unwrap();
    world.worker();
    signal(pid(&cli), Signal::INT);
    thread::sleep(BETWEEN_TWO);
    assert!(ended(cli, Signal::INT, 130).starts_with("stopped at once"));
}

#[test]
fn a_worker_of_another_contract_is_refused() {
    let world = World::new();
    let output = world.work("other-contract").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(talk(&output).contains("the worker has version 99 of the contract"), "{}", talk(&output));
    assert!(!alive(world.worker()));
}

#[test]
fn a_plan_of_another_contract_is_refused_by_both_sides() {
    let world = World::new();
    let plan = std::fs::read_to_string(world.path("plan.json")).unwrap();
    std::fs::write(world.path("plan.json"), plan.replace("\"contract\": 1", "\"contract\": 2")).unwrap();
    let output = world.work("steps=1").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(talk(&output).contains("has version 2 of the contract"), "{}", talk(&output));
}

#[test]
fn garbage_floods_and_torn_lines_are_skipped() {
    let world = World::new();
    let output = world.work("garbage=500,flood=20,steps=2").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let talk = talk(&output);
    assert!(
        talk.contains("a line of the worker's output is not an event: \u{fffd}[31mnot an event 0"),
        "{talk}"
    );
    assert!(talk.contains("501 lines of the worker's output were not events"), "{talk}");
    assert!(talk.lines().count() < 10, "{talk}");

    let output = World::new().work("torn,leave=0").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(self::talk(&output).contains("without an error message"), "{}", self::talk(&output));
}

#[test]
fn a_last_event_that_is_read_seconds_after_the_end_is_the_result() {
    let output = World::new().work("late=4,leave=0").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
}

#[test]
fn failures_of_every_kind_become_a_message_and_a_code() {
    let cases = [
        ("missing", 3, "error: no such device\n  hint: buy one"),
        ("unforeseen", 1, "error: ZeroDivisionError: a secret place in the code (details: "),
        ("die=9", 1, "killed (signal 9)\n  hint: usually the system ran out of memory"),
        ("die=11", 1, "crashed in native code (segmentation fault)"),
        (
            "starve",
            1,
            "the worker ran out of memory\n  hint: close other programs, or raise the limit of memory",
        ),
        ("leave=7", 1, "the worker ended (exit status: 7) without an error message"),
    ];
    for (acts, code, message) in cases {
        let output = World::new().work(acts).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{acts}: {}", talk(&output));
        assert!(talk(&output).contains(message), "{acts}: {}", talk(&output));
        assert!(!talk(&output).contains("Traceback"), "{acts}: {}", talk(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_traceback_of_the_unforeseen_is_in_the_log_that_the_message_names() {
    let output = World::new().work("unforeseen").arg("--json").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["ok"], &document["exit"]), (&false.into(), &1.into()));
    assert_eq!(document["error"]["code"], "unforeseen");
    assert!(document["error"]["message"].as_str().unwrap().contains("/out/worker-"));
}

#[test]
fn what_the_worker_leaves_behind_goes_with_it() {
    let world = World::new();
    let output = world.work("grandchild,leave=0").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let grandchild = world.pid_in("pid.child");
    await_that(|| !alive(grandchild));
}

#[test]
fn one_process_at_a_time_holds_a_run_and_death_releases_it() {
    let world = World::new();
    let mut first = world.work("hang").spawn().unwrap();
    world.worker();
    let output = world.work("steps=1").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(talk(&output).contains(&format!("is in use by process {}", first.id())), "{}", talk(&output));
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(world.work("steps=1").output().unwrap().status.code(), Some(0));
}

#[test]
fn an_interpreter_without_the_worker_is_distinguished_from_a_broken_one() {
    let world = World::new();
    let cases = [
        (
            "echo '/usr/bin/python3: No module named expert_worker' >&2; exit 1",
            "does not have the expert-worker package",
        ),
        (
            "echo 'SyntaxError: invalid syntax' >&2; exit 1",
            "cannot run the worker: SyntaxError: invalid syntax",
        ),
    ];
    for (script, message) in cases {
        let python = world.path("python");
        common::script(&python, script);
        let output = world.work("steps=1").env("EXPERT_PYTHON", &python).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(talk(&output).contains(message), "{}", talk(&output));
    }
}

#[test]
fn the_working_directory_cannot_replace_the_worker() {
    let world = World::new();
    std::fs::create_dir(world.path("expert_worker")).unwrap();
    std::fs::write(world.path("expert_worker/__main__.py"), "open('owned', 'w')").unwrap();
    std::fs::write(world.path("pydantic.py"), "open('owned', 'w')").unwrap();
    let output = world.work("steps=1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(!world.path("owned").exists());
}
