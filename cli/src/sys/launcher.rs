//! Whether a launcher (torchrun, Slurm, Kubernetes) started this process as one of several that train together, as its
//! environment says.

use std::time::Duration;

use expert_contract::diagnostic::listed;

use super::env::{self, Variable};
use crate::failure::Failure;

/// One process of several, which the launcher has numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    pub number: u32,
    /// How many there are, over all machines.
    pub of: u32,
    /// Its number among those of this machine, and how many these are where the launcher says so.
    pub local: u32,
    pub local_of: Option<u32>,
}

impl Rank {
    pub fn is_main(self) -> bool {
        self.number == 0
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "rank {} of {}", self.number, self.of)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Launched {
    /// By no launcher, or as its only process.
    Alone,
    /// Some of a launcher's variables are set, but these cannot be its processes: why.
    Ignored(String),
    As(Rank),
}

/// The names that one family of launchers uses.
struct Names {
    rank: &'static Variable,
    size: &'static Variable,
    local: &'static Variable,
}

const TORCHRUN: Names = Names { rank: &env::RANK, size: &env::WORLD_SIZE, local: &env::LOCAL_RANK };
const SLURM: Names = Names { rank: &env::SLURM_PROCID, size: &env::SLURM_NTASKS, local: &env::SLURM_LOCALID };

pub fn here() -> Result<Launched, Failure> {
    read(&|variable| variable.get().map(|value| value.to_string_lossy().into_owned()))
}

/// How long a rank waits for the others at its start: one that is lost before it has come is noticed by nobody else.
pub fn patience() -> Result<Duration, Failure> {
    env::RANK_TIMEOUT.seconds(Duration::from_mins(15))
}

type Get<'a> = &'a dyn Fn(&Variable) -> Option<String>;

/// RANK or WORLD_SIZE means a launcher, and then nothing may be missing. Slurm sets its variables in batch scripts and
/// interactive shells too: they count with MASTER_ADDR and MASTER_PORT only, which a script sets for processes that train
/// together.
fn read(get: Get) -> Result<Launched, Failure> {
    if get(&env::RANK).is_some() || get(&env::WORLD_SIZE).is_some() {
        return family(&TORCHRUN, get);
    }
    let meeting = [&env::MASTER_ADDR, &env::MASTER_PORT];
    let tasks = get(&env::SLURM_NTASKS).and_then(|tasks| tasks.parse().ok()).unwrap_or(1_u32);
    if get(&env::SLURM_PROCID).is_some() && tasks > 1 {
        if meeting.iter().all(|name| get(name).is_some()) {
            return family(&SLURM, get);
        }
        return Ok(Launched::Ignored(format!(
            "Slurm has {tasks} tasks here, but {} are not set: this process trains alone",
            listed(&missing(&meeting, get))
        )));
    }
    let alone: Vec<&str> = [meeting[0], meeting[1], &env::LOCAL_RANK]
        .iter()
        .filter(|it| get(it).is_some())
        .map(|it| it.name)
        .collect();
    if alone.is_empty() {
        return Ok(Launched::Alone);
    }
    Ok(Launched::Ignored(format!(
        "{} without RANK and WORLD_SIZE names no launcher: this process trains alone",
        listed(&alone)
    )))
}

fn family(names: &Names, get: Get) -> Result<Launched, Failure> {
    let size = number(names.size, get)?;
    if size == Some(1) {
        return Ok(Launched::Alone);
    }
    let needed = [names.rank, names.size, names.local, &env::MASTER_ADDR, &env::MASTER_PORT];
    let (Some(rank), Some(size), Some(local), []) =
        (number(names.rank, get)?, size, number(names.local, get)?, &*missing(&needed, get))
    else {
        return Err(incomplete(&needed, get));
    };
    if rank >= size {
        return Err(invalid(format!(
            "{} is {rank} and {} is {size}: ranks are counted from 0",
            names.rank.name, names.size.name
        )));
    }
    if get(&env::MASTER_PORT).is_none_or(|port| port.parse::<u16>().is_err()) {
        return Err(invalid(format!("{} is not a port number", env::MASTER_PORT.name)));
    }
    let local_of = number(&env::LOCAL_WORLD_SIZE, get)?.filter(|count| *count > 0);
    Ok(Launched::As(Rank { number: rank, of: size, local, local_of }))
}

fn number(variable: &Variable, get: Get) -> Result<Option<u32>, Failure> {
    let Some(text) = get(variable) else { return Ok(None) };
    let text = text.trim();
    text.parse().map(Some).map_err(|_| invalid(format!("{} is `{text}`, not a whole number", variable.name)))
}

fn missing<'a>(needed: &[&'a Variable], get: Get) -> Vec<&'a str> {
    needed.iter().filter(|it| get(it).is_none()).map(|it| it.name).collect()
}

