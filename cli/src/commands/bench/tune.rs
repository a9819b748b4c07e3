//! `bench tune`: the largest micro-batch that fits and the fastest setting, by short measurements.

use std::path::Path;

use expert_contract::exit::Exit;
use expert_contract::manifest::Set;
use expert_contract::plan::{CheckpointingMode, DeviceKind, Dtype, Graphs, Plan};
use fs_err as fs;
use serde_json::{Value, json};

use super::measure::{Extent, Measured, WholeTraining, check_processes, ends_all, measure, shortened};
use super::variants::{format_of_base, set_micro_batch};
use crate::args::{Global, PlanOptions, Supervision, TrainOptions, whole};
use crate::edit::{self, Changed, Setting};
use crate::failure::Failure;
use crate::plan::{Reads, prepare, resolved};
use crate::sys::durable;
use crate::ui::number::{bytes, short};
use crate::ui::{Align, Console, Table};

/// A difference below this share is noise.
const WORTH: f64 = 1.02;
/// Sizes tried below the largest that fits.
const SIZES: usize = 4;

/// Find the largest micro-batch that fits and the fastest settings; a step still has the same rows
#[derive(clap::Args)]
#[command(mut_arg("output", |arg| arg.help("Folder for tuning.json (only shown)")))]
pub struct Args {
    #[command(flatten)]
    options: TrainOptions,
    #[command(flatten)]
    extent: Extent,
    /// Try other number formats as well: faster, but with different results
    #[arg(long)]
    precision: bool,
    /// Measure these row lengths (max_seq_length) instead, each with the largest micro-batch that fits: 512,1024,2048
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', conflicts_with_all = ["write", "precision"], value_parser = whole::<u32>(16..=u32::MAX.into()))]
    lengths: Vec<u32>,
    /// Write the settings into the manifest; comments and formatting stay
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    supervision: Supervision,
}

struct Trial {
    name: String,
    plan: Plan,
    whole: WholeTraining,
    told: Result<Measured, String>,
}

impl Trial {
    fn speed(&self) -> f64 {
        self.fitting().map_or(0.0, |measured| measured.tokens_per_second)
    }

    fn fitting(&self) -> Option<&Measured> {
        self.told.as_ref().ok().filter(|measured| measured.fits)
    }
}

struct Search<'a> {
    args: &'a Args,
    global: &'a Global,
    console: &'a Console,
    options: &'a PlanOptions,
    planned: &'a Plan,
    whole: WholeTraining,
    trials: Vec<Trial>,
    /// The fastest so far.
    best: usize,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let options = args.options.plan();
    let base = edit::base_of(&options)?;
    let Some(base) = base.or(Some(0).filter(|_| !args.write)) else {
        return Err(edit::no_place_for_base());
    };
    let prepared = prepare(&options, Reads::TrainingData, console)?;
    check_processes(&prepared.resolved, console)?;
    if let Some(folder) = &options.output {
        fs::create_dir_all(folder).map_err(|error| Failure::writing("create", folder, &error))?;
    }
    let plan = shortened(&prepared.resolved, &args.extent);
    let file = options.manifest_file()?;
    if args.write {
        edit::rehearse(&file, base, &settings(&plan, &plan), &options, console)?;
    }
    if let Some(why) = format_of_base(&plan).filter(|_| args.precision) {
        console.warn(&format!("no other number format is tried: {why}"), None);
    }
    let whole = WholeTraining::of(&prepared.resolved);
    let mut search = Search {
        args,
        global,
        console,
        options: &options,
        planned: &plan,
        whole,
        trials: Vec::new(),
        best: 0,
    };
    if args.lengths.is_empty() {
        search.sizes(&plan, prepared.resolved.largest_micro_batch, SIZES, "")?;
        search.switches()?;
    }
    for length in &args.lengths {
        let longer = length_of(&options, *length);
        let resolved = prepare(&longer, Reads::TrainingData, console)?.resolved;
        let plan = shortened(&resolved, &args.extent);
        search.whole = WholeTraining::of(&resolved);
        search.sizes(&plan, resolved.largest_micro_batch, 1, &format!("{length} tokens, "))?;
    }
    let Some(best) = search.trials.get(search.best).filter(|trial| trial.fitting().is_some()) else {
        return Err(nothing_fits(&search.trials));
    };
    // Another length trains on other rows: that is the user's choice.
    let settings = if args.lengths.is_empty() { settings(&plan, &best.plan) } else { Vec::new() };
    let (edited, changes) = edit::edited(&file, base, &settings)?;
    let document = document(&search, best, &changes, &file);
    if let Some(folder) = &options.output {
        durable::write_json(&folder.join("tuning.json"), &document)?;
    }
    if console.json {
        console.document(&document);
    } else {
        console.data(&shown(&search, best, &changes, &file));
    }
    if args.write && !changes.is_empty() {
        edit::write(&edited, &file, &options, console)?;
        console.say(&format!("written to {}", file.display()));
        edit::warn_of_others(&edited, base, &changes, console);
    }
    Ok(Exit::Done)
}

