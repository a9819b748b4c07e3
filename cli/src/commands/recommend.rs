//! `recommend`: which bases fit this machine, by the memory estimate of `plan`.

use std::path::{Path, PathBuf};

use expert_contract::diagnostic::Severity;
use expert_contract::exit::Exit;
use expert_contract::manifest::{EMBEDDED, Set};
use expert_contract::plan::{AdapterKind, Device, DeviceKind, Quantization};
use expert_contract::resolve::{gibibytes, held_in};
use expert_contract::sample_rows::{self, Split};
use serde::Serialize;
use serde_json::json;

use crate::args::{DeviceChoice, PlanOptions};
use crate::edit;
use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::next;
use crate::plan::{Reads, resolved};
use crate::scaffold::{self, Preset, SchemaRows};
use crate::sys::cards::{Card, memory};
use crate::sys::durable;
use crate::sys::temporary::TemporaryFolder;
use crate::ui::number::{bytes, short};
use crate::ui::{Align, Console, Table, wrap};

/// Bases that anyone can download and whose dimensions are known before that, smallest first.
const BASES: [&str; 7] = [
    EMBEDDED,
    "HuggingFaceTB/SmolLM2-360M-Instruct",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-1.7B",
    "Qwen/Qwen3-4B",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "Qwen/Qwen3-8B",
];
/// The time of a step grows with the parameters: above this, a CPU takes hours for what a GPU does in minutes.
const MOST_ON_CPU: u64 = 1_000_000_000;

