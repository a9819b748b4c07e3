//! Which adapters `serve` serves: finished runs of experts, and folders that an adapter was copied to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::manifest::may_mean;
use expert_contract::results::ExpertRecord;
use expert_contract::shell::quoted;

use super::list::{Choice, Run, State, choose, is_run, look, of_expert, on_base};
use crate::experts::{self, MANIFEST};
use crate::failure::Failure;
use crate::run::{EXPERT, FINAL, Finished, WEIGHTS, read_plan};
use crate::sys::files::read_json;
use crate::sys::paths::{absolute, file_name, near};

/// One adapter, in a folder that describes itself.
#[derive(Debug)]
pub struct Adapter {
    pub folder: String,
    /// The base's folder, where a run of this machine names it.
    pub base: Option<String>,
}

impl Adapter {
    /// As `expert.json` has it.
    pub fn name(&self) -> Option<String> {
        self.record()?.name
    }

    fn base_name(&self) -> Option<String> {
        self.record()?.base?.name
    }

    /// Their digest, as the training recorded it.
    fn weights(&self) -> Option<String> {
        self.record()?.files.get(WEIGHTS)?.sha256.clone()
    }

    fn record(&self) -> Option<ExpertRecord> {
        read_json(&Path::new(&self.folder).join(EXPERT))
    }
}

#[derive(Debug, Default)]
pub struct Served {
    pub adapters: Vec<Adapter>,
    /// Why experts of a shelf are not served.
    pub left_out: Vec<Failure>,
}

/// Every adapter of the named folders. `model` chooses among the runs of an expert. Without a finished run an expert that is
/// named is refused; in a shelf it is left out.
pub fn served(named: &[PathBuf], model: Option<&str>) -> Result<Served, Failure> {
    let usual = [experts::usual().to_owned()];
    let folders = if named.is_empty() { &usual[..] } else { named };
    let mut served = Served::default();
    for folder in folders {
        match kind(folder) {
            Kind::Adapter => served.adapters.push(on(model, of_folder(folder))?),
            Kind::Run => served.adapters.push(on(model, of_run(&look(folder))?)?),
            Kind::Expert => served.adapters.push(of_run(&chosen(folder, model)?)?),
            Kind::Other => of_shelf(folder, model, &mut served)?,
        }
    }
    served.adapters = once_each(served.adapters);
    one_of_each_name(&served.adapters)?;
    Ok(served)
}

/// A folder may be named twice: as a run and as its expert, or as an expert and in its shelf. An exported copy of the same
/// weights is the same expert.
fn once_each(adapters: Vec<Adapter>) -> Vec<Adapter> {
    let mut found: Vec<(PathBuf, Option<String>, Adapter)> = Vec::new();
    for adapter in adapters {
        let place = Path::new(&adapter.folder);
        let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
        let weights = adapter.weights();
        let is_same = |other: &PathBuf, of_other: &Option<String>, named: &Adapter| {
            *other == place || of_other.is_some() && *of_other == weights && named.name() == adapter.name()
        };
        match found.iter_mut().find(|(other, of_other, named)| is_same(other, of_other, named)) {
            Some((_, _, same)) => same.base = same.base.take().or(adapter.base),
            None => found.push((place, weights, adapter)),
        }
    }
    found.into_iter().map(|(_, _, adapter)| adapter).collect()
}

/// A request names an expert by its name alone.
fn one_of_each_name(adapters: &[Adapter]) -> Result<(), Failure> {
    let mut folders: BTreeMap<String, &str> = BTreeMap::new();
    for adapter in adapters {
        let Some(name) = adapter.name() else { continue };
        if let Some(other) = folders.insert(name.clone(), &adapter.folder) {
            let (one, two) = (near(Path::new(other)), near(Path::new(&adapter.folder)));
            let message = format!("two experts are named {name}: {one} and {two}");
            return Err(Failure::bad_input("same-name", message).hint(format!(
                "name the folders to serve, as in `expert-cli serve {}`; another server, with another --port, can serve the other",
                quoted(&one)
            )));
        }
    }
    Ok(())
}

const ADAPTER_CONFIG: &str = "adapter_config.json";
const MLX_WEIGHTS: &str = "adapters.safetensors";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Adapter,
    Run,
    Expert,
    Other,
}

