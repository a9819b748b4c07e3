//! `schema`: the JSON Schema of the documents, and the ledger of the manifest's keys.

use expert_contract::exit::Exit;
use expert_contract::{reference, schema};

use crate::failure::Failure;
use crate::ui::{Align, Console, Table};

#[derive(clap::Args)]
#[group(multiple = false)]
pub struct Args {
    /// The plan's schema instead of the manifest's
    #[arg(long)]
    plan: bool,
    /// The schema of one line of events.jsonl
    #[arg(long)]
    event: bool,
    /// The schema of the machines that plan --all --cluster takes
    #[arg(long)]
    cluster: bool,
    /// Every key of the manifest, its values and its effect
    #[arg(long)]
    ledger: bool,
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    if args.ledger {
        ledger(console);
        return Ok(Exit::Done);
    }
    let document = if args.plan {
        schema::plan()
    } else if args.event {
        schema::event()
    } else if args.cluster {
        schema::cluster()
    } else {
        schema::manifest()
    };
    if console.json {
        console.document(&document);
    } else {
        console.data(&serde_json::to_string_pretty(&document).unwrap_or_default());
    }
    Ok(Exit::Done)
}

fn ledger(console: &Console) {
    let rows = reference::ledger_rows();
    if console.json {
        console.document(&rows);
        return;
    }
    let mut table = Table::new(&[("", Align::Left); 3]);
    for row in &rows {
        let default = row.default.as_ref().filter(|value| !value.is_null());
        let default = default.map(|value| format!(" [{value}]")).unwrap_or_default();
        let note = row.reason.map_or(row.doc.to_owned(), |reason| format!("no effect: {reason}"));
        table.row([row.path.clone(), row.class.to_string(), format!("{note}{default}")]);
    }
    let (text, _) = table.narrow("", &[]);
    console.data(&text);
}
