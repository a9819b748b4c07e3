//! Runs on disk: the folders of trainings, in an expert's `weights/` or given with `-o`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expert_contract::manifest::{may_mean, model_slug};
use expert_contract::results::{PlanRecord, RunRecord, Score, ScoredWith, TrainResult};
use expert_contract::shell::quoted;
use serde::Serialize;

use super::answers;
use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::next;
use crate::run::{
    checkpoint_step, events_are_readable, is_search, names, read_evaluation, read_plan, recorded,
};
use crate::sys::files::{children, read_json};
use crate::sys::lease;
use crate::sys::paths::{as_text, file_name, near};
use crate::sys::run_lock::{holder, is_left_in};

/// In the order in which an unfinished run is chosen: the run furthest along comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Running,
    Finished,
    /// Interrupted or failed, with checkpoints to resume from.
    Resumable,
    /// Ended before its first checkpoint.
    Ended,
    /// Failed before its first checkpoint: the worker recorded why.
    Failed,
    /// The worker recorded nothing.
    NotStarted,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Resumable => "resumable",
            Self::Ended => "ended early",
            Self::Failed => "failed",
            Self::NotStarted => "not started",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Run {
    pub expert: String,
    /// The expert's, for a run in its `weights/`: two experts may have one name.
    #[serde(skip)]
    pub expert_folder: Option<PathBuf>,
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    pub state: State,
    /// Whether `final/` has its adapter; that of the training before, where one that was extended is not finished.
    #[serde(skip)]
    pub is_trained: bool,
    /// Why the newest attempt failed.
    pub failure: Option<String>,
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    /// Of the newest step.
    pub last_loss: Option<f64>,
    /// Of all steps, once the run is finished.
    pub mean_loss: Option<f64>,
    pub eval_loss: Option<f64>,
    /// Accuracy, or mean score, of base and adapter on the test set.
    pub base_accuracy: Option<f64>,
    pub accuracy: Option<f64>,
    /// The same on further test sets, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub test_sets: BTreeMap<String, SetAccuracy>,
    /// Scores of different scorers are not compared.
    pub scored_by: Option<String>,
    /// Nor are those with other settings or of other test rows. Absent where the score is not ranked.
    #[serde(skip)]
    pub scored_with: Option<ScoredWith>,
    /// What was scored, where it is not the run's own adapter on the manifest's rows: these scores are not ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores_of: Option<String>,
    pub tokens_per_second: Option<f64>,
    pub seconds: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    /// Seconds since the epoch of the last event.
    pub told_at: Option<f64>,
    pub recipe_digest: Option<String>,
    /// Records that are there and of which nothing can be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<&'static str>,
}

impl Run {
    /// The expert's name, with its folder where another expert of these has the same name.
    pub fn expert_among(&self, runs: &[Self]) -> String {
        let is_shared = runs.iter().any(|run| run.expert == self.expert && !run.is_of_expert_of(self));
        match &self.expert_folder {
            Some(folder) if is_shared => format!("{} in {}", self.expert, near(folder)),
            _ => self.expert.clone(),
        }
    }

    /// The command that trains it as before, with what follows. The base is named where the expert has runs of several, or
    /// the manifest alone does not say it.
    pub fn training(&self, more: &str) -> String {
        let kept = next::kept(&self.path);
        let more =
            if kept.is_empty() { more.to_owned() } else { format!(" {}{more}", next::in_shell(&kept)) };
        let Some(home) = home(&self.path) else {
            let expert =
                answers::planned_words(&self.path).map_or_else(String::new, |words| format!(" {words}"));
            return format!("expert-cli train{expert} -o {}{more}", quoted(&near(&self.path)));
        };
        let plan = read_plan(&self.path);
        let home = if home.as_os_str().is_empty() { Path::new(".") } else { home };
        let is_named =
            |base: &&str| of_expert(home).len() > 1 || answers::is_named(&home.join(MANIFEST), base);
        let base = plan.base_name().filter(is_named);
        let base = base.map_or_else(String::new, |base| format!(" --model {}", quoted(base)));
        format!("expert-cli train {}{base}{more}", quoted(&near(home)))
    }