/// Show which bases fit this machine, by memory, and which one to begin with
#[derive(clap::Args)]
pub struct Args {
    /// The expert whose settings count (default: the working directory's, else those that `init` writes)
    #[arg(value_name = "EXPERT")]
    expert: Option<PathBuf>,
    /// Another machine: a card (rtx4090, h100, a100-80gb), any card of a size (24GB), or several (2xh100)
    #[arg(long = "for", value_name = "CARD", value_parser = Card::parse, conflicts_with = "device")]
    card: Option<Card>,
    /// Where to train
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Maximum device memory to use, such as 8GB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    max_memory: Option<u64>,
    /// Change one value of the manifest, such as training.config.max_seq_length=4096
    #[arg(long, value_name = "KEY=VALUE", value_parser = Set::parse)]
    set: Vec<Set>,
    /// Another folder that may hold the manifest's datasets
    #[arg(long, value_name = "ROOT")]
    allow_path: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Sized {
    base: &'static str,
    parameters: u64,
    /// The format of its weights: quantized, or that of the run.
    held_in: String,
    /// For one micro-batch of the settings, or of fewer rows where that does not fit.
    memory_bytes: u64,
    rows_at_once: u64,
    fits: bool,
    /// The setting that it was sized with, where it does not fit as the others hold it.
    #[serde(skip)]
    quantized: Option<Set>,
}

/// A base that cannot be trained with the settings.
#[derive(Serialize)]
struct Refused {
    base: &'static str,
    fits: bool,
    reason: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Row {
    Sized(Sized),
    Refused(Refused),
}

impl Row {
    fn sized(&self) -> Option<&Sized> {
        match self {
            Self::Sized(sized) => Some(sized),
            Self::Refused(_) => None,
        }
    }
}

pub fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let here = Path::new(MANIFEST).is_file().then(|| PathBuf::from("."));
    let expert = args.expert.clone().or(here);
    let scaffolded = if expert.is_none() { Some(new_expert()?) } else { None };
    let folder = expert.clone().or_else(|| scaffolded.as_ref().map(|it| it.path().to_owned()));
    let options = options(args, folder);
    let quiet = Console { warns: false, reports: false, ..*console };
    let mut found = Vec::new();
    let mut device = None;
    for base in BASES {
        match sized_to_fit(base, &options, &quiet) {
            Ok(Some((sized, on))) => {
                found.push(Row::Sized(sized));
                device = Some(on);
            }
            Ok(None) => {}
            Err(failure) => {
                let first = failure.diagnostics.iter().find(|it| it.severity == Severity::Error);
                let Some(reason) = first.map(|it| it.message.clone()) else { return Err(failure) };
                found.push(Row::Refused(Refused { base, fits: false, reason }));
            }
        }
    }
    let Some(device) = device else {
        return Err(nothing_sized(&found, scaffolded.is_some(), &options, console));
    };
    let chosen = choose(&found, device.kind);
    if console.json {
        let chosen = chosen.map(|it| it.base);
        console.document(&json!({"ok": true, "device": device, "bases": found, "recommended": chosen}));
        return Ok(Exit::Done);
    }
    show(&found, &device, chosen, console);
    let next = match chosen {
        None => "train on a machine with more memory, or set a smaller max_seq_length".to_owned(),
        Some(it) => {
            let first = if expert.is_none() { "expert-cli init NAME, then " } else { "" };
            let expert = expert.unwrap_or_else(|| experts::usual_parent().join("NAME"));
            let options =
                PlanOptions { expert: Some(expert), ..with_base(it.base, it.quantized.clone(), &options) };
            format!("{first}{}", next::command("plan", &options, ""))
        }
    };
    console.say(&format!("next: {next}"));
    Ok(Exit::Done)
}

/// The settings that `init` writes, for who has no expert yet.
fn new_expert() -> Result<TemporaryFolder, Failure> {
    let folder = TemporaryFolder::new()?;
    let manifest = scaffold::manifest("new", Preset::default(), &SchemaRows::default()).map_err(|error| {
        Failure::new(Exit::Failed, "bad-preset", format!("the preset cannot be read: {error}"))
    })?;
    let data = Split::ALL.map(|split| (format!("datasets/{}", split.file()), sample_rows::rows(split)));
    for (file, text) in [(MANIFEST.to_owned(), manifest)].into_iter().chain(data) {
        durable::write(&folder.path().join(file), text.as_bytes())
            .map_err(|error| Failure::temporary(&error))?;
    }
    Ok(folder)
}

fn options(args: &Args, expert: Option<PathBuf>) -> PlanOptions {
    PlanOptions {
        expert,
        manifest: None,
        model: None,
        data: None,
        test: None,
        output: None,
        set: args.set.clone(),
        card: args.card.clone(),
        max_memory: args.max_memory,
        device: args.device,
        mixed_precision: None,
        allow_path: args.allow_path.clone(),
    }
}

/// Every base refuses the settings. An expert's mistake is shown at its place; a new expert is in a temporary folder, which is
/// not named.
fn nothing_sized(found: &[Row], is_new: bool, options: &PlanOptions, console: &Console) -> Failure {
    let refused = found.iter().find_map(|it| match it {
        Row::Refused(refused) => Some(refused),
        Row::Sized(_) => None,
    });
    match refused {
        Some(refused) if is_new => {
            Failure::bad_input("no-budget", format!("no base takes the settings: {}", refused.reason))
        }
        Some(refused) => {
            let again = Console { warns: false, ..*console };
            let planned = size(refused.base, None, options, &again);
            planned.err().unwrap_or_else(|| Failure::bad_input("no-budget", refused.reason.clone()))
        }
        None => Failure::bad_input("no-budget", "no base could be sized"),
    }
}

fn with_base(base: &str, quantized: Option<Set>, options: &PlanOptions) -> PlanOptions {
    let set = options.set.iter().cloned().chain(quantized).collect();
    PlanOptions { model: Some(base.to_owned()), set, ..options.clone() }
}

/// As the settings hold it, and quantized where that does not fit.
fn sized_to_fit(
    base: &'static str,
    options: &PlanOptions,
    console: &Console,
) -> Result<Option<(Sized, Device)>, Failure> {
    let Some((sized, device, adapter)) = size(base, None, options, console)? else { return Ok(None) };
    if sized.fits {
        return Ok(Some((sized, device)));
    }
    let of_base = with_base(base, None, options);
    let quantized = held_in(edit::entry(&of_base)?, adapter.smallest_format());
    let smaller = size(base, Some(quantized), options, console)?;
    Ok(smaller.map(|(sized, device, _)| (sized, device)))
}

/// None where the settings leave nothing to estimate.
fn size(
    base: &'static str,
    quantized: Option<Set>,
    options: &PlanOptions,
    console: &Console,
) -> Result<Option<(Sized, Device, AdapterKind)>, Failure> {
    let planned =
        resolved(&with_base(base, quantized.clone(), options), Reads::TrainingData, console)?.resolved;
    Ok(planned.base.shape.as_ref().map(|shape| {
        let machine = &planned.machine;
        let sized = Sized {
            base,
            parameters: shape.parameters(),
            held_in: match planned.recipe.base.quantization {
                Quantization::None => machine.dtype.to_string(),
                quantization => quantization.to_string(),
            },
            memory_bytes: machine.estimate.total,
            rows_at_once: machine.micro_batch,
            fits: planned.fits(),
            quantized,
        };
        (sized, machine.device.clone(), planned.recipe.adapter.kind)
    }))
}

/// The largest that fits and that this kind of device trains in reasonable time.
fn choose(found: &[Row], device: DeviceKind) -> Option<&Sized> {
    let most = if device == DeviceKind::Cpu { MOST_ON_CPU } else { u64::MAX };
    found.iter().rev().filter_map(Row::sized).find(|it| it.fits && it.parameters <= most)
}

/// In a narrow terminal what is to be said of a base stands below it.
fn show(found: &[Row], device: &Device, chosen: Option<&Sized>, console: &Console) {
    let columns = [
        ("base", Align::Left),
        ("parameters", Align::Right),
        ("held in", Align::Left),
        ("memory", Align::Right),
        ("rows at once", Align::Right),
        (MARK, Align::Left),
    ];
    let mut table = Table::new(&columns);
    for row in found {
        let it = match row {
            Row::Sized(sized) => sized,
            Row::Refused(it) => {
                table.row([it.base, "-", "-", "-", "-", &it.reason]);
                continue;
            }
        };
        let mark = match chosen {
            _ if !it.fits => "does not fit",
            Some(chosen) if chosen.base == it.base => "recommended",
            _ => "",
        };
        let rows = if it.fits { it.rows_at_once.to_string() } else { "-".to_owned() };
        table.row([it.base, &short(it.parameters as f64), &it.held_in, &bytes(it.memory_bytes), &rows, mark]);
    }
    let memory = device.memory_bytes.map_or(String::new(), |size| format!(", {}", gibibytes(size)));
    let (table, left_out) = table.narrow(MARK, &["parameters", "held in", "rows at once"]);
    console.data(&format!("{}{memory}\n\n{table}", device.name));
    console.left_out(&left_out);
    if device.kind == DeviceKind::Cpu {
        let note = format!(
            "the time of a step grows with the base: a CPU trains those above {} parameters for hours",
            short(MOST_ON_CPU as f64)
        );
        console.data(&format!("\n{}", wrap::wrapped(&note, 0, wrap::columns())));
    }
}

/// The head of the column of remarks.
const MARK: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(base: &'static str, parameters: u64, fits: bool) -> Row {
        let held_in = "bf16".to_owned();
        Row::Sized(Sized {
            base,
            parameters,
            held_in,
            memory_bytes: 1,
            rows_at_once: 1,
            fits,
            quantized: None,
        })
    }

    #[test]
    fn the_largest_base_that_fits_is_recommended() {
        let found = [
            sized("a", 135_000_000, true),
            sized("b", 4_000_000_000, true),
            sized("c", 8_000_000_000, false),
        ];
        let name = |kind| choose(&found, kind).map(|it| it.base);
        assert_eq!((name(DeviceKind::Cuda), name(DeviceKind::Cpu)), (Some("b"), Some("a")));
        assert!(choose(&[sized("c", 1, false)], DeviceKind::Cuda).is_none());
    }

    #[test]
    fn the_dimensions_of_every_base_are_known() {
        for base in BASES {
            assert!(expert_contract::budget::Shape::known(base).is_some(), "{base}");
        }
    }
}
