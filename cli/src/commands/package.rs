//! `package`: one file of a finished run, for `verify` and `install`.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::shell;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::package::{build, chosen, keys};
use crate::sys::paths::near;
use crate::ui::Console;
use crate::ui::number::bytes;

const EXAMPLES: &str = "Examples:
  expert-cli package experts/expert-sql
  expert-cli package experts/expert-sql --model Qwen/Qwen3-0.6B --sign release.pem
  expert-cli package experts/expert-sql/weights/qwen3-0.6b --output expert-sql.expert";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The expert (its folder or manifest.json) or a finished run's folder (default: the working directory)
    #[arg(value_name = "EXPERT|RUN")]
    expert: Option<PathBuf>,
    /// The expert's manifest; needed with a run's folder outside its expert
    #[arg(long, short, value_name = "PATH")]
    manifest: Option<PathBuf>,
    /// The base of the run, where the expert has finished runs on several
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The package, which must be new or the same without a signature (default: NAME-BASE.vVERSION.expert here)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Sign every file with this private key, which keygen makes
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let key = args.sign.as_deref().map(keys::private).transpose()?;
    let run = chosen(args.expert.as_deref(), args.manifest.as_deref(), args.model.as_deref())?;
    let built = build(&run, args.output.as_deref(), key.as_ref(), console)?;
    let path = near(Path::new(&built.package));
    if console.json {
        let mut document = json!(built);
        document["ok"] = Value::Bool(true);
        console.document(&document);
    } else {
        console.data(&path);
        let count = built.report.files.len();
        console.say(&format!("{count} files, {}, SHA-256 {}", bytes(built.report.bytes), built.sha256));
        console.say(&built.report.signed());
        if built.unchanged {
            console.say("the same package was there already");
        }
    }
    let verified = args.sign.as_ref().map_or_else(String::new, |key| {
        format!(" --key {}", shell::quoted(&near(&keys::public_beside(key))))
    });
    console.say(&format!("next: expert-cli verify {}{verified}", shell::quoted(&path)));
    Ok(Exit::Done)
}
