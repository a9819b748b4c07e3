//! A plan as text.

use std::fmt::Write;
use std::path::Path;

use expert_contract::manifest::{Origin, Shown};
use expert_contract::plan::{
    Duration, Graphs, JudgeEndpoint, Machine, MemoryEstimate, Recipe, ScheduleKind, ScorerSettings, Source,
    StoppingStrategy, Strategy, Warmup,
};
use expert_contract::resolve::{MOST_ROOM, Place, Resolved, ShapeSource, StepEstimate};

use serde_json::Value;

use super::forecast::Expectation;
use super::offline;
use super::time::Time;
use crate::run::speed::{Projection, amount};
use crate::sys::paths::near;
use crate::ui::number::{bytes, grouped as count, minute, seconds, short};
use crate::ui::style::{DIM, STRONG};
use crate::ui::wrap::wrapped;

const LABEL: usize = 12;

/// `copies`: the lines about copies among the rows. `columns`: lines that are longer are broken between words.
pub fn text(
    resolved: &Resolved,
    all: bool,
    steps: Option<&StepEstimate>,
    time: Time,
    copies: &[String],
    columns: Option<usize>,
) -> String {
    let Resolved { recipe, machine, .. } = resolved;
    let recipe_digest = recipe.digest();
    let mut page = Page { text: String::new(), columns };
    page.title(&format!("{STRONG}{}{STRONG:#} on {}", recipe.expert, recipe.base.name));
    page.row(
        "recipe",
        &format!("{} {DIM}(identifies the settings that decide the adapter){DIM:#}", &recipe_digest[..16]),
    );
    page.row("base", &base(resolved));
    page.row("adapter", &adapter(resolved));
    let data = &recipe.data;
    for (label, sources) in [("data", &data.train), ("validation", &data.validation), ("test", &data.test)] {
        for source in sources {
            page.row(label, &self::source(source, resolved));
        }
    }
    for (name, set) in &resolved.test_sets {
        for source in &set.sources {
            page.row("test", &format!("{}  {name}", source.name));
        }
    }
    page.row("rows", &rows(recipe));
    for (place, line) in copies.iter().enumerate() {
        page.row(if place == 0 { "copies" } else { "" }, line);
    }
    page.row("batch", &batch(resolved));
    page.row("precision", &precision(resolved));
    page.row("optimizer", &optimizer(recipe));
    page.row("steps", &self::steps(&recipe.schedule.duration, steps));
    page.row("time", &duration(time));
    match time {
        Time::Measured(Projection { cost: Some(cost), .. }) => {
            page.row("cost", &format!("about {} for training", amount(cost)));
        }
        Time::Calculated(Expectation { highest_cost: Some(cost), .. }) => {
            page.row("cost", &format!("up to {} for training", amount(cost)));
        }
        _ => {}
    }
    page.row("evaluation", &evaluation(recipe, machine.judge.as_ref()));
    page.row("saving", &saving(resolved));
    page.row("run", &near(Path::new(&machine.paths.output)));
    page.row("token cache", &token_cache(machine));
    page.gap();
    memory(&mut page, resolved);
    page.gap();
    settings(&mut page, resolved, all);
    page.text
}

struct Page {
    text: String,
    columns: Option<usize>,
}

impl Page {
    fn title(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", wrapped(text, 2, self.columns));
    }

    fn row(&mut self, label: &str, text: &str) {
        let text = text.replace(['\n', '\t'], " ");
        let text = wrapped(&text, 2 + LABEL, self.columns);
        let _ = writeln!(self.text, "  {DIM}{label:<LABEL$}{DIM:#}{text}");
    }

    fn gap(&mut self) {
        self.text.push('\n');
    }
}

fn token_cache(machine: &Machine) -> String {
    if machine.loader.use_cache {
        near(Path::new(&machine.paths.cache))
    } else {
        "none: each training tokenizes its rows".to_owned()
    }
}

fn base(resolved: &Resolved) -> String {
    let quantization = resolved.recipe.base.quantization;
    let size = resolved.base.shape.as_ref().map_or_else(
        || "of unknown size".to_owned(),
        |shape| format!("{} parameters, {} layers", short(shape.parameters() as f64), shape.layers),
    );
    let download = offline::forbidden_by(resolved).map_or_else(
        || "downloaded when training starts".to_owned(),
        |variable| format!("{variable} forbids the download"),
    );
    let place = match (&resolved.base.place, &resolved.base.shape_source) {
        (Place::Embedded, _) => "comes with the worker".to_owned(),
        (Place::Folder(folder), _) => near(folder),
        (Place::Hub { has_weights: true, .. }, _) => "in the Hub's cache".to_owned(),
        (Place::Hub { snapshot: Some(_), .. }, _) => {
            format!("in the Hub's cache without all weights: {download}")
        }
        (Place::Hub { .. }, ShapeSource::Published) => {
            format!("not in the Hub's cache: {download}; dimensions as published")
        }
        (Place::Hub { .. } | Place::Absent, _) => "not on this machine".to_owned(),
    };
    let format =
        if quantization.as_str() == "none" { String::new() } else { format!("held as {quantization}, ") };
    format!("{format}{size}; {place}")
}

