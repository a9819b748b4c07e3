//! What may be done with the run that a folder holds: decided from what is on record, before anything is written.

use std::path::{Path, PathBuf};

use expert_contract::adapters;
use expert_contract::paths::is_under;
use expert_contract::plan::{self, Duration, Inputs, Paths};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::lock::{self, Difference, Kind};
use crate::next;
use crate::run::{self, Arithmetic, Begun, Finished, State};
use crate::runs::compare;

const DURATION: &str = "schedule.duration";

/// What the command line asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    pub fresh: bool,
    pub resume: bool,
    /// The checkpoint that `--resume` names.
    pub checkpoint: Option<&'a Path>,
    pub extend: bool,
    /// `--all`: what changed is retrained.
    pub shelf: bool,
}

#[derive(Debug, PartialEq)]
pub enum Decision {
    /// This very run is finished and whole, maybe by another version. The remark is for the user.
    Done { result: Value, remark: Option<String> },
    /// Nothing is there yet.
    Begin,
    /// The run is resumed with the inputs that it started with. The remark is for the user.
    Resume { arithmetic: Arithmetic, remark: Option<String> },
    /// The run that is there is set aside, and another one begun. The reason is for the user.
    Replace { reason: Option<String> },
}

/// The inputs that a run would start with now.
pub struct Now<'a> {
    pub recipe: &'a plan::Recipe,
    pub paths: &'a Paths,
    pub inputs: &'a Inputs,
    /// Settings of the command line.
    pub typed: &'a [String],
}

impl Now<'_> {
    /// What the run was trained with last, where some of it is not typed now.
    fn other_settings(&self, run: &Path) -> Option<String> {
        let kept = next::kept(run);
        let is_typed =
            |setting: &Vec<String>| self.typed.windows(setting.len()).any(|words| words == setting);
        (!kept.iter().all(is_typed)).then(|| next::in_shell(&kept))
    }
}

pub fn decide(run: &Path, now: &Now, asked: Asked) -> Result<Decision, Failure> {
    refuse_initial_adapter(run, now.paths)?;
    run::refuse_foreign(run)?;
    if asked.fresh {
        return Ok(Decision::Replace { reason: None });
    }
    match run::state(run, now.recipe) {
        // A checkpoint of elsewhere, such as a mirror's, continues its run here.
        State::Unused if asked.checkpoint.is_some() => used(run, now, asked),
        State::Unused => Ok(Decision::Begin),
        State::Finished(record) => finished(run, now, asked, &record),
        State::Used => used(run, now, asked),
    }
}

fn finished(run: &Path, now: &Now, asked: Asked, record: &Finished) -> Result<Decision, Failure> {
    let Some(before) = record.inputs() else { return used(run, now, asked) };
    let (code, others): (Vec<Difference>, Vec<Difference>) = lock::differences(before, now.inputs)
        .into_iter()
        .filter(|it| it.kind != Kind::Recipe)
        .partition(|it| it.kind == Kind::Code);
    let damages = record.damages(run);
    // A shelf is of one version.
    let by_another_version = !code.is_empty() && (asked.shelf || !damages.is_empty());
    if !others.is_empty() || by_another_version {
        return used(run, now, asked);
    }
    if damages.is_empty() {
        let result = record.result(run).unwrap_or_else(|| json!({}));
        return Ok(Decision::Done {
            result,
            remark: (!code.is_empty()).then(|| finished_by_other_code(&code)),
        });
    }
    let damages = damages.join(", ");
    if run::has_whole_checkpoint(run) {
        let remark = format!("{damages}: rebuilding it from the newest checkpoint");
        return Ok(Decision::Resume { arithmetic: arithmetic(run), remark: Some(remark) });
    }
    Ok(Decision::Replace { reason: Some(format!("{damages}, and no checkpoint is left")) })
}

