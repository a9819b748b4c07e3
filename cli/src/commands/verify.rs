//! `verify`: reads every byte of a package, and names each file that is not as it was made.

use std::path::PathBuf;

use expert_contract::exit::Exit;
use expert_contract::shell;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::package::{keys, report};
use crate::sys::paths::near;
use crate::ui::number::bytes;
use crate::ui::{Align, Console, Table};

const EXAMPLES: &str = "Examples:
  expert-cli verify expert-sql-qwen3-0.6b.v0.1.0.expert
  expert-cli verify expert-sql-qwen3-0.6b.v0.1.0.expert --key release.pub.pem";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A .expert file, or the folder of an installed expert
    #[arg(value_name = "FILE|FOLDER")]
    package: PathBuf,
    /// The public key that the package must be signed by
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let key = args.key.as_deref().map(keys::public).transpose()?;
    let report = report(&args.package, key.as_ref())?;
    report.check(&args.package, key.is_some()).map_err(|failure| failure.with_result(json!(report)))?;
    if console.json {
        let mut document = json!(report);
        document["ok"] = Value::Bool(true);
        console.document(&document);
    } else {
        let mut table = Table::new(&[("file", Align::Left), ("size", Align::Right), ("sha256", Align::Left)]);
        for file in &report.files {
            table.row([file.name.to_owned(), bytes(file.found.bytes), file.found.sha256.clone()]);
        }
        let (text, left_out) = table.narrow("sha256", &[]);
        console.data(&text);
        console.left_out(&left_out);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (name, version, base) = (text(&report.name), text(&report.version), text(&report.base));
        console.say(&format!("{name} {version} for {base}: every file is as it was made"));
        console.say(&report.signed());
    }
    let more =
        args.key.as_ref().map_or_else(String::new, |key| format!(" --key {}", shell::quoted(&near(key))));
    if args.package.is_file() {
        console.say(&format!("next: expert-cli install {}{more}", shell::quoted(&near(&args.package))));
    }
    Ok(Exit::Done)
}
