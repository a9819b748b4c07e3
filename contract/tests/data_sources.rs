//! Which files a plan reads its rows from, by which names, and what is known of them before they are tokenized.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use expert_contract::manifest::Options;
use expert_contract::plan::{DataFormat, Duration, Request, Source, StoppingStrategy};
use expert_contract::read::from_bytes;
use expert_contract::resolve::{CachedRows, Resolved, Site, estimate_steps, resolve};
use serde_json::{Value, json};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn site(&self) -> Site {
        common::site(&self.0.path().join("manifest.json"))
    }

    fn resolve_at(&self, site: &Site, dataset: &Value) -> Resolved {
        self.resolve_with(site, dataset, &Value::Null)
    }

    fn resolve_with(&self, site: &Site, dataset: &Value, evaluation: &Value) -> Resolved {
        let manifest = json!({
            "name": "ash", "schema_version": "2.0", "base_models": [{"name": "Qwen/Qwen3-0.6B"}],
            "training": {"dataset": dataset, "config": {"rank": 2, "alpha": 4}}, "evaluation": evaluation
        });
        let text = manifest.to_string().into_bytes();
        let loaded = from_bytes(text, &site.manifest, &Options::default());
        let complaints: Vec<_> = loaded.diagnostics.iter().map(|it| it.message.clone()).collect();
        let manifest = loaded.manifest.unwrap_or_else(|| panic!("{complaints:?}"));
        resolve(&manifest.effective(0).unwrap(), site).unwrap()
    }

    fn resolve(&self, dataset: &Value) -> Resolved {
        self.resolve_at(&self.site(), dataset)
    }

    fn relative(&self, path: &str) -> String {
        let path = Path::new(path).strip_prefix(self.0.path()).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Name, format and file below the folder of each source; a Hub dataset has no file.
    fn sources(&self, made: &Resolved, sources: &[Source]) -> Vec<(String, DataFormat, String)> {
        let place = |source: &Source| {
            let path = made.machine.paths.data.get(&source.name);
            path.map_or_else(String::new, |path| self.relative(path))
        };
        sources.iter().map(|source| (source.name.clone(), source.format, place(source))).collect()
    }

    fn train(&self, dataset: &Value) -> Vec<(String, DataFormat, String)> {
        let made = self.resolve(dataset);
        self.sources(&made, &made.recipe.data.train)
    }
}

fn named(name: &str, format: DataFormat) -> (String, DataFormat, String) {
    (name.to_owned(), format, name.to_owned())
}

const ROW: &str = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";

#[test]
fn a_folder_is_a_source_for_each_of_its_files() {
    let folder = Folder::new();
    folder.file("rows/a.jsonl", ROW);
    let only = [named("rows/a.jsonl", DataFormat::Jsonl)];
    assert_eq!(folder.train(&json!({"path": "rows"})), only);
    assert_eq!(folder.train(&json!({"path": "rows/*.jsonl"})), only);
    assert_eq!(folder.train(&json!({"path": "rows/a.jsonl"})), only);
    folder.file("rows/b.jsonl", ROW);
    let both = [named("rows/a.jsonl", DataFormat::Jsonl), named("rows/b.jsonl", DataFormat::Jsonl)];
    assert_eq!(folder.train(&json!({"path": "rows"})), both);
    // Of one file the format that the manifest gives is taken.
    folder.file("lines.json", ROW);
    let lines = folder.train(&json!({"path": "lines.json", "format": "jsonl"}));
    assert_eq!(lines, [named("lines.json", DataFormat::Jsonl)]);
    // For validation and test as well, also where a name has no ending.
    folder.file("rest", "prompt,completion\na,b\n");
    let made = folder.resolve(&json!({"path": "tables.csv", "format": "csv", "validation_path": "rest"}));
    assert_eq!(folder.sources(&made, &made.recipe.data.validation), [named("rest", DataFormat::Csv)]);
    folder.file("tables/a.csv", "prompt,completion\na,b\n");
    folder.file("tables/b.csv", "prompt,completion\na,b\n");
    let tables = [named("tables/a.csv", DataFormat::Csv), named("tables/b.csv", DataFormat::Csv)];
    assert_eq!(folder.train(&json!({"path": "tables/*"})), tables);
    assert_eq!(
        folder.train(&json!({"path": "absent.parquet"})),
        [named("absent.parquet", DataFormat::Parquet)]
    );
}

