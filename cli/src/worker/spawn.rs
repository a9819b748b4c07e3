//! Starting `python -m expert_worker`.

use std::process::{Child, Command, Stdio};

use super::interrupt;
use super::launch::{Launch, Started};
use super::process::{self, Worker};
use super::warm::Warm;
use crate::failure::{Failure, reason};
use crate::sys::{env, gpus, launcher, lease};

/// The worker's parent-death signal is tied to the *thread* that calls this: it must outlive the worker.
/// `warm`: a warm parent, if it is running.
pub fn start(launch: &Launch, warm: Option<&Warm>) -> Result<Started, Failure> {
    if let Some(started) = warm.and_then(|warm| warm.hand_over(launch)) {
        return Ok(started);
    }
    if let Some(asked) = interrupt::requested() {
        // It arrived while waiting for a warm parent.
        return Err(Failure::new(
            asked.exit(),
            "interrupted",
            "stopped on request before the worker was started",
        ));
    }
    let mut child = spawn(launch)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let worker = Worker::started(child).map_err(|error| Failure::supervising("take charge of", &error))?;
    Ok(Started { worker, stdin, stdout })
}

fn spawn(launch: &Launch) -> Result<Child, Failure> {
    let log = launch.open_log()?;
    let mut command = Command::new(&launch.python.python);
    command.args(["-m", "expert_worker", launch.task.as_str()]);
    for plan in &launch.plans {
        command.arg("--plan").arg(plan);
    }
    command.env(env::PARENT_PID.name, std::process::id().to_string());
    command.env(env::SAFE_PATH.name, "1");
    gpus::for_worker(&mut command);
    number(&mut command, launch);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    process::prepare(&mut command);
    if let Some((name, folder)) = lease::for_worker() {
        command.env(name, folder);
    }
    process::share(&mut command, &launch.run_locks);
    command.spawn().map_err(|error| {
        let python = launch.python.python.display();
        Failure::missing("worker-not-started", format!("cannot start {python}: {}", reason(&error)))
            .hint(format!("it was chosen by {}; `expert-cli doctor` shows what is found", launch.python.rule))
    })
}

/// What a launcher has set is for a worker that trains with the others, by torch's names, and for no other
/// worker: libraries would wait for processes that never come.
fn number(command: &mut Command, launch: &Launch) {
    let Some(rank) = launch.rank else {
        for variable in [&env::RANK, &env::WORLD_SIZE, &env::LOCAL_RANK, &env::LOCAL_WORLD_SIZE] {
            command.env_remove(variable.name);
        }
        return;
    };
    command.env(env::WORKER_RANK.name, rank.number.to_string()).env(env::RENDEZVOUS.name, "env://");
    command.env(env::RANK.name, rank.number.to_string()).env(env::WORLD_SIZE.name, rank.of.to_string());
    if let Ok(limit) = launcher::patience() {
        command.env(env::RANK_TIMEOUT.name, limit.as_secs_f64().to_string());
    }
    command.env(env::LOCAL_RANK.name, rank.local.to_string());
    command.env(env::LOCAL_WORLD_SIZE.name, rank.local_of.unwrap_or(1).to_string());
}
