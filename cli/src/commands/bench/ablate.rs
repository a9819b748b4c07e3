//! `bench ablate`: each optimisation on and off, each in a separate worker.

use std::path::{Path, PathBuf};

use expert_contract::exit::Exit;
use expert_contract::plan::Plan;
use fs_err as fs;
use serde_json::{Value, json};

use super::measure::{Extent, Measured, WholeTraining, check_processes, ends_all, measure, shortened};
use super::outcome::{Losses, apart, losses};
use super::variants::{Change, GROUPS, KERNELS, OF_FAST_PATH, Variant, all, kernels};
use crate::args::{Global, Supervision, TrainOptions};
use crate::failure::Failure;
use crate::plan::{Reads, prepare};
use crate::sys::durable;
use crate::ui::number::{bytes, seconds, short};
use crate::ui::{Align, Console, Table};
use crate::worker::{Search, run_module};

/// Measure the gain of each optimisation on this machine: on and off, one at a time, each in a separate process
#[derive(clap::Args)]
#[command(mut_arg("output", |arg| arg.help("Folder for ablation.json and ablation.html (only shown)")))]
pub struct Args {
    #[command(flatten)]
    options: TrainOptions,
    #[command(flatten)]
    extent: Extent,
    /// Only these: see --list
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(GROUPS))]
    only: Vec<String>,
    /// Show what would be measured, and stop
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    supervision: Supervision,
}

/// A variant's result, or the reason why there is none.
struct Outcome {
    variant: Variant,
    told: Result<(Measured, Losses), String>,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let options = args.options.plan();
    let prepared = prepare(&options, Reads::TrainingData, console)?;
    let plan = shortened(&prepared.resolved, &args.extent);
    let wanted = |group: &str| args.only.is_empty() || args.only.iter().any(|it| it == group);
    let mut variants: Vec<_> = all(&plan).into_iter().filter(|it| wanted(it.group)).collect();
    if args.list {
        list(&variants, wanted(KERNELS), console);
        return Ok(Exit::Done);
    }
    check_processes(&prepared.resolved, console)?;
    // Checked before hours of measuring, not after.
    if let Some(folder) = &options.output {
        fs::create_dir_all(folder).map_err(|error| Failure::writing("create", folder, &error))?;
    }
    let planned = measure(&plan, &args.supervision, global)?;
    console.say(&format!("  as planned: {} tokens/s", short(planned.tokens_per_second)));
    if wanted(KERNELS) {
        variants.extend(kernels(&plan, &planned.kernels));
    }
    let plural = if variants.len() == 1 { "variant" } else { "variants" };
    console.say(&format!("then {} {plural} of {} steps each", variants.len(), args.extent.steps));
    let mut outcomes = Vec::new();
    for variant in variants {
        outcomes.push(outcome(variant, &plan, &planned, args, global, console)?);
    }
    let again = measure(&plan, &args.supervision, global)?;
    let equal = !outcomes.iter().any(|it| matches!(it.told, Ok((_, Losses::Differ))));
    let document = document(&plan, args, &planned, &again, &outcomes, equal);
    if let Some(folder) = &options.output {
        write(folder, &document, global, console)?;
    }
    if console.json {
        console.document(&document);
    } else {
        console.data(&table(&planned, &again, &outcomes, WholeTraining::of(&prepared.resolved)));
    }
    Ok(if equal { Exit::Done } else { Exit::Failed })
}

fn outcome(
    variant: Variant,
    plan: &Plan,
    planned: &Measured,
    args: &Args,
    global: &Global,
    console: &Console,
) -> Result<Outcome, Failure> {
    let told = match &variant.change {
        Change::Impossible(why) => Err(why.clone()),
        Change::To(_) if OF_FAST_PATH.contains(&variant.group) && planned.is_on_plain_path() => {
            Err("the run takes the plain path as planned".to_owned())
        }
        Change::To(changed) => match measure(changed, &args.supervision, global) {
            Ok(measured) => {
                let losses = losses(planned, &measured, variant.expected, plan.machine.dtype);
                let why = measured.without_the_change(planned).map(str::to_owned);
                why.map_or(Ok((measured, losses)), Err)
            }
            Err(failure) if ends_all(&failure) => return Err(failure),
            Err(failure) => Err(failure.message),
        },
    };
    let said = match &told {
        Ok((measured, _)) => format!("{} tokens/s", short(measured.tokens_per_second)),
        Err(why) => why.clone(),
    };
    console.say(&format!("  {}: {said}", variant.name));
    Ok(Outcome { variant, told })
}

/// Which kernels run here is known to the worker only.
const KERNEL_LINE: &str = "every other kernel of each operation that runs here";

