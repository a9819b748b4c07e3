//! Where to read about a run, and the command that a person most likely wants next, as it can be typed.

use std::path::{Component, Path, PathBuf};

use clap::{Parser, ValueEnum as _};
use expert_contract::manifest::{PRESET, Set};
use expert_contract::resolve::Resolved;
use expert_contract::results::EvaluationResult;
use expert_contract::shell::quoted;

use crate::args::{DeviceChoice, PlanOptions, TrainOptions};
use crate::failure::Failure;
use crate::lock::Scoring;
use crate::run::adapter::NO_ADAPTER;
use crate::run::names::REPORT;
use crate::run::{adapter, read_evaluation, read_plan};
use crate::runs::{self, State};
use crate::sys::digests::Digests;
use crate::sys::host;
use crate::sys::paths::{absolute, near, portable};
use crate::train::has_test_set;
use crate::ui::Console;

/// The last lines of a command: the run's report, if there is one, and what follows.
pub fn lead_on(run: &Path, next: &str, console: &Console) {
    let report = run.join(REPORT);
    if report.is_file() {
        console.say(&format!("report: {}", near(&report)));
    }
    console.say(&format!("next: {next}"));
}

/// Of train, evaluate and generate in this order, what the run still lacks by its manifest; `after` all, a last one.
pub fn missing(resolved: &Resolved, options: &PlanOptions, after: &str) -> String {
    let Resolved { recipe, machine, test_sets, .. } = resolved;
    let paths = &machine.paths;
    let is_own = |it: &EvaluationResult| it.other_rows.is_none() && it.other_adapter.is_none();
    let scored = || {
        let now = Scoring::here(recipe, paths, test_sets, &Digests::open(&host::home()));
        read_evaluation(Path::new(&paths.output)).is_some_and(|it| is_own(&it) && now.is_of_adapter(&it))
    };
    if adapter::of_run(paths).is_none() {
        train(Path::new(&paths.output), options)
    } else if has_test_set(recipe) && !adapter::is_installed(paths) && !scored() {
        command("evaluate", options, "")
    } else {
        after.to_owned()
    }
}

/// The command that trains the run, from its last checkpoint where the training was interrupted.
pub fn train(run: &Path, options: &PlanOptions) -> String {
    train_from(runs::look(run).state, run, options)
}

fn train_from(state: State, run: &Path, options: &PlanOptions) -> String {
    match state {
        State::Running => format!("expert-cli runs {}", quoted(&near(run))),
        // What it was started with, where none of the settings that decide the result is typed now.
        State::Resumable if of_result(options).is_empty() => {
            command("train", options, format!("{} --resume", in_shell(&kept(run))).trim_start())
        }
        State::Resumable => command("train", options, "--resume"),
        _ => command("train", options, ""),
    }
}

/// Why a run has no adapter yet.
pub fn untrained(run: &Path) -> String {
    untrained_in(runs::look(run).state, run)
}

fn untrained_in(state: State, run: &Path) -> String {
    let place = near(run);
    match state {
        State::Running => format!("{place} is being trained, and has no adapter yet"),
        State::Resumable => {
            format!("the training in {place} was interrupted: it has checkpoints, and no adapter yet")
        }
        _ => format!("there is no trained adapter in {place}"),
    }
}

/// A command needs the adapter of the run, and there is none; `otherwise` is what else can be named.
pub fn refuse_untrained(run: &Path, options: &PlanOptions, otherwise: &str) -> Failure {
    // To look at a run reads its events.
    let state = runs::look(run).state;
    let first = match state {
        State::Running => "wait until it is finished",
        State::Resumable => "finish it",
        _ => "train first",
    };
    Failure::bad_input(NO_ADAPTER, untrained_in(state, run))
        .hint(format!("{first}: {}; or {otherwise}", train_from(state, run, options)))
}

/// A first question to the adapter of the run, or to the named one.
pub fn ask(options: &PlanOptions, adapter: Option<&Path>) -> String {
    let named = adapter.map_or_else(String::new, |path| format!("--adapter {} ", quoted(&portable(path))));
    command("generate", options, &format!("{named}--prompt '...'"))
}

/// The command that takes settings as `--set` alone.
const RECOMMEND: &str = "recommend";

/// `expert-cli VERB EXPERT`, with the base, the output and the settings that the last command was given.
pub fn command(verb: &str, options: &PlanOptions, more: &str) -> String {
    let mut words = vec!["expert-cli".to_owned(), verb.to_owned()];
    let named = options.manifest.as_ref().or(options.expert.as_ref());
    words.extend(named.map(|path| quoted(&portable(path))));
    // It looks at every base, and makes nothing.
    if verb != RECOMMEND {
        words.extend(options.model.iter().flat_map(|model| ["--model".to_owned(), quoted(model)]));
        words.extend(options.output.iter().flat_map(|path| ["-o".to_owned(), quoted(&portable(path))]));
    }
    words.extend(settings(verb, options).concat().iter().map(|word| quoted(word)));
    words.extend((!more.is_empty()).then(|| more.to_owned()));
    words.join(" ")
}