#[test]
fn what_save_to_disk_wrote_is_one_source() {
    let folder = Folder::new();
    folder.file("saved/dataset_info.json", "{}");
    folder.file("saved/state.json", "{}");
    folder.file("saved/data-00000-of-00001.arrow", "0123456789");
    let made = folder.resolve(&json!({"path": "saved"}));
    assert_eq!(folder.sources(&made, &made.recipe.data.train), [named("saved", DataFormat::Arrow)]);
    let bytes = |name: &str| folder.0.path().join("saved").join(name).metadata().unwrap().len();
    let all = bytes("dataset_info.json") + bytes("state.json") + bytes("data-00000-of-00001.arrow");
    assert_eq!((made.facts[0].bytes, made.facts[0].rows), (Some(all), None));
    assert!(made.facts[0].is_here());
    // Whatever the format says, a folder is not read as a file.
    let made = folder.resolve(&json!({"path": "saved", "format": "jsonl"}));
    assert_eq!((made.facts[0].bytes, made.facts[0].rows), (Some(all), None));
}

#[test]
fn the_command_line_names_data_as_the_manifest_does() {
    let folder = Folder::new();
    let own = folder.file("rows.jsonl", ROW);
    folder.file("held/rows.jsonl", ROW);
    folder.file("held/more.jsonl", ROW);
    let at = |data: PathBuf, test: Option<PathBuf>| {
        let site = Site { data: Some(data), test, ..folder.site() };
        folder.resolve_at(&site, &json!({"path": "rows.jsonl"}))
    };
    let names = |sources: &[Source]| sources.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let files = |made: &Resolved| made.machine.paths.data.keys().cloned().collect::<Vec<_>>();
    // Files of the manifest that are not read do not count.
    let held = folder.file("held/held.jsonl", ROW);
    let site = Site { data: Some(held.clone()), test: Some(held), ..folder.site() };
    let all = json!({"path": "rows.jsonl", "validation_path": "some.jsonl", "test_path": "test.jsonl"});
    assert_eq!(files(&folder.resolve_at(&site, &all)), ["held.jsonl", "some.jsonl"]);
    std::fs::remove_file(folder.0.path().join("held/held.jsonl")).unwrap();
    // The same file under the same name.
    let made = at(own.clone(), Some(own.clone()));
    assert_eq!(
        (names(&made.recipe.data.train), names(&made.recipe.data.test)),
        (vec!["rows.jsonl".to_owned()], vec!["rows.jsonl".to_owned()])
    );
    // Another file of that name goes by its path.
    let other = folder.0.path().join("held/rows.jsonl");
    let made = at(own.clone(), Some(other.clone()));
    assert_eq!(names(&made.recipe.data.test), [other.to_string_lossy()]);
    assert_eq!(folder.sources(&made, &made.recipe.data.test)[0].2, "held/rows.jsonl");
    let made = at(folder.0.path().join("held"), None);
    assert_eq!(names(&made.recipe.data.train), ["held/more.jsonl", "held/rows.jsonl"]);
    let made = at(folder.0.path().join("held/*.jsonl"), None);
    assert_eq!(names(&made.recipe.data.train), ["more.jsonl".into(), other.to_string_lossy()]);
    // A name that only looks like a pattern.
    let odd = folder.file("odd[1]/few.jsonl", ROW);
    assert_eq!(names(&at(odd, None).recipe.data.train), ["few.jsonl"]);
    let made = at(PathBuf::from("owner/rows::train"), None);
    assert_eq!(
        folder.sources(&made, &made.recipe.data.train),
        [("owner/rows::train".to_owned(), DataFormat::Huggingface, String::new())]
    );
}