impl Search<'_> {
    /// The largest divisor of a step's rows that fits, and some below it: smaller ones may be faster.
    fn sizes(
        &mut self,
        plan: &Plan,
        largest: Option<u64>,
        most_sizes: usize,
        prefix: &str,
    ) -> Result<(), Failure> {
        let rows = plan.recipe.batch.rows_per_step;
        let processes = plan.machine.distributed.map_or(1, |it| u64::from(it.processes));
        // A plan lowers a larger one, so that it would change nothing.
        let most = largest.unwrap_or(rows).min(rows.div_ceil(processes));
        let mut fitting = 0;
        for size in divisors(rows, most) {
            let mut candidate = plan.clone();
            set_micro_batch(&mut candidate, size);
            self.trial(format!("{prefix}{}", size_of(&candidate)), candidate)?;
            fitting += usize::from(self.trials.last().is_some_and(|trial| trial.fitting().is_some()));
            if fitting == most_sizes {
                break;
            }
        }
        Ok(())
    }

    /// Tries one change at a time to the best so far, and keeps it if it is faster.
    fn switches(&mut self) -> Result<(), Failure> {
        if self.trials.get(self.best).is_none_or(|trial| trial.fitting().is_none()) {
            return Ok(());
        }
        let planned = self.trials[self.best].plan.machine.clone();
        if planned.checkpointing != CheckpointingMode::None {
            self.change("checkpointing none", |plan| plan.machine.checkpointing = CheckpointingMode::None)?;
        }
        if planned.device.kind == DeviceKind::Cuda && planned.compile.is_none() {
            self.change("compile", |plan| plan.machine.compile = Some(inductor()))?;
        }
        if planned.device.kind == DeviceKind::Cuda && planned.cuda_graphs.is_none() {
            self.change("CUDA graphs", |plan| plan.machine.cuda_graphs = Some(Graphs { asked: true }))?;
        }
        if self.args.precision && format_of_base(self.planned).is_none() {
            let other = if planned.dtype == Dtype::Bf16 { Dtype::Fp32 } else { Dtype::Bf16 };
            self.change(other.as_str(), |plan| plan.machine.dtype = other)?;
        }
        Ok(())
    }

    /// With fewer rows at once where a plan with the change finds that no more fit.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Plan)) -> Result<(), Failure> {
        let best = &self.trials[self.best];
        let mut plan = best.plan.clone();
        change(&mut plan);
        let rows = self.rows_that_fit(&plan);
        if let Ok(rows) = rows {
            set_micro_batch(&mut plan, rows);
        }
        let name = format!("{}, {name}", best.name.replace(&size_of(&best.plan), &size_of(&plan)));
        match rows {
            Ok(_) => self.trial(name, plan),
            Err(failure) => {
                self.note(name, plan, Err(failure.message));
                Ok(())
            }
        }
    }

    fn rows_that_fit(&self, changed: &Plan) -> Result<u64, Failure> {
        let set = |it: &Setting| Set::new(format!("training.config.{}", it.key), it.value.to_string());
        let sets: Vec<Set> = settings(self.planned, changed).iter().map(set).collect();
        let silent = Console { warns: false, reports: false, ..*self.console };
        let resolved = resolved(&self.options.with(&sets), Reads::TrainingData, &silent)?.resolved;
        if !resolved.fits() {
            return Err(Failure::new(Exit::Failed, "nothing-fits", "not even one row is estimated to fit"));
        }
        let most = resolved.machine.micro_batch;
        Ok(divisors(changed.recipe.batch.rows_per_step, most).next().unwrap_or(1))
    }

    fn trial(&mut self, name: String, plan: Plan) -> Result<(), Failure> {
        let told = match measure(&plan, &self.args.supervision, self.global) {
            Err(failure) if ends_all(&failure) => return Err(failure),
            Err(failure) => Err(failure.message),
            Ok(measured) => self.applied(measured),
        };
        self.note(name, plan, told);
        Ok(())
    }

    /// A switch that has no effect here is none.
    fn applied(&self, measured: Measured) -> Result<Measured, String> {
        let before = self.trials.get(self.best).and_then(Trial::fitting);
        let why = before.and_then(|before| measured.without_the_change(before)).map(str::to_owned);
        why.map_or(Ok(measured), Err)
    }

    fn note(&mut self, name: String, plan: Plan, told: Result<Measured, String>) {
        let trial = Trial { name, plan, whole: self.whole, told };
        self.console.say(&format!("  {}: {}", trial.name, said(&trial)));
        self.trials.push(trial);
        let now = self.trials.len() - 1;
        if self.trials[now].speed() > self.trials[self.best].speed() * WORTH || now == 0 {
            self.best = now;
        }
    }
}