fn adapter(resolved: &Resolved) -> String {
    let adapter = &resolved.recipe.adapter;
    let mut text = adapter.kind.to_string();
    if let (Some(rank), Some(alpha)) = (adapter.rank, adapter.alpha) {
        let _ = write!(text, " rank {rank} alpha {alpha}");
    }
    if adapter.dropout > 0.0 {
        let _ = write!(text, " dropout {}", adapter.dropout);
    }
    let modules = resolved.machine.modules.as_ref();
    let names = modules.map_or(&adapter.target_modules, |it| &it.target);
    if !names.is_empty() {
        let _ = write!(text, " on {}", names.join(" "));
    }
    match (modules.and_then(|it| it.parameters), &resolved.base.shape) {
        (Some(trained), Some(shape)) => {
            let percent = 100.0 * trained as f64 / shape.parameters() as f64;
            let _ = write!(text, " ({} trained, {percent:.1}% of the base)", short(trained as f64));
        }
        _ => text.push_str(" (counted when the base is loaded)"),
    }
    text
}

fn source(source: &Source, resolved: &Resolved) -> String {
    let facts = resolved.facts.iter().find(|facts| facts.name == source.name);
    let size = facts.and_then(|facts| facts.bytes).map(bytes);
    let rows = facts
        .and_then(|facts| facts.rows)
        .map(|rows| if rows == 1 { "1 row".to_owned() } else { format!("{} rows", count(rows)) });
    // Validation and test rows have no shares.
    let train = &resolved.recipe.data.train;
    let of_task = |it: &&Source| source.task.is_some() && it.task == source.task;
    let together = if train.iter().filter(of_task).count() > 1 { " with the task's other files" } else { "" };
    let is_repeated = resolved.recipe.data.stopping_strategy == StoppingStrategy::AllExhausted;
    let repeated = if is_repeated { ", rows repeated where too few" } else { "" };
    let share = (source.weight < 1.0 && train.contains(source))
        .then(|| format!("{:.0}% of the mixture{together}{repeated}", source.weight * 100.0));
    let known: Vec<_> = [rows, size, share].into_iter().flatten().collect();
    if known.is_empty() { source.name.clone() } else { format!("{}  {}", source.name, known.join(", ")) }
}

fn rows(recipe: &Recipe) -> String {
    let data = &recipe.data;
    let mut text =
        format!("template {}{}, loss on {}, ", recipe.template.kind, kwargs(recipe), data.train_on);
    let _ = write!(text, "longer than {} tokens: {}, ", recipe.batch.max_seq_length, data.overlong);
    let _ = write!(text, "bad rows: {}", data.on_bad_row);
    if let Some(share) = data.validation_split {
        let _ = write!(text, ", {}% held out for validation", percent(share));
    }
    text
}

/// Variables of the template, as the manifest sets them.
fn kwargs(recipe: &Recipe) -> String {
    if recipe.template.kwargs.is_empty() {
        return String::new();
    }
    format!(" {}", serde_json::json!(recipe.template.kwargs))
}

fn batch(resolved: &Resolved) -> String {
    let (batch, machine) = (&resolved.recipe.batch, &resolved.machine);
    let rows = if batch.rows_per_step == 1 { "row" } else { "rows" };
    let packed = match (batch.packing, batch.share_prefixes) {
        (true, true) => format!("packed {rows} with shared beginnings"),
        (true, false) => format!("packed {rows}"),
        (false, _) => rows.to_owned(),
    };
    let chosen = written_batch(resolved)
        .map_or_else(String::new, |written| format!(" (chosen by the data, below batch_size {written})"));
    let grouped = if batch.group_by_length { ", rows of similar length together" } else { "" };
    let together = machine
        .distributed
        .map_or_else(String::new, |it| format!(" in each of {} processes ({})", it.processes, it.strategy));
    format!(
        "{} {packed} of {} tokens per step{chosen} = {} at a time x {}{together}{grouped}",
        batch.rows_per_step, batch.max_seq_length, machine.micro_batch, machine.accumulation
    )
}

/// The `batch_size` of the manifest, where `auto` chose fewer rows for a whole step.
fn written_batch(resolved: &Resolved) -> Option<u64> {
    let value = |key: &str| resolved.settings.iter().find(|it| it.key == key)?.value.as_ref();
    let written = value("batch_size")?.as_u64()?;
    let chosen = value("gradient_accumulation_steps")?.as_str() == Some("auto");
    (chosen && resolved.recipe.batch.rows_per_step < written).then_some(written)
}