    pub fn is_of_expert_of(&self, other: &Self) -> bool {
        let folders = self.expert_folder.as_ref().zip(other.expert_folder.as_ref());
        self.expert == other.expert && folders.is_none_or(|(one, other)| one == other)
    }
}

/// Accuracy, or mean score, of base and adapter on a further test set.
#[derive(Debug, Default, Serialize)]
pub struct SetAccuracy {
    pub base_accuracy: Option<f64>,
    pub accuracy: Option<f64>,
}

/// The names of the runs' further test sets.
pub fn test_sets(runs: &[Run]) -> BTreeSet<&str> {
    runs.iter().flat_map(|run| run.test_sets.keys()).map(String::as_str).collect()
}

/// The runs of `folder`: itself, those directly in it, and those of the experts in it; by path.
pub fn below(folder: &Path) -> Result<Vec<Run>, Failure> {
    if is_run(folder) {
        return Ok(vec![look(folder)]);
    }
    let experts = experts::below(folder)?;
    let of_experts = experts.iter().filter_map(|manifest| manifest.parent()).flat_map(of_expert);
    let mut runs: Vec<Run> = of_experts.chain(directly_in(folder)).collect();
    runs.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(runs)
}

/// The runs of the expert in this folder, by path.
pub fn of_expert(folder: &Path) -> Vec<Run> {
    directly_in(&folder.join("weights"))
}

/// Those on the base that `--model` names; where several may be meant, those that have exactly this name.
pub fn on_base(runs: Vec<Run>, model: &str) -> Vec<Run> {
    let names = |run: &Run| {
        let base = read_plan(&run.path).base_name().map(str::to_owned);
        base.into_iter().chain([file_name(&run.path)]).collect::<Vec<_>>()
    };
    let wanted = model_slug(model);
    let is_exact = |run: &Run| names(run).iter().any(|name| model_slug(name) == wanted);
    let (exact, others): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_exact);
    if exact.is_empty() {
        return others
            .into_iter()
            .filter(|run| names(run).iter().any(|name| may_mean(model, name)))
            .collect();
    }
    exact
}

/// What a command that needs one finished run of an expert finds.
pub enum Choice {
    One(Box<Run>),
    /// More than one is finished.
    Several(Vec<Run>),
    /// None is finished; the one furthest along is first. Empty without any run.
    Unfinished(Vec<Run>),
}

pub fn choose(runs: Vec<Run>) -> Choice {
    let (mut finished, mut others): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.is_trained);
    match (finished.pop(), finished.is_empty()) {
        (None, _) => {
            others.sort_by_key(|run| run.state);
            Choice::Unfinished(others)
        }
        (Some(one), true) => Choice::One(Box::new(one)),
        (Some(last), false) => {
            finished.push(last);
            Choice::Several(finished)
        }
    }
}

fn directly_in(folder: &Path) -> Vec<Run> {
    let mut paths: Vec<PathBuf> = children(folder).into_iter().filter(|path| is_run(path)).collect();
    paths.sort();
    paths.iter().map(|path| look(path)).collect()
}

/// Also one without a record: a node that shares only a store with this machine sends its records at the end, and the
/// command that waits for it holds the folder.
pub fn is_run(path: &Path) -> bool {
    let has_record = [names::PLAN, names::EVENTS, names::RECORD].iter().any(|name| path.join(name).is_file());
    // A write of `expert.lock` holds the expert's folder for a moment.
    has_record || (!is_search(path) && is_left_in(path) && holder(path).is_some())
}

