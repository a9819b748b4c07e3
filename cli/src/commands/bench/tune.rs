//! `bench tune`: the largest micro-batch that fits and the fastest setting, by short measurements.

use std::path::Path;

use expert_contract::exit::Exit;
use expert_contract::manifest::Options;
use expert_contract::plan::{CheckpointingMode, DeviceKind, Dtype, Plan};
use expert_contract::read;
use fs_err as fs;
use serde_json::{Value, json};

use super::edit::{Changed, Setting, apply};
use super::measure::{Extent, Measured, ends_all, measure, shortened};
use super::variants::set_micro_batch;
use crate::args::{Global, Supervision, TrainOptions};
use crate::failure::Failure;
use crate::plan::{Reads, prepare};
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
    /// Write the settings into the manifest; comments and formatting stay
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    supervision: Supervision,
}

struct Trial {
    name: String,
    plan: Plan,
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
    trials: Vec<Trial>,
    /// The fastest so far.
    best: usize,
}

pub fn run(args: &Args, global: &Global, console: &Console) -> Result<Exit, Failure> {
    let options = args.options.plan();
    let base = base_of(options.model.as_deref(), &options.manifest_file()?);
    let Some(base) = base.or(Some(0).filter(|_| !args.write)) else {
        return Err(Failure::bad_input(
            "unknown-model",
            "--write has no place for a base that is not in the manifest",
        )
        .hint("add the base to base_models first, or leave --write out"));
    };
    let prepared = prepare(&options, Reads::TrainingData, console)?;
    if let Some(folder) = &options.output {
        fs::create_dir_all(folder).map_err(|error| Failure::writing("create", folder, &error))?;
    }
    let plan = shortened(&prepared.resolved, &args.extent);
    let mut search = Search { args, global, console, trials: Vec::new(), best: 0 };
    search.sizes(&plan, prepared.resolved.largest_micro_batch)?;
    search.switches()?;
    let Some(best) = search.trials.get(search.best).filter(|trial| trial.fitting().is_some()) else {
        return Err(nothing_fits(&search.trials));
    };
    let settings = settings(&plan, &best.plan);
    let file = options.manifest_file()?;
    let (edited, changes) = lines(&file, base, &settings)?;
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
        check(&edited, &file)?;
        durable::write(&file, edited.as_bytes()).map_err(|error| Failure::writing("write", &file, &error))?;
        console.say(&format!("written to {}", file.display()));
    }
    Ok(Exit::Done)
}

impl Search<'_> {
    /// The largest divisor of a step's rows that fits, and some below it: smaller ones may be faster.
    fn sizes(&mut self, plan: &Plan, largest: Option<u64>) -> Result<(), Failure> {
        let rows = plan.recipe.batch.rows_per_step;
        // An estimate may be off by 10%, and a size that does not fit costs one measurement.
        let most = largest.map_or(rows, |largest| largest + largest / 5 + 1);
        let divisors: Vec<u64> =
            (1..=rows.min(4096)).rev().filter(|size| rows.is_multiple_of(*size)).collect();
        let mut fitting = 0;
        for size in divisors.into_iter().filter(|size| *size <= most || *size == 1) {
            let mut candidate = plan.clone();
            set_micro_batch(&mut candidate, size);
            self.trial(format!("{size} of {rows} rows at once"), candidate)?;
            fitting += usize::from(self.trials.last().is_some_and(|trial| trial.fitting().is_some()));
            if fitting == SIZES {
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
        if self.args.precision {
            let other = if planned.dtype == Dtype::Bf16 { Dtype::Fp32 } else { Dtype::Bf16 };
            self.change(other.as_str(), |plan| plan.machine.dtype = other)?;
        }
        Ok(())
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Plan)) -> Result<(), Failure> {
        let mut plan = self.trials[self.best].plan.clone();
        change(&mut plan);
        let name = format!("{}, {name}", self.trials[self.best].name);
        self.trial(name, plan)
    }

    fn trial(&mut self, name: String, plan: Plan) -> Result<(), Failure> {
        let told = match measure(&plan, &self.args.supervision, self.global) {
            Err(failure) if ends_all(&failure) => return Err(failure),
            Err(failure) => Err(failure.message),
            Ok(measured) => Ok(measured),
        };
        let trial = Trial { name, plan, told };
        self.console.say(&format!("  {}: {}", trial.name, said(&trial)));
        self.trials.push(trial);
        let now = self.trials.len() - 1;
        if self.trials[now].speed() > self.trials[self.best].speed() * WORTH || now == 0 {
            self.best = now;
        }
        Ok(())
    }
}