#[test]
fn tasks_have_weights_formats_and_files_for_validation_and_test() {
    let folder = Folder::new();
    let dataset = json!({
        "type": "multi_task", "format": "jsonl",
        "tasks": [
            {"name": "one", "path": "one.jsonl", "weight": 3.0, "validation_path": "one-v.jsonl", "test_path": "one-t.jsonl"},
            {"name": "two", "path": "two.csv", "format": "csv", "weight": 1.0}
        ]
    });
    let data = folder.resolve(&dataset).recipe.data;
    let shown: Vec<_> =
        data.train.iter().map(|it| (it.name.as_str(), it.format, it.task.as_deref())).collect();
    assert_eq!(
        shown,
        [("one.jsonl", DataFormat::Jsonl, Some("one")), ("two.csv", DataFormat::Csv, Some("two"))]
    );
    assert!((data.train[0].weight / data.train[1].weight - 3.0).abs() < 1e-9);
    assert_eq!(
        data.validation.iter().map(|it| (it.name.as_str(), it.task.as_deref())).collect::<Vec<_>>(),
        [("one-v.jsonl", Some("one"))]
    );
    assert_eq!(
        data.test.iter().map(|it| (it.name.as_str(), it.task.as_deref())).collect::<Vec<_>>(),
        [("one-t.jsonl", Some("one"))]
    );
}

#[test]
fn no_row_of_a_task_with_weight_0_is_used() {
    let folder = Folder::new();
    let made = folder.resolve(&json!({
        "type": "multi_task",
        "tasks": [
            {"name": "one", "path": "one.jsonl", "weight": 1, "validation_path": "one-v.jsonl", "test_path": "one-t.jsonl"},
            {"name": "two", "path": "two.jsonl", "weight": 0, "validation_path": "two-v.jsonl", "test_path": "two-t.jsonl"}
        ]
    }));
    let data = &made.recipe.data;
    let named = |sources: &[Source]| sources.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        [named(&data.train), named(&data.validation), named(&data.test)],
        [["one.jsonl"], ["one-v.jsonl"], ["one-t.jsonl"]]
    );
    assert_eq!(
        made.machine.paths.data.keys().collect::<Vec<_>>(),
        ["one-t.jsonl", "one-v.jsonl", "one.jsonl"]
    );
}

#[test]
fn tasks_without_weights_are_taken_whole_and_shares_count_in_the_steps() {
    let folder = Folder::new();
    folder.file("train.jsonl", &ROW.repeat(40));
    folder.file("tiny.jsonl", ROW);
    let seen = |dataset: Value| {
        let made = folder.resolve(&dataset);
        let weights: Vec<f64> = made.recipe.data.train.iter().map(|it| it.weight).collect();
        (weights, estimate_steps(&made.recipe, &made.facts, None).unwrap().rows)
    };
    let paths = json!(["train.jsonl", "tiny.jsonl"]);
    assert_eq!(seen(json!({"tasks": paths})), (vec![1.0, 1.0], 41));
    assert_eq!(seen(json!({"tasks": paths, "weights": {}})), (vec![1.0, 1.0], 41));
    assert_eq!(seen(json!({"tasks": paths, "weights": [1, 1]})), (vec![0.5, 0.5], 2));
    assert_eq!(seen(json!({"tasks": paths, "weights": [9, 1]})), (vec![0.9, 0.1], 10));
    assert_eq!(seen(json!({"tasks": paths, "weights": [1, 0]})), (vec![1.0], 40));
    let one = json!({"tasks": ["train.jsonl", {"path": "tiny.jsonl", "weight": 1}]});
    assert_eq!(seen(one), (vec![0.5, 0.5], 2), "a task without a weight beside one with a weight has 1");
    let repeated = |weights: Value| {
        seen(json!({"tasks": paths, "weights": weights, "stopping_strategy": "all_exhausted"}))
    };
    assert_eq!(repeated(json!([1, 1])), (vec![0.5, 0.5], 80), "the row is there 40 times");
    assert_eq!(repeated(json!([9, 1])), (vec![0.9, 0.1], 44));
    assert_eq!(repeated(json!({})), (vec![1.0, 1.0], 41));
}