/// A merged model and a GGUF file have no `adapter_config.json`; an MLX adapter has its own weights. An adapter whose weights
/// are missing is one that the server refuses.
fn is_adapter(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has(EXPERT) && (has(WEIGHTS) || has(ADAPTER_CONFIG) && !has(MLX_WEIGHTS))
}

fn kind(folder: &Path) -> Kind {
    if is_adapter(folder) {
        Kind::Adapter
    } else if is_run(folder) {
        Kind::Run
    } else if folder.join(FINAL).join(EXPERT).is_file() {
        // An adapter in the layout of a run.
        Kind::Run
    } else if folder.join(MANIFEST).is_file() {
        Kind::Expert
    } else {
        Kind::Other
    }
}

fn of_shelf(shelf: &Path, model: Option<&str>, served: &mut Served) -> Result<(), Failure> {
    if !shelf.is_dir() {
        return Err(Failure::bad_input("no-folder", format!("there is no folder {}", near(shelf)))
            .hint("name a folder with experts, an expert, a run or an exported adapter"));
    }
    if shelf.join(EXPERT).is_file() {
        let message =
            format!("{} is a merged model, a GGUF or an MLX export, and not an adapter", near(shelf));
        return Err(Failure::bad_input("not-an-adapter", message)
            .hint("name the expert or its run: `serve` loads the base and the adapter; other programs serve this folder"));
    }
    let folders = experts::folders_in(shelf)?;
    let (mut found, mut unfinished) = (Vec::new(), Vec::new());
    for folder in folders {
        let adapter = match kind(&folder) {
            Kind::Other => continue,
            Kind::Adapter => on(model, of_folder(&folder)),
            Kind::Run => of_run(&look(&folder)).and_then(|adapter| on(model, adapter)),
            Kind::Expert => chosen(&folder, model).and_then(|run| of_run(&run)),
        };
        match adapter {
            Ok(adapter) => found.push(adapter),
            Err(failure) if failure.code == UNFINISHED => unfinished.push((near(&folder), failure)),
            Err(failure) => return Err(failure),
        }
    }
    match (found.is_empty(), unfinished.is_empty()) {
        (true, true) => {
            Err(Failure::bad_input(UNFINISHED, format!("there is no expert in {}", place(shelf)))
                .hint("name a folder with experts, an expert, a run or an exported adapter"))
        }
        (true, false) => Err(none_trained(shelf, unfinished)),
        (false, _) => {
            served.adapters.extend(found);
            let seen = |failure: &Failure| served.left_out.iter().any(|it| it.message == failure.message);
            let new: Vec<Failure> = unfinished.into_iter().map(|(_, it)| it).filter(|it| !seen(it)).collect();
            served.left_out.extend(new);
            Ok(())
        }
    }
}

/// Where nobody named a folder, the working directory may be searched: see [`experts::usual`].
fn place(shelf: &Path) -> String {
    if shelf == Path::new(".") { "the working directory".to_owned() } else { near(shelf) }
}

/// How many names a message holds.
const NAMES: usize = 5;

/// One has its own message; of several the names, and what to do about the first.
fn none_trained(shelf: &Path, mut unfinished: Vec<(String, Failure)>) -> Failure {
    let count = unfinished.len();
    let mut names: Vec<String> = unfinished.iter().take(NAMES).map(|(name, _)| name.clone()).collect();
    if count > NAMES {
        names.push(format!("and {} more", count - NAMES));
    }
    let (_, first) = unfinished.swap_remove(0);
    if count == 1 {
        return first;
    }
    let message = format!("none of the {count} experts in {} is trained: {}", place(shelf), names.join(", "));
    Failure { message, ..first }
}

const UNFINISHED: &str = "not-trained";

fn of_folder(folder: &Path) -> Adapter {
    Adapter { folder: absolute(folder), base: None }
}

/// The adapter, if it is on this base. One that does not name its base is taken at the user's word.
fn on(model: Option<&str>, adapter: Adapter) -> Result<Adapter, Failure> {
    let (Some(model), Some(base)) = (model, adapter.base_name()) else { return Ok(adapter) };
    if may_mean(model, &base) {
        return Ok(adapter);
    }
    let place = near(Path::new(&adapter.folder));
    Err(Failure::bad_input(UNFINISHED, format!("{place} is an adapter of {base}, not of {model}"))
        .hint("leave --model out, or name an adapter of that base"))
}