/// There is a run that is not this very one, finished and whole.
fn used(run: &Path, now: &Now, asked: Asked) -> Result<Decision, Failure> {
    let begun = match asked.checkpoint {
        // One that cannot be read is for the worker to refuse, in its words.
        Some(named) => Begun::of_checkpoint(named),
        None => Begun::of_run(run),
    };
    let Some(begun) = begun else {
        return without_record(run, asked, now);
    };
    let (changed, unknown) = match &begun.inputs {
        Some(before) => (lock::differences(before, now.inputs), false),
        None => (Vec::new(), true),
    };
    let recipe = recipe_changes(&begun, now.recipe);
    let others: Vec<Difference> = changed.into_iter().filter(|it| it.kind != Kind::Recipe).collect();
    if asked.shelf {
        return Ok(for_shelf(run, &begun, &recipe, &others, unknown, asked.extend));
    }
    if !asked.resume {
        return Err(refuse_used(run, &recipe, &others, unknown, now));
    }
    refuse_other_recipe(run, &recipe, asked.extend, now)?;
    if unknown {
        return Err(refuse_unknown(run));
    }
    refuse_other_material(run, now.paths, &others)?;
    if let Some(named) = asked.checkpoint {
        refuse_to_mix(run, named, &begun, now)?;
    }
    if asked.checkpoint.is_none() && has_nothing_to_resume(run) {
        return Err(refuse_without_checkpoint(run));
    }
    let code: Vec<Difference> = others.into_iter().filter(|it| it.kind == Kind::Code).collect();
    Ok(Decision::Resume {
        arithmetic: begun.arithmetic,
        remark: (!code.is_empty()).then(|| of_other_code(&code)),
    })
}

/// No checkpoint can be read. Without any, nothing can be mixed and the run begins at step 0; where there are some, the
/// worker says of each why it cannot be used.
fn without_record(run: &Path, asked: Asked, now: &Now) -> Result<Decision, Failure> {
    if asked.resume || asked.shelf {
        return Ok(Decision::Resume { arithmetic: Arithmetic::default(), remark: None });
    }
    Err(refuse_used(run, &Recipe::default(), &[], false, now))
}

/// A checkpoint of elsewhere would be resumed in the folder of another run, and its adapter would replace that of the run.
fn refuse_to_mix(run: &Path, named: &Path, begun: &Begun, now: &Now) -> Result<(), Failure> {
    let is_own = |folder: &Path| Some(folder.canonicalize().ok()?.parent()? == run.canonicalize().ok()?);
    if is_own(named) == Some(true) {
        return Ok(());
    }
    let Some(here) = Begun::of_run(run) else { return Ok(()) };
    // A run that was trained for longer has checkpoints of both recipes.
    let of_begun = (here.recipe_digest != begun.recipe_digest).then(|| recipe_changes(&here, now.recipe));
    let mut found = of_begun.unwrap_or_default().fields;
    match &here.inputs {
        Some(inputs) => {
            let others = lock::differences(inputs, now.inputs);
            found.extend(others.iter().filter(|it| it.kind == Kind::Material).map(ToString::to_string));
        }
        None => found.push("its inputs are not recorded".to_owned()),
    }
    if found.is_empty() {
        return Ok(());
    }
    let message =
        format!("{} holds another run than that of {}:{}", run.display(), named.display(), lines(&found));
    Err(Failure::bad_input("output-used", message)
        .hint("-o names another folder to resume it in; --fresh trains from the start"))
}

/// A finished run whose checkpoints are gone, or that saved none: training would begin at step 0 and replace its adapter.
fn has_nothing_to_resume(run: &Path) -> bool {
    Finished::of(run).is_some() && run::checkpoints(run).is_empty()
}

fn refuse_without_checkpoint(run: &Path) -> Failure {
    let message =
        format!("the run in {} is finished, and no checkpoint is left to resume from", run.display());
    Failure::bad_input("no-checkpoint", message)
        .hint("--fresh trains it from the start, -o names another folder")
}

fn for_shelf(
    run: &Path,
    begun: &Begun,
    recipe: &Recipe,
    others: &[Difference],
    unknown: bool,
    extend: bool,
) -> Decision {
    let replace = |reason: String| Decision::Replace { reason: Some(reason) };
    if unknown {
        return replace(format!("{} does not record its run's inputs", run.display()));
    }
    let mut changed: Vec<&str> = others.iter().map(|it| it.what.as_str()).collect();
    if !(extend && recipe.longer) {
        changed.extend(recipe.names());
    }
    if !changed.is_empty() {
        return replace(format!("{} changed", changed.join(", ")));
    }
    if has_nothing_to_resume(run) {
        return replace("no checkpoint is left".to_owned());
    }
    Decision::Resume { arithmetic: begun.arithmetic, remark: None }
}