fn precision(resolved: &Resolved) -> String {
    let machine = &resolved.machine;
    let tf32 = if resolved.recipe.precision.tf32 { ", TF32 if the device has it" } else { "" };
    let recompute = match machine.checkpointing.as_str() {
        "none" => String::new(),
        mode => format!(", {mode} activation checkpointing"),
    };
    let products = if machine.fp32_products { ", computed in fp32 (faster here)" } else { "" };
    let graphs = match machine.cuda_graphs {
        None => "",
        Some(Graphs { asked: true }) => ", CUDA graphs",
        Some(Graphs { asked: false }) => ", CUDA graphs (launches bound the step)",
    };
    format!("{} on {}{products}{tf32}{recompute}{graphs}", machine.dtype, machine.device.name)
}

/// Rounded, because 0.07 * 100.0 is 7.000000000000001.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

fn optimizer(recipe: &Recipe) -> String {
    let (optimizer, schedule) = (&recipe.optimizer, &recipe.schedule);
    // As `warmup_steps` of the worker's train/schedule.py.
    let warmup = match (schedule.kind, &schedule.warmup) {
        (ScheduleKind::OneCycle, Warmup::Steps(0) | Warmup::Ratio(0.0)) => {
            "warm-up over 30% of the steps".to_owned()
        }
        (ScheduleKind::Constant, _) | (_, Warmup::Steps(0) | Warmup::Ratio(0.0)) => "no warm-up".to_owned(),
        (_, Warmup::Steps(steps)) => format!("warm-up over {steps} steps"),
        (_, Warmup::Ratio(share)) => format!("warm-up over {}% of the steps", percent(*share)),
    };
    format!("{} at {:e}, {} schedule, {warmup}", optimizer.name, optimizer.learning_rate, schedule.kind)
}

fn steps(duration: &Duration, estimate: Option<&StepEstimate>) -> String {
    let Some(estimate) = estimate else {
        return "known once the data is tokenized".to_owned();
    };
    let tokens = estimate
        .tokens
        .map(|it| format!(", about {} tokens per epoch", short(it as f64)))
        .unwrap_or_default();
    match duration {
        Duration::Steps(steps) => format!("{} (max_steps){tokens}", count(*steps)),
        Duration::Epochs(epochs) => {
            let plural = if (*epochs - 1.0).abs() < f64::EPSILON { "epoch" } else { "epochs" };
            let steps = count(estimate.steps);
            if estimate.exact {
                format!("{steps} for {epochs} {plural}{tokens}")
            } else {
                format!("about {steps} for {epochs} {plural}{tokens}; exact once tokenized")
            }
        }
    }
}

fn duration(time: Time) -> String {
    match time {
        Time::Measured(it) => measured(&it),
        Time::Calculated(it) => calculated(&it),
        Time::OfNoCard => "unknown: a card's size does not say how fast it is; name the card (--for rtx4090)".to_owned(),
        Time::Unknown => {
            "unknown until a run with these settings was measured on this machine (train --max-steps 10 -o DIR is enough)"
                .to_owned()
        }
    }
}

fn measured(it: &Projection) -> String {
    let rows = it.measured_row_tokens.map_or_else(String::new, |tokens| {
        format!(" with rows of about {tokens:.0} tokens (this plan's are not counted yet)")
    });
    format!(
        "about {}, {} per epoch: {:.3} steps/s, {} tokens/s measured here on {}{rows}; validation, saving and scoring are not in it",
        seconds(it.seconds),
        seconds(it.seconds_per_epoch),
        it.speed.steps_per_second,
        short(it.speed.tokens_per_second),
        minute(it.speed.measured_at),
    )
}

fn calculated(it: &Expectation) -> String {
    let (speed, source) =
        (&it.speed, if it.speed.corrected_by.is_some() { ", corrected by a run on it" } else { "" });
    format!(
        "about {} to {}: {} to {} tokens/s, calculated for this card{source}, not measured; limited by {}",
        seconds(it.shortest_seconds),
        seconds(it.longest_seconds),
        short(speed.slow),
        short(speed.fast),
        speed.bound.words(),
    )
}

/// Where answers go, and with which secret.
fn judged(model: &str, judge: Option<&JudgeEndpoint>) -> String {
    let Some(judge) = judge else { return format!("the judge {model}") };
    let key = judge.key_variable.as_ref().map(|name| format!(" with the key in {name}"));
    format!("the judge {model} at {}{}", judge.url, key.unwrap_or_default())
}