const DATA: &str = "--data";

/// Each option with its value.
fn settings(verb: &str, options: &PlanOptions) -> Vec<Vec<String>> {
    let data = match verb {
        "train" | "plan" | "pretokenize" => &options.data,
        "evaluate" => &options.test,
        _ => &None,
    };
    let paths = data.iter().map(|path| (DATA, path));
    let paths = paths.chain(options.allow_path.iter().map(|path| ("--allow-path", path)));
    let paths = paths.map(|(option, path)| given(option, portable(path)));
    let sets = if verb == RECOMMEND { options.sets() } else { options.set.clone() };
    let mut changes: Vec<Vec<String>> = sets.iter().filter_map(|set| change(verb, set)).collect();
    // A preset is many settings.
    changes.dedup();
    let device = options.device.to_possible_value().filter(|_| options.device != DeviceChoice::Auto);
    let precision = options.mixed_precision.filter(|_| verb != RECOMMEND);
    let precision = precision.and_then(|it| it.to_possible_value());
    let named = [("--device", device), ("--mixed-precision", precision)];
    let named = named.into_iter().filter_map(|(option, value)| Some(given(option, value?.get_name())));
    let memory = options.max_memory.filter(|_| ["train", "plan", RECOMMEND].contains(&verb));
    let memory = memory.map(|bytes| given("--max-memory", size(bytes)));
    let card = options.card.iter().filter(|_| ["plan", RECOMMEND].contains(&verb));
    let card = card.map(|card| given("--for", card.typed()));
    paths.chain(changes).chain(named).chain(card).chain(memory).collect()
}

fn given(option: &str, value: impl Into<String>) -> Vec<String> {
    vec![option.to_owned(), value.into()]
}

/// As it was typed: in whole GB or GiB.
fn size(bytes: u64) -> String {
    let (unit, name) = if bytes.is_multiple_of(1 << 30) { (1 << 30, "GiB") } else { (1_000_000_000, "GB") };
    format!("{}{name}", bytes / unit)
}

/// The settings of a training that decide its result, for its plan to keep: options of the machine may be others in the next
/// attempt, and `--allow-path` is for each command to allow.
pub fn of_result(options: &PlanOptions) -> Vec<Vec<String>> {
    let alone = PlanOptions {
        device: DeviceChoice::Auto,
        allow_path: Vec::new(),
        max_memory: None,
        data: options.data.as_deref().map(from_anywhere),
        ..options.clone()
    };
    settings("train", &alone)
}

/// A file or pattern of this machine as it is named in any folder; a data set of the Hub has no place here.
fn from_anywhere(path: &Path) -> PathBuf {
    let whole = PathBuf::from(absolute(path));
    if path.to_string_lossy().contains("::") || !whole.parent().is_some_and(Path::is_dir) {
        return path.to_owned();
    }
    let mut place = PathBuf::new();
    for part in whole.components() {
        if part == Component::ParentDir {
            place.pop();
        } else {
            place.push(part);
        }
    }
    place
}

/// The settings that the run's plan has kept. None where the plan is of another folder, so that a run from elsewhere proposes
/// nothing, and where they are not settings of `train`.
pub fn kept(run: &Path) -> Vec<Vec<String>> {
    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        options: TrainOptions,
    }
    let plan = read_plan(run);
    let is_own = plan.output().is_some_and(|output| Path::new(output) == Path::new(&absolute(run)));
    let words: Vec<String> =
        plan.typed.and_then(|words| serde_json::from_value(words).ok()).unwrap_or_default();
    if !is_own || words.iter().any(|word| word.chars().any(char::is_control)) {
        return Vec::new();
    }
    let parsed = Typed::try_parse_from(std::iter::once("train".to_owned()).chain(words));
    parsed.map(|typed| of_result(&typed.options.plan())).unwrap_or_default()
}

/// As they are typed in this folder.
pub fn in_shell(settings: &[Vec<String>]) -> String {
    let here = |setting: &Vec<String>| match &setting[..] {
        [option, path] if option == DATA => format!("{DATA} {}", quoted(&near(Path::new(path)))),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    settings.iter().map(here).collect::<Vec<_>>().join(" ")
}

/// Of `training.config`, what decides prepared rows.
const OF_ROWS: [&str; 4] = ["max_seq_length", "packing", "seed", "share_prefixes"];

/// What an answer to a prompt does not depend on.
const NOT_OF_ANSWERS: [&str; 11] = [
    "training.config.rank",
    "training.config.learning_rate",
    "training.config.epochs",
    "training.config.max_steps",
    "training.config.batch_size",
    "training.config.gradient_accumulation_steps",
    "training.dataset.path",
    "training.dataset.validation_path",
    "training.dataset.test_path",
    "evaluation.test_set_size",
    "evaluation.test_sets",
];

/// As the command takes it. Shorthands and presets are options of those that train: of them `pretokenize` reads what
/// decides rows, and the others nothing.
fn change(verb: &str, set: &Set) -> Option<Vec<String>> {
    let as_set = || given("--set", format!("{}={}", set.path, set.value));
    let decides_rows = || OF_ROWS.iter().any(|key| set.path == format!("training.config.{key}"));
    match verb {
        "generate" if NOT_OF_ANSWERS.contains(&set.path.as_str()) => None,
        _ if set.option == "--set" => Some(as_set()),
        "train" | "plan" if set.option.starts_with(PRESET) => {
            Some(set.option.split(' ').map(str::to_owned).collect())
        }
        "train" | "plan" => Some(given(&set.option, set.value.as_str())),
        "pretokenize" => decides_rows().then(as_set),
        RECOMMEND => Some(as_set()),
        _ => None,
    }
}

/// What the next command does with the runs that this one left.
#[derive(Clone, Copy)]
pub enum Again<'a> {
    /// Continues them, as a command that was typed without `--resume` does by itself.
    Continue,
    /// Continues the one that there is.
    Resume,
    /// As it was typed: `--fresh`, or `--resume` with a place, began nothing, and the folder holds the run before.
    AsTyped,
    /// Starts over with these experts of a folder.
    FreshOnly(&'a [&'a str]),
    /// The folders of these of the experts that were to train fused: one that is left trains alone.
    OfGroup { experts: &'a [String], fresh: bool },
}