/// The settings that differ between the recipe of the run and that of now.
#[derive(Debug, Default)]
struct Recipe {
    /// `field: old -> new`, by the manifest's keys.
    fields: Vec<String>,
    only_duration: bool,
    /// Only the duration differs, and it is longer.
    longer: bool,
    /// The option that sets the length of the run, where only the duration differs and is set by the other one now.
    set_by: Option<&'static str>,
    /// The option with the length that the run started with, where only the duration differs.
    begun_with: Option<String>,
}

impl Recipe {
    fn is_same(&self) -> bool {
        self.fields.is_empty()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.split_once(": ").map_or(field.as_str(), |(name, _)| name))
    }
}

/// The same as lines, since the run that is here started with the recipe of this digest; none where it did not.
pub fn settings_since(run: &Path, recipe: &plan::Recipe, digest: &str) -> Vec<String> {
    let begun = Begun::of_run(run).filter(|begun| begun.recipe_digest == digest);
    begun.map(|begun| recipe_changes(&begun, recipe).fields).unwrap_or_default()
}

fn recipe_changes(begun: &Begun, recipe: &plan::Recipe) -> Recipe {
    if begun.is_of(recipe) {
        return Recipe::default();
    }
    let begun_digest = &begun.recipe_digest;
    let now = serde_json::to_value(recipe.of_training()).unwrap_or_default();
    // A default may be written by one and left out by the other.
    let before = serde_json::from_value::<plan::Recipe>(begun.recipe.clone()).ok().map(|it| it.of_training());
    let begun = before.as_ref().and_then(|it| serde_json::to_value(it).ok()).unwrap_or(begun.recipe.clone());
    let found = compare::differences(&[begun, now].map(plan::by_key));
    let text = |side: &Option<Value>| side.as_ref().map_or_else(|| "null".to_owned(), Value::to_string);
    let mut fields: Vec<String> = found
        .iter()
        .map(|(name, sides)| {
            format!("{}: {} -> {}", plan::manifest_key(name), text(&sides[0]), text(&sides[1]))
        })
        .collect();
    if fields.is_empty() {
        fields.push(format!("{}: {} -> {}", lock::inputs::RECIPE, begun_digest, recipe.digest()));
    }
    let only_duration = !found.is_empty() && found.keys().all(|name| name.starts_with(DURATION));
    let before = before.filter(|_| only_duration).map(|it| it.schedule.duration);
    let now = &recipe.schedule.duration;
    Recipe {
        fields,
        only_duration,
        longer: before.as_ref().is_some_and(|before| is_longer(now, before)),
        set_by: before.as_ref().and_then(|before| other_option(now, before)),
        begun_with: before.as_ref().map(|before| match before {
            Duration::Steps(steps) => format!("--max-steps {steps}"),
            Duration::Epochs(epochs) => format!("--epochs {epochs}"),
        }),
    }
}

fn other_option(now: &Duration, before: &Duration) -> Option<&'static str> {
    match (now, before) {
        (Duration::Steps(_), Duration::Epochs(_)) => Some("--epochs"),
        (Duration::Epochs(_), Duration::Steps(_)) => Some("--max-steps"),
        _ => None,
    }
}

fn is_longer(now: &Duration, before: &Duration) -> bool {
    match (now, before) {
        (Duration::Steps(now), Duration::Steps(before)) => now > before,
        (Duration::Epochs(now), Duration::Epochs(before)) => now > before,
        _ => false,
    }
}

fn refuse_other_recipe(run: &Path, recipe: &Recipe, extend: bool, now: &Now) -> Result<(), Failure> {
    if recipe.is_same() || (recipe.longer && extend) {
        return Ok(());
    }
    let hint = match (recipe.longer, recipe.set_by, recipe.only_duration) {
        (true, ..) => "add --extend to train for longer, or start over with --fresh".to_owned(),
        (_, Some(option), _) if extend => {
            format!(
                "the length of this run is set by {option}: extend it with that, or start over with --fresh"
            )
        }
        (.., true) if extend => {
            "--extend means more epochs or steps, never fewer; --fresh starts over".to_owned()
        }
        (.., true) => match &recipe.begun_with {
            Some(option) => format!("add {option}, as when the run started, or start over with --fresh"),
            None => "give the length that the run started with, or start over with --fresh".to_owned(),
        },
        (.., false) => match now.other_settings(run) {
            None => "undo the change, or start over with --fresh".to_owned(),
            Some(typed) => format!(
                "the run was trained with {typed} last: add that, undo other changes, or start over with --fresh"
            ),
        },
    };
    let message = format!("the recipe changed since the run started:{}", lines(&recipe.fields));
    Err(Failure::bad_input("recipe-changed", message).hint(hint))
}