#[test]
fn a_recipe_without_shares_has_no_stopping_strategy() {
    let folder = Folder::new();
    folder.file("train.jsonl", ROW);
    folder.file("tiny.jsonl", ROW);
    let strategy = |weights: Value| {
        let tasks = json!(["train.jsonl", "tiny.jsonl"]);
        let dataset = json!({"tasks": tasks, "weights": weights, "stopping_strategy": "all_exhausted"});
        folder.resolve(&dataset).recipe.data.stopping_strategy
    };
    assert_eq!(strategy(json!([1, 1])), StoppingStrategy::AllExhausted);
    assert_eq!(strategy(json!([1, 0])), StoppingStrategy::FirstExhausted);
    assert_eq!(strategy(json!({})), StoppingStrategy::FirstExhausted);
}

/// 7.000000000000001 steps are seven, as the worker counts them.
#[test]
fn part_of_an_epoch_is_rounded_as_the_worker_does() {
    let folder = Folder::new();
    folder.file("train.jsonl", ROW);
    let mut recipe = folder.resolve(&json!("train.jsonl")).recipe;
    recipe.batch.rows_per_step = 1;
    recipe.schedule.duration = Duration::Epochs(0.07);
    let steps = |rows| estimate_steps(&recipe, &[], Some(CachedRows { rows, tokens: 1 })).unwrap();
    assert_eq!((steps(100).steps, steps(101).steps, steps(100).exact), (7, 8, true));
}

#[test]
fn the_files_of_a_tasks_folder_have_its_task_and_weight() {
    let folder = Folder::new();
    for name in ["chat/a.jsonl", "chat/more/b.jsonl", "sql.jsonl"] {
        folder.file(name, "{}");
    }
    let tasks = json!([{"name": "chat", "path": "chat/", "weight": 3}, {"name": "sql", "path": "sql.jsonl", "weight": 1}]);
    let data = folder.resolve(&json!({"type": "multi_task", "tasks": tasks})).recipe.data;
    let shown: Vec<_> =
        data.train.iter().map(|it| (it.name.as_str(), it.task.as_deref().unwrap(), it.weight)).collect();
    assert_eq!(
        shown,
        [("chat/a.jsonl", "chat", 0.75), ("chat/more/b.jsonl", "chat", 0.75), ("sql.jsonl", "sql", 0.25)]
    );
}

#[test]
fn a_dataset_of_the_hub_may_have_test_rows_in_a_file() {
    let folder = Folder::new();
    let made = folder
        .resolve(&json!({"type": "huggingface", "path": "owner/rows::train", "test_path": "test.jsonl"}));
    let hub = ("owner/rows::train".to_owned(), DataFormat::Huggingface, String::new());
    assert_eq!(folder.sources(&made, &made.recipe.data.train), [hub]);
    assert_eq!(folder.sources(&made, &made.recipe.data.test), [named("test.jsonl", DataFormat::Jsonl)]);
    assert!(made.facts[0].is_here());
    assert_eq!((made.facts[0].bytes, made.facts[0].rows, made.facts[0].tokens()), (None, None, None));
}