fn inductor() -> expert_contract::plan::Compile {
    expert_contract::plan::Compile { backend: "inductor".to_owned(), mode: "default".to_owned() }
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
        Setting { key: "batch_size", value: machine.micro_batch.into() },
        Setting { key: "gradient_accumulation_steps", value: (rows / machine.micro_batch).into() },
    ];
    if machine.checkpointing != planned.machine.checkpointing {
        settings.push(Setting { key: "gradient_checkpointing", value: false.into() });
    }
    if machine.compile.is_some() && planned.machine.compile.is_none() {
        settings.push(Setting { key: "torch_compile", value: true.into() });
    }
    if machine.dtype != planned.machine.dtype {
        settings.push(Setting { key: "bf16", value: (machine.dtype == Dtype::Bf16).into() });
        settings.push(Setting { key: "fp16", value: false.into() });
    }
    settings
}

/// Which of the manifest's bases is tuned; none where it is not one of them.
fn base_of(named: Option<&str>, file: &Path) -> Option<usize> {
    let Some(named) = named else { return Some(0) };
    // A manifest with errors is reported when the plan is made.
    read::load(file, &Options::default()).manifest.map_or(Some(0), |manifest| manifest.find_base(named))
}

fn lines(file: &Path, base: usize, settings: &[Setting]) -> Result<(String, Vec<Changed>), Failure> {
    let text = fs::read_to_string(file).map_err(|error| Failure::reading("read", file, &error))?;
    apply(&text, base, settings).ok_or_else(|| {
        Failure::bad_input("no-config", format!("{} has no training.config to write to", file.display()))
    })
}

/// The written text must still be a valid manifest.
fn check(text: &str, file: &Path) -> Result<(), Failure> {
    let loaded = read::from_bytes(text.as_bytes().to_vec(), file, &Options::default());
    if loaded.ok() { Ok(()) } else { Err(Failure::manifest(file, loaded.diagnostics)) }
}

fn document(search: &Search<'_>, best: &Trial, changes: &[Changed], file: &Path) -> Value {
    let trials = search.trials.iter().map(|trial| {
        json!({
            "name": trial.name,
            "micro_batch": trial.plan.machine.micro_batch,
            "fits": trial.fitting().is_some(),
            "measured": trial.told.as_ref().ok(),
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
    let columns =
        [("", Align::Left), ("tokens/s", Align::Right), ("peak memory", Align::Right), ("", Align::Left)];
    let mut table = Table::new(&columns);
    for trial in &search.trials {
        let mark = if std::ptr::eq(trial, best) { "fastest" } else { "" };
        match (trial.fitting(), &trial.told) {
            (Some(it), _) => {
                table.row([&trial.name, &short(it.tokens_per_second), &bytes(it.peak_bytes), mark]);
            }
            (None, _) => table.row([&trial.name, "-", "-", &said(trial)]),
        }
    }
    let mut text = table.render();
    if changes.is_empty() {
        return text + "\nthe manifest has these settings already";
    }
    text += &format!("\nin {}:", file.display());
    for it in changes {
        let before = it.before.as_deref().map_or("new: ".to_owned(), |before| format!("{before} -> "));
        text += &format!("\n  line {}: \"{}\": {before}{}", it.line, it.key, it.after);
    }
    text
}