/// The sizes that divide a step's rows, from `most` down to one.
fn divisors(rows: u64, most: u64) -> impl Iterator<Item = u64> {
    (1..=rows.min(4096).min(most.max(1))).rev().filter(move |size| rows.is_multiple_of(*size))
}

fn size_of(plan: &Plan) -> String {
    format!("{} of {} rows at once", plan.machine.micro_batch, plan.recipe.batch.rows_per_step)
}

fn length_of(options: &PlanOptions, length: u32) -> PlanOptions {
    let mut longer = options.clone();
    longer.set.push(Set::flag("--lengths", "training.config.max_seq_length", length.to_string()));
    longer
}

fn inductor() -> expert_contract::plan::Compile {
    expert_contract::plan::Compile { backend: "inductor".to_owned(), mode: "default".to_owned(), asked: true }
}

fn said(trial: &Trial) -> String {
    match &trial.told {
        Ok(measured) if measured.fits => {
            format!("{} tokens/s, {}", short(measured.tokens_per_second), bytes(measured.peak_bytes))
        }
        Ok(_) => "does not fit".to_owned(),
        Err(why) => why.clone(),
    }
}

fn nothing_fits(trials: &[Trial]) -> Failure {
    let why = trials.last().map_or_else(String::new, |trial| format!(": {}", said(trial)));
    Failure::new(Exit::Failed, "nothing-fits", format!("no setting could be measured{why}"))
        .hint("lower max_seq_length, set gradient_checkpointing to \"full\", or raise --limit")
}

/// The manifest's settings for the plan that was found.
fn settings(planned: &Plan, best: &Plan) -> Vec<Setting> {
    let machine = &best.machine;
    let rows = best.recipe.batch.rows_per_step;
    let mut settings = vec![
        Setting::new("batch_size", machine.micro_batch),
        Setting::new("gradient_accumulation_steps", rows / machine.micro_batch),
    ];
    if machine.checkpointing != planned.machine.checkpointing {
        settings.push(Setting::new("gradient_checkpointing", false));
    }
    if machine.compile.is_some() && planned.machine.compile.is_none() {
        settings.push(Setting::new("torch_compile", true));
    }
    if machine.cuda_graphs.is_some() && planned.machine.cuda_graphs.is_none() {
        settings.push(Setting::new("use_cuda_graphs", true));
    }
    if machine.dtype != planned.machine.dtype {
        settings.push(Setting::new("bf16", machine.dtype == Dtype::Bf16));
        settings.push(Setting::new("fp16", false));
    }
    settings
}

fn document(search: &Search<'_>, best: &Trial, changes: &[Changed], file: &Path) -> Value {
    let trials = search.trials.iter().map(|trial| {
        json!({
            "name": trial.name,
            "micro_batch": trial.plan.machine.micro_batch,
            "max_seq_length": trial.plan.recipe.batch.max_seq_length,
            "fits": trial.fitting().is_some(),
            "measured": trial.told.as_ref().ok(),
            "whole_training_seconds": trial.fitting().and_then(|it| trial.whole.seconds(it)),
            "why": trial.told.as_ref().err(),
        })
    });
    let lines = changes
        .iter()
        .map(|it| json!({"line": it.line, "key": it.key, "before": it.before, "after": it.after}));
    json!({
        "ok": true,
        "manifest": file,
        "best": best.name,
        "trials": trials.collect::<Vec<_>>(),
        "changes": lines.collect::<Vec<_>>(),
        "written": search.args.write && !changes.is_empty(),
    })
}

fn shown(search: &Search<'_>, best: &Trial, changes: &[Changed], file: &Path) -> String {
    let columns = [
        ("", Align::Left),
        ("tokens/s", Align::Right),
        ("whole training", Align::Right),
        ("peak memory", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for trial in &search.trials {
        let mark = if std::ptr::eq(trial, best) { "fastest" } else { "" };
        match (trial.fitting(), &trial.told) {
            (Some(it), _) => {
                let (speed, whole) = (short(it.tokens_per_second), trial.whole.text(it));
                table.row([&trial.name, &speed, &whole, &bytes(it.peak_bytes), mark]);
            }
            (None, _) => table.row([&trial.name, "-", "-", "-", &said(trial)]),
        }
    }
    let mut text = table.render();
    if !search.args.lengths.is_empty() {
        return text + "\nset max_seq_length to the shortest of these that holds your documents";
    }
    if changes.is_empty() {
        return text + "\nthe manifest has these settings already";
    }
    text += &format!("\nin {}:", file.display());
    for it in changes {
        text += &format!("\n  {it}");
    }
    text
}