fn incomplete(needed: &[&Variable], get: Get) -> Failure {
    let (absent, there): (Vec<&Variable>, Vec<&Variable>) = needed.iter().partition(|it| get(it).is_none());
    let names = |of: &[&Variable]| listed(&of.iter().map(|it| it.name).collect::<Vec<_>>());
    let message = format!("the environment has {} of a launcher, but not {}", names(&there), names(&absent));
    let unset: Vec<&str> = there.iter().map(|it| it.name).collect();
    let one_each = absent.iter().any(|it| it.name == env::LOCAL_RANK.name);
    let local = if one_each { "; LOCAL_RANK is 0 where each machine has one process" } else { "" };
    Failure::bad_input("launcher-incomplete", message).hint(format!(
        "start it with torchrun, or set what is missing{local}; to train in one process: unset {}",
        unset.join(" ")
    ))
}

fn invalid(message: String) -> Failure {
    Failure::bad_input("launcher-invalid", message)
        .hint("start it with torchrun, or correct the variable; docs/several-processes.md has examples")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const WHOLE: [&str; 5] =
        ["RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "MASTER_ADDR=node-0", "MASTER_PORT=29500"];

    fn of(settings: &[&str]) -> Result<Launched, Failure> {
        let held: BTreeMap<&str, &str> = settings.iter().filter_map(|it| it.split_once('=')).collect();
        read(&|variable| held.get(variable.name).map(|value| (*value).to_owned()))
    }

    fn refusal(settings: &[&str]) -> (String, String) {
        let failure = of(settings).unwrap_err();
        (failure.code, failure.message)
    }

    #[test]
    fn torchrun_numbers_its_processes() {
        let rank = Rank { number: 1, of: 4, local: 1, local_of: None };
        assert_eq!(of(&WHOLE).unwrap(), Launched::As(rank));
        let more = [&WHOLE[..], &["LOCAL_WORLD_SIZE=2", "SLURM_PROCID=7", "SLURM_NTASKS=9"]].concat();
        assert_eq!(of(&more).unwrap(), Launched::As(Rank { local_of: Some(2), ..rank }));
        assert_eq!(rank.to_string(), "rank 1 of 4");
    }

    #[test]
    fn slurm_counts_where_the_script_names_a_meeting_point() {
        let tasks = ["SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1"];
        let met = [&tasks[..], &["MASTER_ADDR=node-0", "MASTER_PORT=29500"]].concat();
        assert_eq!(of(&met).unwrap(), Launched::As(Rank { number: 3, of: 4, local: 1, local_of: None }));
        let Launched::Ignored(reason) = of(&tasks).unwrap() else { panic!("joined without a meeting point") };
        assert!(reason.contains("4 tasks") && reason.contains("MASTER_ADDR and MASTER_PORT"), "{reason}");
        assert_eq!(of(&["SLURM_PROCID=0", "SLURM_NTASKS=1"]).unwrap(), Launched::Alone);
        let (code, message) = refusal(&[&met[..2], &met[3..]].concat());
        assert_eq!(code, "launcher-incomplete");
        assert!(message.ends_with("but not SLURM_LOCALID"), "{message}");
    }

    #[test]
    fn one_process_trains_alone() {
        assert_eq!(of(&[]).unwrap(), Launched::Alone);
        assert_eq!(of(&["WORLD_SIZE=1"]).unwrap(), Launched::Alone);
        assert_eq!(of(&["RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"]).unwrap(), Launched::Alone);
        let Launched::Ignored(reason) = of(&["MASTER_ADDR=node-0"]).unwrap() else { panic!("no word") };
        assert!(reason.starts_with("MASTER_ADDR without RANK"), "{reason}");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (left_out, setting) in WHOLE.iter().enumerate() {
            let rest: Vec<&str> =
                WHOLE.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, it)| *it).collect();
            let (code, message) = refusal(&rest);
            let name = setting.split('=').next().unwrap();
            assert_eq!(code, "launcher-incomplete");
            assert!(message.ends_with(&format!("but not {name}")), "{message}");
        }
        let (_, message) = refusal(&["RANK=0"]);
        assert!(message.ends_with("not WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"), "{message}");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for (wrong, named) in [
            ("RANK=4", "RANK is 4 and WORLD_SIZE is 4"),
            ("RANK=one", "RANK is `one`"),
            ("WORLD_SIZE=-1", "WORLD_SIZE is `-1`"),
            ("MASTER_PORT=99999", "MASTER_PORT is not a port"),
        ] {
            let (code, message) = refusal(&[&WHOLE[..], &[wrong]].concat());
            assert_eq!(code, "launcher-invalid");
            assert!(message.contains(named), "{message}");
        }
    }
}