fn refuse_other_material(run: &Path, paths: &Paths, others: &[Difference]) -> Result<(), Failure> {
    let found: Vec<String> = others
        .iter()
        .filter(|it| it.kind == Kind::Material)
        .map(|it| match place_of(paths, &it.what) {
            Some(place) => format!("{it} ({})", place.display()),
            None => it.to_string(),
        })
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let message = format!("inputs changed since the run in {} started:{}", run.display(), lines(&found));
    Err(Failure::bad_input("inputs-changed", message)
        .hint("restore what changed, or start over with --fresh; -o names another folder"))
}

fn place_of(paths: &Paths, what: &str) -> Option<PathBuf> {
    match what {
        "base" | "tokenizer" => paths.base.as_ref().map(PathBuf::from),
        source => paths.data.get(source).or(paths.initial_adapter.as_ref()).map(PathBuf::from),
    }
}

/// One that is not here, or is in the run's own folder: it would be replaced by what was made of it, and a second run would do
/// other than the first.
fn refuse_initial_adapter(run: &Path, paths: &Paths) -> Result<(), Failure> {
    let Some(adapter) = paths.initial_adapter.as_deref().map(Path::new) else { return Ok(()) };
    if let Some(missing) = adapters::missing_file(adapter) {
        let message = if adapter.is_dir() {
            format!("`initial_adapter` is not an adapter: {} has no {missing}", adapter.display())
        } else {
            format!("there is no adapter at {}, which `initial_adapter` names", adapter.display())
        };
        return Err(Failure::bad_input("initial-adapter", message)
            .hint("restore it, or name the folder of another one; null starts with a new adapter"));
    }
    if !is_under(adapter, run) {
        return Ok(());
    }
    let message = format!("`initial_adapter` is in {}, where this run writes its own adapter", run.display());
    Err(Failure::bad_input("initial-adapter", message)
        .hint("copy the adapter to another folder and name the copy, or train this expert alone into another folder with --output"))
}

fn refuse_unknown(run: &Path) -> Failure {
    let message = format!("{} does not record its run's inputs", run.display());
    Failure::bad_input("inputs-unknown", message)
        .hint("its data or base may have changed since; --fresh starts over, -o names another folder")
}

/// Hours of training are not thrown away for an update of the program, and its results are not passed off as one
/// version's: the run's record keeps the code that began it.
fn of_other_code(code: &[Difference]) -> String {
    format!(
        "expert-cli changed since this run started, and the adapter will come from both versions:{}\n  \
         --fresh trains it again with this version only",
        lock::listed(code)
    )
}

/// Training it again would cost hours, and resuming it would write another `final/`, without its scores.
fn finished_by_other_code(code: &[Difference]) -> String {
    format!("expert-cli changed since this run was trained:{}", lock::listed(code))
}

fn refuse_used(run: &Path, recipe: &Recipe, others: &[Difference], unknown: bool, now: &Now) -> Failure {
    let mut changed = recipe.fields.clone();
    changed.extend(others.iter().map(ToString::to_string));
    if unknown {
        changed.push("its inputs are not recorded".to_owned());
    }
    let since =
        if changed.is_empty() { String::new() } else { format!("; since then changed:{}", lines(&changed)) };
    let material = others.iter().any(|it| it.kind == Kind::Material);
    let otherwise = "--fresh starts over, -o names another folder";
    let hint = match (recipe.is_same(), recipe.longer, now.other_settings(run)) {
        _ if unknown || has_nothing_to_resume(run) => otherwise.to_owned(),
        (false, false, Some(typed)) => format!(
            "it was trained with {typed} last: with that, and all else as it was, --resume resumes it; {otherwise}"
        ),
        _ if material => otherwise.to_owned(),
        (true, ..) => format!("--resume resumes it, {otherwise}"),
        (false, true, _) => format!("--resume --extend trains it for longer, {otherwise}"),
        (false, false, None) => otherwise.to_owned(),
    };
    Failure::bad_input("output-used", format!("{} holds an earlier run{since}", run.display())).hint(hint)
}

fn arithmetic(run: &Path) -> Arithmetic {
    Begun::of_run(run).map(|begun| begun.arithmetic).unwrap_or_default()
}

fn lines(each: &[String]) -> String {
    each.iter().fold(String::new(), |text, line| text + "\n  " + line)
}