#[test]
fn a_dataset_in_files_may_have_test_rows_on_the_hub() {
    let folder = Folder::new();
    let dataset = json!({"path": "train.jsonl", "format": "jsonl", "test_path": "owner/rows::test"});
    let made = folder.resolve(&dataset);
    let hub = ("owner/rows::test".to_owned(), DataFormat::Huggingface, String::new());
    assert_eq!(folder.sources(&made, &made.recipe.data.train), [named("train.jsonl", DataFormat::Jsonl)]);
    assert_eq!(folder.sources(&made, &made.recipe.data.test), [hub]);
}

#[test]
fn rows_are_counted_where_no_file_must_be_unpacked_for_it() {
    let folder = Folder::new();
    let facts = |name: &str, text: &str| {
        folder.file(name, text);
        folder.resolve(&json!({"path": name})).facts.remove(0)
    };
    let plain = facts("a.jsonl", &format!("{ROW}\n{ROW}"));
    let bytes = 2 * ROW.len() as u64 + 1;
    assert_eq!((plain.rows, plain.bytes, plain.tokens()), (Some(2), Some(bytes), Some(32)));
    // Compressed text is about five times as long.
    let packed = facts("b.jsonl.gz", &format!("{ROW}\n{ROW}"));
    assert_eq!((packed.rows, packed.bytes, packed.tokens()), (None, Some(bytes), Some(bytes * 5 / 4)));
    let table = facts("c.csv", "a,b\n1,2\n");
    assert_eq!((table.rows, table.bytes), (None, Some(8)));
    let absent = folder.resolve(&json!({"path": "d.jsonl"})).facts.remove(0);
    assert!(!absent.is_here());
    assert_eq!((absent.rows, absent.bytes), (None, None));
    std::fs::create_dir(folder.0.path().join("e")).unwrap();
    let empty = folder.resolve(&json!({"path": "e", "format": "jsonl"})).facts.remove(0);
    assert_eq!((empty.rows, empty.bytes, empty.is_here()), (None, None, false));
}

#[test]
fn further_test_sets_change_neither_the_recipe_nor_the_inputs() {
    let folder = Folder::new();
    for name in ["train.jsonl", "test.jsonl", "people.jsonl", "more/a.jsonl", "more/b.jsonl"] {
        folder.file(name, "{}");
    }
    let with = |site: &Site, sets: &Value| {
        let evaluation = json!({"scorer": "exact", "test_sets": sets});
        folder.resolve_with(site, &json!({"path": "train.jsonl", "test_path": "test.jsonl"}), &evaluation)
    };
    let (site, request) =
        (folder.site(), Request::Evaluate { adapter: None, samples: None, against: None, other_rows: None });
    let without = with(&site, &Value::Null).plan(request.clone());
    let made = with(&site, &json!({"people": "people.jsonl", "more": "more/", "hub": "owner/rows::test"}));
    let plan = made.plan(request);
    assert_eq!(plan.recipe_digest, without.recipe_digest);
    assert_eq!((&plan.recipe, &plan.machine), (&without.recipe, &without.machine));
    assert!(without.test_sets.is_empty() && !plan.test_sets.is_empty());
    let shown = |name: &str| {
        let set = &plan.test_sets[name];
        let place = |source: &Source| set.files.get(&source.name).map(|path| folder.relative(path));
        set.sources.iter().map(|it| (it.name.clone(), it.format, place(it))).collect::<Vec<_>>()
    };
    let local = |name: &str, format| (name.to_owned(), format, Some(name.to_owned()));
    assert_eq!(shown("people"), [local("people.jsonl", DataFormat::Jsonl)]);
    assert_eq!(
        shown("more"),
        [local("more/a.jsonl", DataFormat::Jsonl), local("more/b.jsonl", DataFormat::Jsonl)]
    );
    assert_eq!(shown("hub"), [("owner/rows::test".to_owned(), DataFormat::Huggingface, None)]);
    // Test rows on the command line are all that is scored.
    let given = Site { test: Some(folder.file("own.jsonl", "{}")), ..site };
    assert!(with(&given, &json!({"people": "people.jsonl"})).test_sets.is_empty());
}
