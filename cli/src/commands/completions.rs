//! `completions SHELL`: the script that a shell loads to complete this program's words.

use clap_complete::Shell;
use expert_contract::exit::Exit;

use crate::failure::Failure;
use crate::ui::Console;

#[derive(clap::Args)]
pub struct Args {
    /// The shell that reads them
    shell: Shell,
}

/// `program` is the whole command line.
pub fn run(args: &Args, mut program: clap::Command, console: &Console) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "expert-cli", &mut script);
    let text = String::from_utf8_lossy(&script);
    // The generator spells this program's name, which has a hyphen, in two ways, and the shell finds neither by the other.
    let text = text.replace("expert__subcmd__cli", "expert__cli");
    if console.json {
        console.document(&serde_json::json!({"shell": args.shell.to_string(), "script": text}));
    } else {
        console.data(&text);
    }
    Ok(Exit::Done)
}
