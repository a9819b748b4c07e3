//! `install`: unpacks a package into the folder of installed experts, or lists what is there.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::shell;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::package::{Outcome, SIGNATURE, install, installed, keys, usual};
use crate::sys::paths::near;
use crate::ui::{Align, Console, Table};

const EXAMPLES: &str = "Examples:
  expert-cli install expert-sql-qwen3-0.6b.v0.1.0.expert
  expert-cli install expert-sql-qwen3-0.6b.v0.1.0.expert --key release.pub.pem
  expert-cli install --list";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A .expert file, or an unpacked package
    #[arg(value_name = "FILE|FOLDER", required_unless_present = "list")]
    package: Option<PathBuf>,
    /// The folder of installed experts (default: expert-cli/registry in your data folder)
    #[arg(long, value_name = "DIR")]
    registry: Option<PathBuf>,
    /// The public key that the package must be signed by
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// List what is installed
    #[arg(long, conflicts_with_all = ["package", "key"])]
    list: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let registry = args.registry.clone().unwrap_or_else(usual);
    let Some(package) = &args.package else {
        list(&registry, console);
        return Ok(Exit::Done);
    };
    let key = args.key.as_deref().map(keys::public).transpose()?;
    let done = install(package, &registry, key.as_ref())?;
    let folder = near(Path::new(&done.folder));
    if console.json {
        let mut document = json!(done);
        document["ok"] = Value::Bool(true);
        console.document(&document);
    } else {
        console.data(&folder);
        match done.outcome {
            Outcome::Installed => {}
            Outcome::AlreadyInstalled => console.say("already installed, with the same files"),
            Outcome::SignatureAdded => {
                console.say("already installed, with the same files; the signature was added");
            }
        }
        console.say(&done.report.signed());
    }
    if let Some(key) = &done.not_taken {
        console.warn(
            &format!(
                "the package is signed by {key}, and the installed expert keeps the signature that it has"
            ),
            Some(&format!("to take the package's, remove {SIGNATURE} in {folder} and install again")),
        );
    }
    console.say(&format!("next: expert-cli generate {} --prompt '...'", shell::quoted(&folder)));
    Ok(Exit::Done)
}

fn list(registry: &Path, console: &Console) {
    let found = installed(registry);
    if console.json {
        console.document(&json!({"ok": true, "registry": registry.to_string_lossy(), "installed": found}));
        return;
    }
    if found.is_empty() {
        console.say(&format!("nothing is installed in {}", near(registry)));
        return;
    }
    let left = Align::Left;
    let columns = [("expert", left), ("version", left), ("base", left), ("signed", left), ("folder", left)];
    let mut table = Table::new(&columns);
    for entry in found {
        let signed = if entry.signed { "yes" } else { "no" };
        table.row([entry.name, entry.version, entry.base, signed.to_owned(), near(Path::new(&entry.folder))]);
    }
    let (text, left_out) = table.narrow("folder", &["signed", "base"]);
    console.data(&text);
    console.left_out(&left_out);
}