fn evaluation(recipe: &Recipe, judge: Option<&JudgeEndpoint>) -> String {
    let evaluation = &recipe.evaluation;
    let when = match (evaluation.strategy, evaluation.steps) {
        (Strategy::No, _) => "none during training".to_owned(),
        (Strategy::Epoch, _) => "every epoch".to_owned(),
        (Strategy::Steps, steps) => format!("every {} steps", count(steps.unwrap_or_default())),
    };
    let best = evaluation.best.as_ref().map(|best| {
        let way = if best.greater_is_better { "highest" } else { "lowest" };
        format!("; the {way} {} is final", best.metric)
    });
    let scorer = match &evaluation.scorer_settings {
        Some(ScorerSettings::Python { file, function }) => Some(format!("{file}:{function}")),
        Some(ScorerSettings::Judge { model, .. }) => Some(judged(model, judge)),
        _ => evaluation.scorer.clone().or_else(|| {
            let scores = !recipe.data.test.is_empty() || !evaluation.test_cases.is_empty();
            scores.then(|| "exact (no scorer is named)".to_owned())
        }),
    };
    let scorer = scorer.map(|scorer| format!("; answers scored by {scorer}"));
    let grammar = &recipe.decoding.grammar;
    let grammar = grammar.as_ref().map(|grammar| format!("; answers constrained by {}", grammar.name));
    format!("{when}{}{}{}", best.unwrap_or_default(), scorer.unwrap_or_default(), grammar.unwrap_or_default())
}

fn saving(resolved: &Resolved) -> String {
    let saving = &resolved.recipe.saving;
    let when = match (saving.strategy, saving.steps) {
        (Strategy::No, _) => "at the end only".to_owned(),
        (Strategy::Epoch, _) => "every epoch".to_owned(),
        (Strategy::Steps, steps) => format!("every {} steps", count(steps.unwrap_or_default())),
    };
    match resolved.machine.save_total_limit {
        Some(limit) => format!("{when}, {limit} kept, the best and the newest always"),
        None => format!("{when}, all kept"),
    }
}

fn memory(page: &mut Page, resolved: &Resolved) {
    let machine = &resolved.machine;
    if resolved.base.shape.is_none() {
        page.title("Memory: not estimated, the base's dimensions are not known here");
        return;
    }
    let device = machine.device.memory_bytes.map(|size| format!(" of {}", bytes(size))).unwrap_or_default();
    let total = machine.estimate.total;
    page.title(&format!("Memory: {STRONG}{}{STRONG:#}{device} on {}", bytes(total), machine.device.name));
    for (label, size) in parts(&machine.estimate).into_iter().filter(|(_, size)| *size > 0) {
        page.row(label, &bytes(size));
    }
    if let Some(largest) = resolved.largest_micro_batch.filter(|largest| *largest > machine.micro_batch) {
        let least = if largest == machine.micro_batch * MOST_ROOM { "at least " } else { "" };
        page.row("room", &format!("{least}{largest} rows at a time would fit"));
    }
}

fn parts(estimate: &MemoryEstimate) -> [(&'static str, u64); 8] {
    [
        ("process", estimate.process),
        ("weights", estimate.weights),
        ("adapter", estimate.adapter),
        ("gradients", estimate.gradients),
        ("optimizer", estimate.optimizer),
        ("activations", estimate.activations),
        ("logits", estimate.logits),
        ("context", estimate.context),
    ]
}

/// Names without quotes, and lists of them as words, which may be broken over lines.
fn worded(value: &Value) -> String {
    if value.as_array().is_some_and(Vec::is_empty) {
        return "none".to_owned();
    }
    let name = |value: &Value| value.as_str().map(str::to_owned);
    let names = |values: &Vec<Value>| values.iter().map(name).collect::<Option<Vec<_>>>();
    name(value)
        .or_else(|| Some(value.as_array().and_then(names)?.join(" ")))
        .unwrap_or_else(|| value.to_string())
}

fn settings(page: &mut Page, resolved: &Resolved, all: bool) {
    let shown: Vec<_> =
        resolved.settings.iter().filter(|setting| all || setting.origin != Origin::Default).collect();
    page.title(if all {
        "All settings, and their source"
    } else {
        "Settings that the manifest or the command line gives (--all lists the defaults too)"
    });
    let longest = |of: fn(&&Shown) -> usize| shown.iter().map(of).max().unwrap_or(0) + 2;
    let (keys, origins) = (longest(|it| it.key.len()), longest(|it| it.origin.as_str().len()));
    for setting in shown {
        let Some(value) = &setting.value else { continue };
        let value = worded(value);
        let value = wrapped(&value, 2 + keys + origins, page.columns);
        let (key, origin) = (&setting.key, setting.origin.as_str());
        let _ = writeln!(page.text, "  {DIM}{key:<keys$}{origin:<origins$}{DIM:#}{value}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_is_never_shown_as_nothing() {
        for (value, shown) in
            [(json!([]), "none"), (json!(["wandb", "tensorboard"]), "wandb tensorboard"), (json!(4), "4")]
        {
            assert_eq!(worded(&value), shown);
        }
    }
}
