//! `keygen`: a pair of keys that signs packages.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use expert_contract::shell;
use serde_json::json;

use crate::failure::Failure;
use crate::package::keys;
use crate::sys::paths::{absolute, near};
use crate::ui::Console;

const EXAMPLES: &str = "Examples:
  expert-cli keygen --output release.pem
  expert-cli package experts/expert-sql --sign release.pem
  expert-cli verify expert-sql-qwen3-0.6b.v0.1.0.expert --key release.pub.pem";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The private key's file, which must be new; the public key is written beside it as .pub.pem (default: expert-cli/signing.pem in your configuration folder)
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let usual =
        || dirs::config_dir().unwrap_or_else(|| PathBuf::from(".")).join("expert-cli").join("signing.pem");
    let pair = keys::generate(&args.output.clone().unwrap_or_else(usual))?;
    if console.json {
        console.document(&json!({
            "ok": true,
            "private": absolute(&pair.private),
            "public": absolute(&pair.public),
            "key": pair.key,
        }));
    } else {
        console.data(&format!(
            "private key  {}\npublic key   {}\nkey          {}",
            near(&pair.private),
            near(&pair.public),
            pair.key
        ));
    }
    console
        .say("keep the private key to yourself, and give the public one to those who install your packages");
    console.say(&format!("next: expert-cli package EXPERT --sign {}", shell::quoted(&near(&pair.private))));
    Ok(Exit::Done)
}