/// This command as it was typed, with every setting: a second one trains the same.
pub fn again(how: Again) -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    continued(words, how)
}

/// A run that `--fresh` began would start over with it, and `--resume` with a checkpoint would go back to that.
fn continued(words: impl Iterator<Item = String>, how: Again) -> String {
    let mut kept = vec!["expert-cli".to_owned()];
    let other_experts = matches!(how, Again::FreshOnly(_));
    let other_group = matches!(how, Again::OfGroup { .. });
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if matches!(how, Again::AsTyped) {
            kept.push(quoted(&word));
        } else if word == "--resume" {
            words.next_if(|value| !value.starts_with('-'));
        } else if word == "--only" && other_experts || word == "--fuse" && other_group {
            words.next();
        } else if !(word.starts_with("--resume=")
            || word.starts_with("--only=") && other_experts
            || word.starts_with("--fuse=") && other_group
            || word == "--fresh" && !other_experts)
        {
            kept.push(quoted(&word));
        }
    }
    match how {
        Again::Resume => kept.push("--resume".to_owned()),
        Again::FreshOnly(experts) => kept.extend(["--only".to_owned(), quoted(&experts.join(","))]),
        Again::OfGroup { experts, fresh } => {
            kept.extend((experts.len() > 1).then(|| "--fuse".to_owned()));
            kept.push(quoted(&experts.join(",")));
            kept.push(if fresh { "--fresh" } else { "--resume" }.to_owned());
        }
        Again::Continue | Again::AsTyped => {}
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Again, continued};

    #[test]
    fn a_command_is_repeated_with_its_settings_and_without_what_would_start_elsewhere() {
        let again = |line: &str, how| continued(line.split(' ').map(str::to_owned), how);
        let settings = "--max-steps 9 --set training.config.seed=7";
        assert_eq!(
            again(&format!("train --fresh a {settings}"), Again::Resume),
            format!("expert-cli train a {settings} --resume")
        );
        for resume in ["--resume", "--resume weights/checkpoint-5", "--resume=weights/checkpoint-5"] {
            assert_eq!(
                again(&format!("train -m a/manifest.json {resume} --device cpu"), Again::Resume),
                "expert-cli train -m a/manifest.json --device cpu --resume"
            );
        }
        assert_eq!(
            again(&format!("train --all {settings}"), Again::Continue),
            format!("expert-cli train --all {settings}")
        );
    }

    #[test]
    fn what_fresh_or_a_place_to_resume_from_has_not_begun_is_repeated_with_it() {
        let again = |line: &str, how| continued(line.split(' ').map(str::to_owned), how);
        assert_eq!(
            again("train a --resume mirror -o out", Again::AsTyped),
            "expert-cli train a --resume mirror -o out"
        );
        assert_eq!(
            again("train a --fresh --epochs 2", Again::AsTyped),
            "expert-cli train a --fresh --epochs 2"
        );
        for only in ["--only a,b,c --fresh", "--only=a,b,c --fresh", "--fresh"] {
            let line = format!("train --all {only} --jobs 2");
            assert_eq!(
                again(&line, Again::FreshOnly(&["b", "c"])),
                "expert-cli train --all --fresh --jobs 2 --only b,c"
            );
            let rest = line.replace(" --fresh", "");
            assert_eq!(again(&line, Again::Continue), format!("expert-cli {rest}"));
        }
        let (two, one) = (["a", "c"].map(str::to_owned), ["b"].map(str::to_owned));
        for fuse in ["--fuse a,b,c", "--fuse=a,b,c"] {
            let of_group = |experts, fresh| {
                again(&format!("train {fuse} --fresh -q"), Again::OfGroup { experts, fresh })
            };
            assert_eq!(of_group(&two, true), "expert-cli train -q --fuse a,c --fresh");
            assert_eq!(of_group(&one, false), "expert-cli train -q b --resume");
        }
    }
}