fn list(variants: &[Variant], with_kernels: bool, console: &Console) {
    let line = |variant: &Variant| {
        let why = match &variant.change {
            Change::To(_) => Value::Null,
            Change::Impossible(why) => why.as_str().into(),
        };
        json!({"group": variant.group, "name": variant.name, "impossible": why})
    };
    if console.json {
        let kernels = json!({"group": KERNELS, "name": KERNEL_LINE, "impossible": Value::Null});
        let lines = variants.iter().map(line).chain(with_kernels.then_some(kernels));
        console.document(&json!({"ok": true, "variants": lines.collect::<Vec<_>>()}));
        return;
    }
    let mut table = Table::new(&[("--only", Align::Left), ("variant", Align::Left), ("", Align::Left)]);
    for variant in variants {
        let why = match &variant.change {
            Change::To(_) => "",
            Change::Impossible(why) => why,
        };
        table.row([variant.group, &variant.name, why]);
    }
    if with_kernels {
        table.row([KERNELS, KERNEL_LINE, ""]);
    }
    let (text, _) = table.narrow("", &[]);
    console.data(&text);
}

fn table(planned: &Measured, again: &Measured, outcomes: &[Outcome], whole: WholeTraining) -> String {
    let columns = [
        ("", Align::Left),
        ("tokens/s", Align::Right),
        ("of planned", Align::Right),
        ("whole training", Align::Right),
        ("peak memory", Align::Right),
        ("ready after", Align::Right),
        ("losses", Align::Left),
    ];
    let mut table = Table::new(&columns);
    let row = |name: &str, measured: &Measured, time: String, losses: &str| {
        [
            name.to_owned(),
            short(measured.tokens_per_second),
            format!("{:.2}x", measured.tokens_per_second / planned.tokens_per_second),
            time,
            bytes(measured.peak_bytes),
            seconds(measured.ready_seconds),
            losses.to_owned(),
        ]
    };
    table.row(row("as planned", planned, whole.text(planned), ""));
    for outcome in outcomes {
        match &outcome.told {
            Ok((measured, losses)) => {
                let split = if measured.fits { "" } else { ", did not fit and was split" };
                let words = losses.words(apart(&planned.losses, &measured.losses));
                let other_steps = *losses == Losses::NotComparable;
                let time = if other_steps { "-".to_owned() } else { whole.text(measured) };
                table.row(row(&outcome.variant.name, measured, time, &format!("{words}{split}")));
            }
            Err(why) => {
                let empty = String::new;
                table.row([
                    outcome.variant.name.clone(),
                    "-".to_owned(),
                    empty(),
                    empty(),
                    empty(),
                    empty(),
                    why.clone(),
                ]);
            }
        }
    }
    table.row(row("as planned, again", again, whole.text(again), ""));
    table.render()
}

fn document(
    plan: &Plan,
    args: &Args,
    planned: &Measured,
    again: &Measured,
    outcomes: &[Outcome],
    equal: bool,
) -> Value {
    let variants = outcomes.iter().map(|outcome| {
        let variant = &outcome.variant;
        let head = json!({"group": variant.group, "name": variant.name, "expected": variant.expected});
        let rest = match &outcome.told {
            Ok((measured, losses)) => json!({
                "measured": measured,
                "losses": losses,
                "apart": apart(&planned.losses, &measured.losses),
                "of_planned": measured.tokens_per_second / planned.tokens_per_second,
                "peak_of_planned": measured.peak_bytes as f64 / planned.peak_bytes as f64,
            }),
            Err(why) => json!({"measured": Value::Null, "why": why}),
        };
        merged(head, rest)
    });
    json!({
        "ok": equal,
        "expert": plan.recipe.expert,
        "base": plan.recipe.base.name,
        "device": plan.machine.device,
        "dtype": plan.machine.dtype,
        "rows_per_step": plan.recipe.batch.rows_per_step,
        "max_seq_length": plan.recipe.batch.max_seq_length,
        "steps": args.extent.steps,
        "planned": planned,
        "planned_again": again,
        "variants": variants.collect::<Vec<_>>(),
    })
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}

fn write(folder: &Path, document: &Value, global: &Global, console: &Console) -> Result<(), Failure> {
    let file: PathBuf = folder.join("ablation.json");
    durable::write_json(&file, document)?;
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?;
    let page = folder.join("ablation.html");
    let words = ["ablation".as_ref(), file.as_os_str(), "--output".as_ref(), page.as_os_str()];
    run_module(&python, "expert_worker.bench", &words)?;
    console.say(&format!("written: {} and {}", file.display(), page.display()));
    Ok(())
}
