//! A rank other than 0 of a launcher's training: it computes with the others and writes nothing of the run. Rank 0 decides
//! what becomes of the folder, tokenizes, saves, evaluates and reports.

use std::path::Path;

use expert_contract::event::Body;
use expert_contract::exit::Exit;
use expert_contract::plan::Plan;
use expert_contract::resolve::Resolved;

use super::decide::{Decision, Now, decide};
use super::options::RunOptions;
use super::runner::Runner;
use crate::args::Supervision;
use crate::failure::Failure;
use crate::sys::env;
use crate::sys::launcher::{self, Rank};
use crate::ui::Console;
use crate::ui::number::duration;
use crate::worker::{Home, Notice, Start, carry_out_with};

pub fn follow(
    rank: Rank,
    resolved: &Resolved,
    options: &RunOptions,
    runner: &Runner,
    console: &Console,
) -> Result<Exit, Failure> {
    let named = |failure: Failure| Failure { message: format!("{rank}: {}", failure.message), ..failure };
    train(rank, resolved, options, runner, console).map_err(named)
}

fn train(
    rank: Rank,
    resolved: &Resolved,
    options: &RunOptions,
    runner: &Runner,
    console: &Console,
) -> Result<Exit, Failure> {
    let recipe = &resolved.recipe;
    let notify = &mut |notice: Notice| notify(rank, &notice, console);
    let base = runner.fetch(recipe, &resolved.machine, notify)?;
    let machine = resolved.machine.clone().with_base(base);
    let inputs = runner.inputs(recipe, &machine);
    // Rank 0 finds the same and starts no worker. Any other decision is its own: it may have begun by now.
    let now = Now { recipe, paths: &machine.paths, inputs: &inputs, typed: &resolved.typed };
    let found = decide(Path::new(&machine.paths.output), &now, options.asked(false));
    if let Ok(Decision::Done { .. }) = found {
        console.say(&format!("{rank}: this recipe is finished"));
        return Ok(Exit::Done);
    }
    console.say(&format!(
        "{rank} waits for rank 0 to prepare the output folder and the token cache; a rank that is not there within {} \
         ends the others ({})",
        duration(launcher::patience()?),
        env::RANK_TIMEOUT.name
    ));
    let plan = Plan { machine, inputs: Some(inputs), ..resolved.plan(options.request(false)) };
    // It rightly makes no progress while rank 0 tokenizes or evaluates: rank 0 alone is watched.
    let supervision = Supervision { stall_timeout: None };
    let start = Start { rank: Some(rank), ..Start::default() };
    carry_out_with(&plan, Home::passing()?, &supervision, runner.global, start, notify)?;
    console.say(&format!("{rank}: done; rank 0 writes the result"));
    Ok(Exit::Done)
}

/// Rank 0 says what is the same for all.
fn notify(rank: Rank, notice: &Notice, console: &Console) {
    match notice {
        Notice::Event(event) => {
            if let Body::Recovered { step, detail, .. } = &event.body {
                // As in the worker's board: 0 is outside of the steps.
                let at = if *step == 0 { String::new() } else { format!(", step {step}") };
                console.warn(&format!("{rank}{at}: {detail}"), None);
            }
        }
        Notice::Remark(text) => console.say(&format!("{rank}: {text}")),
        Notice::Stopping(..) => {
            console.say(&format!("{rank}: stopping after the checkpoint that rank 0 saves"));
        }
        Notice::UnparsedLine(_) | Notice::Quiet(_) => {}
    }
}