pub fn look(path: &Path) -> Run {
    let record: Option<RunRecord> = read_json(&path.join(names::RECORD));
    let plan: Option<PlanRecord> = read_json(&path.join(names::PLAN));
    let has_plan = plan.is_some();
    let plan = plan.unwrap_or_default();
    let last = last_words(path);
    let is_recorded = record.is_some();
    let record = record.unwrap_or_default();
    let result: TrainResult =
        record.result.and_then(|it| serde_json::from_value(it).ok()).unwrap_or_default();
    let is_extended = result.steps.is_some_and(|steps| last.step > Some(steps));
    let state = match state(path, is_recorded, is_extended) {
        State::Ended if last.failure.is_some() => State::Failed,
        State::Ended if last.time.is_none() => State::NotStarted,
        state => state,
    };
    let scores = read_evaluation(path);
    let is_unreadable = |(name, is_read): &(&str, bool)| !is_read && path.join(name).exists();
    let records = [
        (names::PLAN, has_plan),
        (names::EVENTS, events_are_readable(path)),
        (names::RECORD, is_recorded),
        (names::SCORES, scores.is_some()),
    ];
    let unreadable = records.into_iter().filter(is_unreadable).map(|(name, _)| name).collect();
    // The figures of the training before are not those of the step that it has reached.
    let result = if is_extended && state != State::Finished { TrainResult::default() } else { result };
    let scores = scores.unwrap_or_default();
    let (scored_by, scores_of) = (scores.scored_by(), scores.scores_of());
    let is_ranked = scores.main.adapter.is_some() && scores_of.is_none();
    let scored_with = is_ranked.then(|| scores.scored_with());
    let accuracy = |score: Option<Score>| score.and_then(|it| it.share.accuracy);
    let sets = scores.test_sets.into_iter().map(|(name, scores)| {
        (name, SetAccuracy { base_accuracy: accuracy(scores.base), accuracy: accuracy(scores.adapter) })
    });
    Run {
        expert_folder: home(path).map(real),
        expert: plan.expert().map_or_else(|| owner(path), str::to_owned),
        path: path.to_owned(),
        state,
        is_trained: is_recorded && state != State::Running,
        failure: last.failure,
        steps: result.steps.or(last.step),
        tokens: result.tokens,
        // A record that ends before the run does has the loss of another step.
        last_loss: last.loss.filter(|_| result.steps.is_none_or(|steps| last.step >= Some(steps))),
        mean_loss: result.train_loss,
        eval_loss: result.eval_loss,
        scored_by,
        scored_with,
        scores_of,
        base_accuracy: accuracy(scores.main.base),
        accuracy: accuracy(scores.main.adapter),
        test_sets: sets.collect(),
        tokens_per_second: result.tokens_per_second,
        seconds: result.seconds,
        peak_memory_bytes: result.peak_memory_bytes,
        told_at: last.time,
        recipe_digest: record.recipe_digest.or(plan.recipe_digest),
        unreadable,
    }
}

/// The folder of the expert whose `weights/` has the run.
fn home(path: &Path) -> Option<&Path> {
    path.parent().filter(|it| it.ends_with("weights")).and_then(Path::parent)
}