/// The expert's one finished run, of those on the base `model` where that is given.
fn chosen(expert: &Path, model: Option<&str>) -> Result<Run, Failure> {
    let mut runs = of_expert(expert);
    if let Some(model) = model {
        runs = on_base(runs, model);
    }
    match choose(runs) {
        Choice::One(run) => Ok(*run),
        Choice::Unfinished(runs) => runs.into_iter().next().ok_or_else(|| {
            let on = model.map(|name| format!(" on {name}")).unwrap_or_default();
            let option = model.map(|name| format!(" --model {}", quoted(name))).unwrap_or_default();
            Failure::bad_input(UNFINISHED, format!("{} is not trained{on}", near(expert)))
                .hint(format!("train it first: expert-cli train {}{option}", quoted(&near(expert))))
        }),
        Choice::Several(finished) => {
            let names: Vec<String> = finished.iter().map(|run| file_name(&run.path)).collect();
            Err(Failure::bad_input(
                "several-runs",
                format!("{} has several finished runs: {}", near(expert), names.join(", ")),
            )
            .hint("choose with --model, or name the run's folder"))
        }
    }
}

fn of_run(run: &Run) -> Result<Adapter, Failure> {
    let place = near(&run.path);
    let folder = run.path.join(FINAL);
    let copied = !is_run(&run.path);
    if !copied && !run.is_trained {
        let hint = match run.state {
            State::Running => format!("wait until it is finished: expert-cli runs {}", quoted(&place)),
            State::Resumable => format!("finish it: {}", run.training(" --resume")),
            _ => format!("train it: {}", run.training("")),
        };
        let message = format!("the run {place} is not finished: {}", run.state.as_str());
        return Err(Failure::bad_input(UNFINISHED, message).hint(hint));
    }
    if !folder.join(EXPERT).is_file() {
        return Err(Failure::bad_input(
            "old-run",
            format!("{place}/{FINAL} has no {EXPERT}: an older version trained it"),
        )
        .hint("train it again with this version"));
    }
    let damages = Finished::of(&run.path).map(|it| it.damages(&run.path)).unwrap_or_default();
    if let Some(damage) = damages.first() {
        return Err(Failure::bad_input("damaged", format!("{place}: {damage}"))
            .hint("restore the file from a copy, or train the expert again"));
    }
    let base = read_plan(&run.path).base_folder().map(str::to_owned);
    Ok(Adapter { folder: absolute(&folder), base })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::files::write_text;

    fn expert(shelf: &Path, name: &str) -> PathBuf {
        write_text(shelf, &format!("{name}/manifest.json"), "{}");
        shelf.join(name)
    }

    fn begin(expert: &Path, base: &str) -> PathBuf {
        let run = expert.join("weights").join(base);
        let plan = format!(
            r#"{{"recipe": {{"base": {{"name": "Org/{base}"}}}}, "machine": {{"paths": {{"base": "/bases/{base}"}}}}}}"#
        );
        write_text(&run, "plan.json", &plan);
        run
    }

    fn finish(run: &Path) {
        write_text(run, "final/expert.json", "{}");
        write_text(run, "final/adapter_model.safetensors", "weights");
        let digest = crate::sys::digests::read_digest(&run.join("final/adapter_model.safetensors")).unwrap();
        let files = format!(r#"{{"adapter_model.safetensors": {{"sha256": "{digest}", "bytes": 7}}}}"#);
        write_text(run, "run.json", &format!(r#"{{"recipe_digest": "d", "final": {files}}}"#));
    }

    fn refusal(named: &Path, model: Option<&str>) -> String {
        let failure = served(&[named.to_owned()], model).unwrap_err();
        format!("{} ({})", failure.message, failure.hint.unwrap_or_default())
    }

    fn folders(named: &Path, model: Option<&str>) -> Vec<String> {
        let found = served(&[named.to_owned()], model).unwrap().adapters;
        found.into_iter().map(|adapter| adapter.folder).collect()
    }

    #[test]
    fn an_unfinished_expert_is_refused_with_the_next_command_and_left_out_of_a_shelf() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = folder.path();
        let (one, two) = (expert(shelf, "one"), expert(shelf, "two"));
        let message = refusal(shelf, None);
        assert!(
            message.contains("none of the 2 experts in ") && message.contains("is trained: "),
            "{message}"
        );
        assert!(message.contains("/one, ") && message.contains("/two (train it first: "), "{message}");
        assert!(refusal(&one, None).contains("expert-cli train"));
        let run = begin(&one, "tiny");
        assert!(refusal(&one, None).contains("is not finished: not started"));
        write_text(&run, "checkpoint-3/state.json", "{}");
        assert!(refusal(&one, None).contains("--resume"), "{}", refusal(&one, None));
        finish(&begin(&two, "tiny"));
        assert_eq!(folders(shelf, None), [absolute(&two.join("weights/tiny/final"))]);
        let left_out = served(&[shelf.to_owned()], None).unwrap().left_out;
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].message.contains("one/weights/tiny is not finished"), "{left_out:?}");
        finish(&run);
        assert_eq!(folders(shelf, None).len(), 2);
        write_text(&run, "final/adapter_model.safetensors", "others!");
        assert!(refusal(shelf, None).contains("adapter_model.safetensors is damaged"));
    }

    #[test]
    fn one_of_several_runs_is_chosen_by_its_base() {
        let folder = tempfile::tempdir().unwrap();
        let one = expert(folder.path(), "one");
        for base in ["tiny", "large"] {
            finish(&begin(&one, base));
        }
        assert!(refusal(&one, None).contains("several finished runs: large, tiny (choose with --model"));
        for model in ["tiny", "Org/tiny"] {
            let found = served(std::slice::from_ref(&one), Some(model)).unwrap().adapters;
            assert_eq!(found[0].folder, absolute(&one.join("weights/tiny/final")));
            assert_eq!(found[0].base.as_deref(), Some("/bases/tiny"));
        }
        finish(&begin(&one, "tiny-0.6b"));
        for (model, run) in [("TINY", "tiny"), ("tiny-0.6B", "tiny-0.6b"), ("larg", ""), ("large", "large")] {
            let found =
                served(std::slice::from_ref(&one), Some(model)).map(|it| it.adapters[0].folder.clone());
            let wanted = absolute(&one.join("weights").join(run).join("final"));
            assert_eq!(found.ok(), (!run.is_empty()).then_some(wanted), "{model}");
        }
        assert!(refusal(&one, Some("other")).contains("not trained on other"));
    }

    #[test]
    fn an_adapter_is_served_once_however_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = folder.path();
        let (one, two) = (expert(shelf, "one"), expert(shelf, "two"));
        expert(shelf, "three");
        let run = begin(&one, "tiny");
        finish(&run);
        finish(&begin(&two, "tiny"));
        for name in ["one", "two"] {
            let record = format!(r#"{{"name": "{name}"}}"#);
            write_text(shelf, &format!("{name}/weights/tiny/final/expert.json"), &record);
        }
        let adapter = run.join("final");
        for named in [
            vec![one.clone(), one.clone()],
            vec![adapter.clone(), one.clone(), run.clone()],
            vec![adapter.join("..").join("final"), one.clone()],
        ] {
            let found = served(&named, None).unwrap().adapters;
            assert_eq!(found.len(), 1, "{named:?}");
            assert_eq!(found[0].base.as_deref(), Some("/bases/tiny"), "{named:?}");
        }
        let both = served(&[shelf.to_owned(), two.clone(), shelf.to_owned()], None).unwrap();
        assert_eq!((both.adapters.len(), both.left_out.len()), (2, 1));
        // Another adapter of the same name.
        let copied = shelf.join("copied");
        write_text(&copied, "expert.json", r#"{"name": "one"}"#);
        write_text(&copied, WEIGHTS, "others");
        let failure = served(&[one, copied], None).unwrap_err();
        assert!(
            failure.message.starts_with("two experts are named one: ") && failure.message.ends_with("copied"),
            "{failure:?}"
        );
        assert!(failure.hint.unwrap().contains("--port"));
    }

    #[test]
    fn an_exported_copy_is_the_same_expert_and_another_training_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = folder.path();
        let run = begin(&expert(shelf, "one"), "tiny");
        finish(&run);
        let record = |digit: &str| {
            let digest = digit.repeat(64);
            format!(
                r#"{{"name": "one", "files": {{"adapter_model.safetensors": {{"sha256": "{digest}", "bytes": 7}}}}}}"#
            )
        };
        write_text(&run, "final/expert.json", &record("a"));
        write_text(shelf, "one-adapter/expert.json", &record("a"));
        write_text(shelf, "one-adapter/adapter_model.safetensors", "weights");
        let found = served(&[shelf.to_owned()], None).unwrap().adapters;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].base.as_deref(), Some("/bases/tiny"));
        write_text(shelf, "one-adapter/expert.json", &record("b"));
        let refused = refusal(shelf, None);
        assert!(
            refused.contains("two experts are named one") && refused.contains("expert-cli serve "),
            "{refused}"
        );
    }

    #[test]
    fn a_merged_model_or_a_gguf_beside_the_experts_is_not_an_adapter() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = folder.path();
        finish(&begin(&expert(shelf, "one"), "tiny"));
        write_text(shelf, "one/weights/tiny/final/expert.json", r#"{"name": "one"}"#);
        write_text(shelf, "one-gguf/expert.json", r#"{"name": "one"}"#);
        for file in ["expert.json", "adapter_config.json", "adapters.safetensors"] {
            write_text(shelf, &format!("one-mlx/{file}"), "{}");
        }
        assert_eq!(folders(shelf, None), [absolute(&shelf.join("one/weights/tiny/final"))]);
        let cut = shelf.join("cut");
        write_text(&cut, "expert.json", r#"{"name": "two"}"#);
        write_text(&cut, "adapter_config.json", "{}");
        assert!(
            folders(shelf, None).contains(&absolute(&cut)),
            "the server says that its weights are missing"
        );
        let refused = refusal(&shelf.join("one-gguf"), None);
        assert!(
            refused.contains("one-gguf is a merged model") && refused.contains("name the expert"),
            "{refused}"
        );
    }

    #[test]
    fn adapters_and_runs_of_another_base_than_the_named_one_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = folder.path();
        let copied = shelf.join("copied");
        write_text(&copied, "expert.json", r#"{"name": "one", "base": {"name": "Org/Tiny-0.6B"}}"#);
        write_text(&copied, WEIGHTS, "weights");
        for model in ["tiny", "Tiny-0.6b", "Org/Tiny-0.6B", "other/tiny-0.6b"] {
            assert_eq!(folders(&copied, Some(model)), [absolute(&copied)], "{model}");
        }
        let refused = refusal(&copied, Some("large"));
        assert!(
            refused.contains("copied is an adapter of Org/Tiny-0.6B, not of large (leave --model out"),
            "{refused}"
        );
        let run = begin(&expert(shelf, "two"), "large");
        finish(&run);
        write_text(&run, "final/expert.json", r#"{"name": "two", "base": {"name": "Org/large"}}"#);
        assert!(refusal(&run, Some("tiny")).contains("is an adapter of Org/large, not of tiny"));
        let found = served(&[shelf.to_owned()], Some("large")).unwrap();
        assert_eq!((found.adapters.len(), found.left_out.len()), (1, 1));
    }

    #[test]
    fn a_run_and_a_copied_adapter_are_served_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let copied = folder.path().join("copied");
        write_text(&copied, "expert.json", "{}");
        write_text(&copied, WEIGHTS, "weights");
        let installed = folder.path().join("installed");
        write_text(&installed, "final/expert.json", "{}");
        let run = begin(&expert(folder.path(), "one"), "tiny");
        finish(&run);
        assert_eq!(folders(&copied, None), [absolute(&copied)]);
        assert_eq!(folders(&installed, None), [absolute(&installed.join("final"))]);
        assert_eq!(folders(&run, None), [absolute(&run.join("final"))]);
        assert_eq!(folders(folder.path(), None).len(), 3);
        fs_err::remove_file(run.join("final/expert.json")).unwrap();
        assert!(refusal(&run, None).contains("an older version"));
        assert!(refusal(&folder.path().join("none"), None).contains("there is no folder"));
    }
}
