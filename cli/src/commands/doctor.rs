//! `doctor`: what this machine has, and how to fix what is missing.

use expert_contract::exit::Exit;
use serde_json::json;

use crate::args::Global;
use crate::doctor::kernels::{self, Asked, Proof};
use crate::doctor::{Status, checks, text};
use crate::failure::Failure;
use crate::sys::gpus::Gpus;
use crate::ui::Console;
use crate::worker::Search;

#[derive(clap::Args)]
pub struct Args {
    /// Also compare each kernel of the fast path with its reference on this device (values, gradients and speed; half a
    /// minute, with a GPU up to two), leave out those that differ or are slower from now on, and compile layers where that is right
    #[arg(long)]
    prove: bool,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let checks = checks(global);
    let ok = checks.iter().all(|check| check.status != Status::Missing);
    if !console.json {
        console.data(&text::text(&checks));
    }
    let proof = (args.prove && ok).then(|| proof(global, console)).transpose()?;
    if console.json {
        let mut document = json!({"ok": ok, "checks": checks});
        if let Some(proof) = proof {
            document["kernels"] = json!(proof);
        }
        console.document(&document);
    } else if args.prove && !ok {
        console.say("The kernels are compared once nothing is missing");
    }
    Ok(if ok { Exit::Done } else { Exit::Missing })
}

fn proof(global: &Global, console: &Console) -> Result<Proof, Failure> {
    let python = Search::here(global.python.as_deref(), None).find()?.python;
    console.say("comparing kernels with their references");
    // The first card, in every format that it has.
    let asked = Asked { card: Gpus::here().found().into_iter().next().map(|it| it.device), format: None };
    let proof = kernels::prove(&python, &asked, |trial| {
        if !console.json {
            console.data(&kernels::line(trial));
        }
    })
    .map_err(|words| {
        Failure::new(Exit::Failed, "prove-failed", format!("the kernels could not be compared: {words}"))
    })?;
    if !console.json {
        console.data(&kernels::summary(&proof));
    }
    Ok(proof)
}