fn real(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// An expert's name where no plan has it.
fn owner(path: &Path) -> String {
    let home = home(path).unwrap_or(path);
    home.file_name().unwrap_or(home.as_os_str()).to_string_lossy().into_owned()
}

fn state(path: &Path, is_recorded: bool, is_extended: bool) -> State {
    let has_checkpoint = || children(path).iter().any(|child| checkpoint_step(child).is_some());
    if holder(path).or_else(|| lease::holder(path)).is_some() {
        State::Running
    } else if is_recorded && !(is_extended && has_checkpoint()) {
        State::Finished
    } else if has_checkpoint() {
        State::Resumable
    } else {
        State::Ended
    }
}

#[derive(Default)]
struct LastWords {
    step: Option<u64>,
    loss: Option<f64>,
    time: Option<f64>,
    failure: Option<String>,
}

/// The newest recorded step with its loss, the time of the last event, and why the newest attempt failed.
fn last_words(path: &Path) -> LastWords {
    let mut last = LastWords::default();
    for event in recorded(path) {
        last.time = event.time.or(last.time);
        if event.is_start() {
            last.failure = None;
        }
        if let Some(reason) = event.failure() {
            last.failure = Some(reason.to_owned());
        }
        if event.is_step() {
            last.step = event.body.step;
            last.loss = event.body.loss;
        } else if event.is_recovery() {
            // A step that was left out has no loss.
            last.step = last.step.max(event.body.step);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::files::write_text;

    #[test]
    fn a_run_without_a_checkpoint_failed_ended_or_never_started() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        write_text(run, "plan.json", "{}");
        assert_eq!(look(run).state, State::NotStarted);
        let mut events = String::new();
        let mut after = |body: &str| {
            events += &format!(r#"{{"time": 1.0, "attempt": 1, "body": {body}}}{}"#, '\n');
            write_text(run, "events.jsonl", &events);
            let found = look(run);
            (found.state, found.failure)
        };
        assert_eq!(after(r#"{"type": "started"}"#), (State::Ended, None));
        let failed = |exit: u8| format!(r#"{{"type": "failed", "exit": {exit}, "message": "no room"}}"#);
        assert_eq!(after(&failed(1)), (State::Failed, Some("no room".to_owned())));
        assert_eq!(after(r#"{"type": "started"}"#), (State::Ended, None));
        assert_eq!(after(&failed(130)), (State::Ended, None));
    }

    #[test]
    fn the_loss_of_an_earlier_step_is_not_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let event = r#"{"time": 1.0, "attempt": 1, "body": {"type": "progress", "step": 41, "loss": 5.0}}"#
            .to_owned()
            + "\n";
        write_text(run, "events.jsonl", &event);
        assert_eq!(look(run).last_loss, Some(5.0));
        let left_out = r#"{"time": 2.0, "body": {"type": "recovered", "kind": "non_finite", "step": 42}}"#;
        write_text(run, "events.jsonl", &format!("{event}{left_out}\n"));
        for (steps, last_loss) in [(41, Some(5.0)), (42, Some(5.0)), (600, None)] {
            write_text(run, "run.json", &format!(r#"{{"result": {{"steps": {steps}}}}}"#));
            let found = look(run);
            assert_eq!((found.steps, found.last_loss), (Some(steps), last_loss));
        }
    }

    #[test]
    fn a_finished_run_that_was_extended_and_interrupted_is_resumable_and_trained() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("weights");
        let step = |step: u64| {
            format!(r#"{{"time": 1.0, "body": {{"type": "progress", "step": {step}, "loss": 2.0}}}}"#) + "\n"
        };
        write_text(&runs, "a/run.json", r#"{"result": {"steps": 600, "tokens": 9, "train_loss": 3.0}}"#);
        write_text(&runs, "a/checkpoint-600/state.json", "{}");
        write_text(&runs, "a/events.jsonl", &step(600));
        let run = look(&runs.join("a"));
        assert_eq!((run.state, run.steps, run.tokens), (State::Finished, Some(600), Some(9)));
        write_text(&runs, "a/events.jsonl", &(step(600) + &step(900)));
        let run = look(&runs.join("a"));
        assert_eq!((run.state, run.steps, run.last_loss), (State::Resumable, Some(900), Some(2.0)));
        assert_eq!((run.tokens, run.mean_loss), (None, None));
        assert!(matches!(choose(vec![run]), Choice::One(_)));
    }

    #[cfg(unix)]
    #[test]
    fn an_expert_whose_lock_is_written_is_not_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let _alone = crate::sys::run_lock::alone_in(folder.path()).unwrap();
        assert!(!is_run(folder.path()));
    }

    #[test]
    fn of_unfinished_runs_the_one_furthest_along_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("weights");
        let names = |runs: &[Run]| -> Vec<String> {
            runs.iter().map(|run| run.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let unfinished = || match choose(of_expert(folder.path())) {
            Choice::Unfinished(runs) => names(&runs),
            Choice::One(_) | Choice::Several(_) => panic!("none is finished"),
        };
        assert!(unfinished().is_empty());
        for name in ["a", "b", "c"] {
            write_text(&runs, &format!("{name}/plan.json"), "{}");
        }
        assert_eq!(unfinished(), ["a", "b", "c"]);
        write_text(&runs, "b/checkpoint-3/state.json", "{}");
        assert_eq!(unfinished(), ["b", "a", "c"]);
        write_text(&runs, "c/run.json", "{}");
        let Choice::One(run) = choose(of_expert(folder.path())) else { panic!("one is finished") };
        assert_eq!(names(&[*run]), ["c"]);
        write_text(&runs, "a/run.json", "{}");
        let Choice::Several(several) = choose(of_expert(folder.path())) else { panic!("two are finished") };
        assert_eq!(names(&several), ["a", "c"]);
    }
}
