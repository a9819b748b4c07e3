//! Where the rows are, and how they are read, of each trainer.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::import::Imported;
use crate::import::draft::Fate;
use crate::import::tests::{false_claims, fate_of, imported, line, read_file, value_at};

#[test]
fn the_rows_of_several_datasets_are_all_taken_as_there() {
    let manifest: Json = serde_json::from_str(&read_file("llama-factory-dora.json").manifest).unwrap();
    let tasks = manifest["training"]["dataset"]["tasks"].as_array().unwrap();
    assert!(tasks.len() == 2 && tasks.iter().all(|task| task.get("weight").is_none()), "{tasks:?}");
}

#[test]
fn files_of_one_name_get_different_places() {
    let of = |text: &str| imported(&format!("base_model: a/b\n{text}"), Path::new("config.yml")).unwrap();
    let places = |imported: &Imported| -> Vec<(String, String)> {
        imported.copies.iter().map(|copy| (copy.from.clone(), copy.to.clone())).collect()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let found = of("datasets: [{path: ./train/data.jsonl, type: alpaca}]\n\
                    test_datasets: [{path: ./eval/Data.jsonl, type: alpaca}]\n");
    assert_eq!(
        places(&found),
        [
            pair("./train/data.jsonl", "datasets/data.jsonl"),
            pair("./eval/Data.jsonl", "datasets/validation-Data.jsonl")
        ]
    );
    let manifest: Json = serde_json::from_str(&found.manifest).unwrap();
    assert_eq!(manifest["training"]["dataset"]["path"], "datasets/data.jsonl");
    assert_eq!(manifest["training"]["dataset"]["validation_path"], "datasets/validation-Data.jsonl");

    let found =
        of("datasets: [{path: a/data.jsonl.gz}, {path: b/data.jsonl.gz}, {path: ./a/data.jsonl.gz}]\n");
    assert_eq!(
        places(&found),
        [
            pair("a/data.jsonl.gz", "datasets/train/data.jsonl.gz"),
            pair("b/data.jsonl.gz", "datasets/train/data-2.jsonl.gz"),
            pair("./a/data.jsonl.gz", "datasets/train/data.jsonl.gz"),
        ]
    );
    // Each line of the list names the file's own place.
    let listed: Vec<_> = found.lines.iter().flat_map(|line| line.here.clone()).collect();
    assert!(listed.contains(&"datasets/train/data-2.jsonl.gz".to_owned()), "{listed:?}");
}

#[test]
fn fields_that_differ_between_files_are_listed_as_left() {
    let folder = tempfile::tempdir().unwrap();
    let info = json!({
        "one": {"file_name": "one.json", "columns": {"prompt": "q", "response": "a"}},
        "two": {"file_name": "two.json", "columns": {"prompt": "frage", "response": "antwort"}},
    });
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
    let of = |text: &str| {
        let text = format!("model_name_or_path: a/b\ntemplate: qwen\nstage: sft\n{text}");
        let imported = imported(&text, &folder.path().join("config.yml")).unwrap();
        let manifest: Json = serde_json::from_str(&imported.manifest).unwrap();
        let left = imported.lines.into_iter().filter(|line| line.fate == Fate::Left);
        let left: Vec<_> =
            left.filter(|line| line.why.contains("field_mapping")).map(|line| line.key).collect();
        (manifest["training"]["dataset"]["field_mapping"].clone(), left)
    };
    let mapped = json!({"instruction": "q", "output": "a"});
    assert_eq!(of("dataset: one\n"), (mapped.clone(), vec![]));
    assert_eq!(of("dataset: one,two\n"), (Json::Null, vec!["dataset (fields)".to_owned()]));
    assert_eq!(
        of("dataset: one\neval_dataset: two\n"),
        (mapped.clone(), vec!["eval_dataset (fields)".to_owned()])
    );
    assert_eq!(of("dataset: one\neval_dataset: one\n"), (mapped, vec![]));

    let text = "base_model: a/b\ndatasets: [{path: x.jsonl, type: completion, field: body}]\n\
                test_datasets: [{path: y.jsonl, type: completion, field: text}]\n";
    let left = imported(text, Path::new("config.yml")).unwrap().lines;
    let left: Vec<_> = left.iter().filter(|line| line.fate == Fate::Left).map(|line| &line.key).collect();
    assert_eq!(left, ["test_datasets (fields)"]);
}

#[test]
fn what_holds_for_some_rows_only_is_not_claimed_for_all() {
    let text = "base_model: a/b\nadapter: lora\ndatasets:\n\
                - {path: a/chat, type: chat_template}\n\
                - {path: text.jsonl, type: completion, field: content}\n\
                - {path: own.jsonl, type: {field_instruction: q, field_output: a, format: '[INST] {instruction}'}}\n";
    let found = imported(text, Path::new("config.yml")).unwrap();
    assert_eq!(false_claims(&found), [""; 0]);
    for key in ["datasets[1].type", "datasets[1].field", "datasets[2].type"] {
        assert_eq!(fate_of(&found, key), Some(Fate::Left), "{key}");
    }
    // Alone, its fields are carried.
    let text = "base_model: a/b\nadapter: lora\ndatasets:\n\
                - {path: own.jsonl, type: {field_instruction: q, field_output: a, format: '[INST] {instruction}'}}\n";
    let found = imported(text, Path::new("config.yml")).unwrap();
    assert_eq!(
        value_at(&found, "training/dataset/field_mapping"),
        json!({"instruction": "q", "output": "a"})
    );
    assert_eq!((fate_of(&found, "datasets[0].type"), false_claims(&found)), (Some(Fate::Changed), vec![]));
}

#[test]
fn a_renamed_field_of_axolotl_is_carried_beside_the_usual_names() {
    for (named, fields) in [
        ("{field_input: ctx}", json!({"instruction": "instruction", "input": "ctx", "output": "output"})),
        ("{field_system: role}", json!({"instruction": "instruction", "output": "output", "system": "role"})),
        ("{field_instruction: q}", json!({"instruction": "q", "output": "output"})),
        ("{field_output: a}", json!({"instruction": "instruction", "output": "a"})),
    ] {
        let text =
            format!("base_model: a/b\nadapter: lora\ndatasets:\n- {{path: own.jsonl, type: {named}}}\n");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(value_at(&found, "training/dataset/field_mapping"), fields, "{named}");
    }
}

#[test]
fn fields_that_say_which_answers_are_learned_are_read_under_known_names() {
    let fate = |more: &str| {
        let text = format!("base_model: a/b\ndatasets:\n- path: a/c\n  type: chat_template\n  {more}\n");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        found.lines.iter().find(|line| line.key.contains("message_field_training")).unwrap().fate
    };
    assert_eq!(fate("message_field_training: train"), Fate::Unneeded);
    assert_eq!(fate("message_field_training: weight"), Fate::Unneeded);
    assert_eq!(fate("message_field_training: wanted"), Fate::Left);
    assert_eq!(fate("message_field_training_detail: train_detail"), Fate::Left);
}

/// There each dataset has its own template; here the training rows' is for all.
#[test]
fn validation_rows_of_another_type_are_said() {
    let of = |training: &str, held_out: &str| {
        let text = format!(
            "base_model: a/b\nadapter: lora\ndatasets: [{{path: a/c, type: {training}}}]\n\
             test_datasets: [{{path: a/d, type: {held_out}}}]\n"
        );
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(false_claims(&found), [""; 0], "{training} {held_out}");
        let said = line(&found, "test_datasets[0].type");
        (said.fate, said.why.clone())
    };
    for same in ["alpaca", "chat_template", "completion", "alpaca_chat"] {
        let fate = if same == "alpaca_chat" { Fate::Left } else { Fate::Unneeded };
        let (found, why) = of(same, same);
        assert!(found == fate && !why.contains("training rows' settings"), "{same}: {why}");
    }
    assert_eq!(of("chat_template", "sharegpt").0, Fate::Unneeded);
    for (training, held_out, expected) in [
        ("alpaca", "chat_template", "rows get Alpaca's headings, and of each dialogue"),
        ("alpaca", "{field_instruction: instruction, field_output: output}", "rows get Alpaca's headings:"),
        ("chat_template", "alpaca", "without Alpaca's headings"),
        ("completion", "alpaca", "without Alpaca's headings"),
        ("alpaca_chat", "chat_template", "of each dialogue the loss is that of the last answer"),
        ("chat_template", "completion", "the training rows are not running text"),
    ] {
        let (fate, why) = of(training, held_out);
        assert!(fate == Fate::Left && why.contains(expected), "{training} {held_out}: {why}");
    }
}

#[test]
fn types_that_only_begin_like_alpaca_do_not_get_its_headings() {
    let of = |kind: &str| {
        let text = format!("base_model: a/b\nadapter: lora\ndatasets: [{{path: a/c, type: '{kind}'}}]\n");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    for kind in ["alpaca", "alpaca:instruct", "alpaca_instruct", "alpaca_w_system.load_instruct"] {
        assert_eq!(value_at(&of(kind), "base_models/0/prompt_template"), "alpaca", "{kind}");
    }
    for kind in [
        "alpaca_chat",
        "alpaca_chat.load_concise",
        "alpaca_chat.load_qa",
        "alpaca_chat.load_no_prompt",
        "alpaca_w_system.load_open_orca",
        "alpaca:chatml",
        "alpacaqa",
    ] {
        let found = of(kind);
        assert_eq!(value_at(&found, "base_models/0/prompt_template"), Json::Null, "{kind}");
        assert_eq!(fate_of(&found, "datasets[0].type"), Some(Fate::Left), "{kind}");
    }
    let camel = of("alpaca_chat.load_camel_ai");
    assert_eq!(value_at(&camel, "base_models/0/prompt_template"), Json::Null);
    assert_eq!(
        value_at(&camel, "training/dataset/field_mapping"),
        json!({"instruction": "message_1", "output": "message_2"})
    );
    assert_eq!((fate_of(&camel, "datasets[0].type"), false_claims(&camel)), (Some(Fate::Changed), vec![]));
}

/// An answer without a mark is learned here, and there only where its role is trained.
#[test]
fn rows_of_which_only_marked_turns_are_learned_are_not_claimed() {
    let roles = |more: &str, top: &str| {
        let text = format!("base_model: a/b\n{top}datasets:\n- {{path: a/c, type: chat_template, {more}}}\n");
        let found = imported(&text, Path::new("config.yml")).unwrap();
        line(&found, "datasets[0].roles_to_train").clone()
    };
    let marked = roles("roles_to_train: [], message_field_training: train", "");
    assert_eq!(marked.fate, Fate::Left);
    assert!(marked.why.contains("only turns with a true `train` are learned there"), "{}", marked.why);
    assert!(marked.instead.contains("`\"train\": false`"), "{}", marked.instead);
    assert_eq!(roles("roles_to_train: [], message_field_training_detail: parts", "").fate, Fate::Left);
    assert_eq!(roles("roles_to_train: []", "").fate, Fate::Left);
    let all = roles("roles_to_train: [], message_field_training: train", "train_on_inputs: true\n");
    assert_eq!(all.fate, Fate::Unneeded);
    assert_eq!(roles("roles_to_train: [assistant]", "").why, "every assistant turn is learned");
    // Axolotl reads a key without a value as its default.
    assert_eq!(roles("roles_to_train: null", "").fate, Fate::Unneeded);
}

#[test]
fn a_file_that_is_not_rows_is_listed_and_not_named() {
    for (text, key) in [
        ("base_model: a/b\nadapter: lora\ndatasets: [{path: x.txt, type: completion}]\n", "datasets[0].path"),
        ("base_model: a/b\nadapter: lora\ndatasets: [x.txt]\n", "datasets[0]"),
        (
            "base_model: a/b\nadapter: lora\ndatasets: [{path: text, data_files: [x.txt]}]\n",
            "datasets[0].data_files",
        ),
        ("model_name_or_path: a/b\nstage: sft\ntemplate: qwen\ndataset: x.txt\n", "dataset"),
        ("model_name_or_path: a/b\nlora_r: 8\ndataset_name: x.txt\n", "dataset_name"),
    ] {
        let found = imported(text, Path::new("config.yml")).unwrap();
        let line = found.lines.iter().find(|line| line.key == key).unwrap();
        assert_eq!(line.fate, Fate::Left, "{text}");
        assert!(line.why.contains(".txt is not a format of data"), "{}", line.why);
        assert_eq!(value_at(&found, "training/dataset/path"), "datasets/train.jsonl", "{text}");
        assert!(found.copies.is_empty(), "{text}");
    }
}

#[test]
fn a_name_that_nothing_describes_is_listed_with_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let why = || {
        let text = "model_name_or_path: a/b\nstage: sft\ntemplate: qwen\ndataset: mine\n";
        let found = imported(text, &folder.path().join("config.yml")).unwrap();
        found.lines.into_iter().find(|line| line.key == "dataset").unwrap().why
    };
    assert_eq!(why(), "there is no readable data/dataset_info.json here that describes mine");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dataset_info.json"), "{\"other\": {}}").unwrap();
    assert!(why().ends_with("data/dataset_info.json does not describe mine"), "{}", why());
}

/// In the folder where dataset_info.json was found, wherever the program is started.
#[test]
fn data_beside_the_configuration_is_copied_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let info = json!({
        "file": {"file_name": "identity.json"},
        "folder": {"file_name": "rows"},
        "absent": {"file_name": "absent"},
        "wiki": {"file_name": "wiki.txt"},
    });
    std::fs::create_dir_all(data.join("rows")).unwrap();
    std::fs::write(data.join("dataset_info.json"), info.to_string()).unwrap();
    std::fs::write(data.join("identity.json"), "[]").unwrap();
    std::fs::write(folder.path().join("own.jsonl"), "{}").unwrap();
    let of = |text: &str| {
        let found = imported(text, &folder.path().join("config.yml")).unwrap();
        found.copies.into_iter().map(|copy| (PathBuf::from(copy.from), copy.to)).collect::<Vec<_>>()
    };
    for (name, file) in
        [("file", "identity.json"), ("folder", "rows"), ("absent", "absent"), ("wiki,file", "identity.json")]
    {
        let text = format!("model_name_or_path: a/b\nstage: sft\ntemplate: qwen\ndataset: {name}\n");
        assert_eq!(of(&text), [(data.join(file), format!("datasets/{file}"))], "{name}");
    }
    let text = "base_model: a/b\nadapter: lora\ndatasets: [{path: own.jsonl, type: alpaca}]\n";
    assert_eq!(of(text), [(folder.path().join("own.jsonl"), "datasets/own.jsonl".to_owned())]);
}

#[test]
fn running_text_keeps_its_tokens() {
    let settings = |imported: &Imported| {
        ["dataset/overlong", "dataset/text_dialogue", "config/packing"]
            .map(|path| value_at(imported, &format!("training/{path}")))
    };
    let of = |text: &str| imported(text, Path::new("config.yml")).unwrap();
    let axolotl = "base_model: a/b\nadapter: lora\n";
    let texts = of(&format!("{axolotl}datasets: [{{path: a/texts, type: completion}}]\n"));
    assert_eq!(settings(&texts), [json!("split"), json!("raw"), Json::Null]);
    // Axolotl cuts the texts before it looks for long rows.
    let text =
        format!("{axolotl}excess_length_strategy: raise\ndatasets: [{{path: a/texts, type: completion}}]\n");
    let texts = of(&text);
    assert_eq!(settings(&texts)[0], "split");
    assert_eq!(fate_of(&texts, "excess_length_strategy"), Some(Fate::Unneeded));
    // Texts that are still to be written as rows.
    let text = format!("{axolotl}datasets: [{{path: book.txt, type: completion}}]\n");
    assert_eq!(settings(&of(&text))[..2], [json!("split"), json!("raw")]);
    let mixed = format!(
        "{axolotl}datasets: [{{path: a/texts, type: completion}}, {{path: a/chat, type: chat_template}}]\n"
    );
    let mixed = of(&mixed);
    assert_eq!(settings(&mixed)[..2], [json!("drop"), Json::Null]);
    let advice = &line(&mixed, "datasets[0].type").instead;
    assert!(advice.contains("training.dataset.overlong to \"split\""), "{advice}");

    let factory = "model_name_or_path: a/b\ntemplate: qwen\nstage: pt\n";
    for (more, expected) in [
        ("dataset: texts\n", [json!("split"), json!("raw"), json!(true)]),
        ("dataset: book.txt\n", [json!("split"), json!("raw"), json!(true)]),
        ("dataset: texts\nneat_packing: true\npacking: false\n", [json!("split"), json!("raw"), json!(true)]),
        // Without packing LLaMA-Factory cuts off what is longer.
        ("dataset: texts\npacking: false\n", [Json::Null, json!("raw"), json!(false)]),
    ] {
        let found = of(&format!("{factory}{more}"));
        assert_eq!(settings(&found), expected, "{more}");
        assert_eq!(false_claims(&found), [""; 0], "{more}");
    }
    assert_eq!(settings(&read_file("llama-factory-pretrain.yaml"))[..2], [json!("split"), json!("raw")]);

    let folder = tempfile::tempdir().unwrap();
    let info = json!({
        "rows": {"file_name": "rows.json", "columns": {"prompt": "body", "response": "answer"}},
        "chat": {"file_name": "chat.json", "formatting": "sharegpt"},
    });
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
    let of = |text: &str| imported(&format!("{factory}{text}"), &folder.path().join("config.yml")).unwrap();
    // Only the prompt is learned there, whatever else a row has.
    let rows = of("dataset: rows\n");
    assert_eq!(value_at(&rows, "training/dataset/field_mapping"), json!({"text": "body"}));
    assert_eq!(settings(&rows)[0], "split");
    let chat = of("dataset: chat\n");
    assert_eq!(settings(&chat)[0], Json::Null);
    assert!(line(&chat, "stage").instead.contains("overlong to \"split\""), "{:?}", line(&chat, "stage"));
}

#[test]
fn one_file_of_a_dataset_is_not_claimed() {
    let of = |dataset: &str| {
        let text = format!("base_model: a/b\nadapter: lora\ndatasets: [{{{dataset}, type: alpaca}}]\n");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    for dataset in [
        "path: teknium/GPT4-LLM-Cleaned, data_files: alpaca_gpt4_data.json",
        "path: teknium/GPT4-LLM-Cleaned, data_files: [a.json, b.json]",
        "path: ./rows, data_files: a.json",
    ] {
        let found = of(dataset);
        let line = line(&found, "datasets[0].data_files");
        assert_eq!((line.fate, line.here.len()), (Fate::Left, 0), "{dataset}");
        assert!(line.why.contains("every file"), "{}", line.why);
        assert_ne!(fate_of(&found, "datasets[0].path"), Some(Fate::Unneeded), "{dataset}");
    }
    assert_eq!(fate_of(&of("path: json, data_files: a.json"), "datasets[0].data_files"), Some(Fate::Changed));
}

#[test]
fn every_file_of_data_files_is_taken() {
    let of = |files: &str| {
        let datasets = format!("[{{path: json, data_files: [{files}], type: alpaca}}]");
        let text = format!("base_model: a/b\nadapter: lora\ndatasets: {datasets}\n");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    let found = of("x/a.jsonl, y/b.jsonl, z/a.jsonl");
    assert_eq!(value_at(&found, "training/dataset/path"), "datasets/train");
    let copies: Vec<_> = found.copies.iter().map(|copy| (copy.from.as_str(), copy.to.as_str())).collect();
    assert_eq!(
        copies,
        [
            ("x/a.jsonl", "datasets/train/a.jsonl"),
            ("y/b.jsonl", "datasets/train/b.jsonl"),
            ("z/a.jsonl", "datasets/train/a-2.jsonl")
        ]
    );
    let named = line(&found, "datasets[0].data_files");
    assert_eq!(named.fate, Fate::Changed);
    assert_eq!(named.here, copies.iter().map(|(_, to)| *to).collect::<Vec<_>>());
    assert!(named.instead.contains("copy z/a.jsonl there"), "{}", named.instead);
    assert_eq!(value_at(&found, "base_models/0/prompt_template"), "alpaca");

    let found = of("a.jsonl, b.txt");
    assert_eq!(value_at(&found, "training/dataset/path"), "datasets/a.jsonl");
    let named = line(&found, "datasets[0].data_files");
    assert!(named.fate == Fate::Left && named.why.starts_with("b.txt: "), "{named:?}");
}

/// Training on validation rows is a mistake that no score shows.
#[test]
fn the_files_of_a_pattern_have_a_separate_folder() {
    let of = |files: &str| {
        let text = format!(
            "base_model: a/b\nadapter: lora\ndatasets: [{{path: json, data_files: [{files}], type: alpaca}}]\n\
             test_datasets: [{{path: json, data_files: 'val/*.jsonl', type: alpaca}}]\n"
        );
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(value_at(&found, "training/dataset/validation_path"), "datasets/validation");
        found
    };
    let found = of("'data/*.jsonl'");
    assert_eq!(value_at(&found, "training/dataset/path"), "datasets/train");
    assert_eq!(line(&found, "datasets[0].data_files").here, ["datasets/train"]);
    let copies: Vec<_> = found.copies.iter().map(|copy| (copy.from.as_str(), copy.to.as_str())).collect();
    assert_eq!(copies, [("data/*.jsonl", "datasets/train"), ("val/*.jsonl", "datasets/validation")]);

    let several = of("'a/*.jsonl', 'b/part-?.jsonl', c.jsonl");
    let paths = ["datasets/train", "datasets/train-2", "datasets/c.jsonl"].map(|path| json!({"path": path}));
    assert_eq!(value_at(&several, "training/dataset/tasks"), json!(paths));
    let query = of("'https://example.com/x.jsonl?download=true'");
    assert_ne!(value_at(&query, "training/dataset/path"), "datasets/train");
}

#[test]
fn a_dataset_that_is_named_twice_is_two_tasks() {
    let text = "base_model: a/b\nadapter: lora\ndatasets: [{path: a/x, type: alpaca}, {path: a/x, type: alpaca}, \
                {path: a/y, type: alpaca}, {path: a/x, type: alpaca}]\n";
    let found = imported(text, Path::new("config.yml")).unwrap();
    let tasks = json!([
        {"path": "a/x::train"},
        {"path": "a/x::train", "name": "a/x::train-2"},
        {"path": "a/y::train"},
        {"path": "a/x::train", "name": "a/x::train-3"},
    ]);
    assert_eq!(value_at(&found, "training/dataset/tasks"), tasks);
}

#[test]
fn a_file_that_is_also_validation_data_keeps_its_place_in_the_list() {
    let of = |held_out: &str| {
        let text = format!(
            "base_model: a/b\nadapter: lora\ndatasets: [{{path: a.jsonl, type: alpaca}}]\n\
             test_datasets: [{held_out}]\n"
        );
        let found = imported(&text, Path::new("config.yml")).unwrap();
        assert_eq!(value_at(&found, "training/dataset/path"), "datasets/a.jsonl");
        let said = line(&found, "datasets[0].path");
        assert_eq!(
            (said.fate, said.here.as_slice()),
            (Fate::Changed, ["datasets/a.jsonl".to_owned()].as_slice())
        );
        line(&found, "test_datasets[0].path").here.clone()
    };
    let two = "{path: a.jsonl, type: alpaca}, {path: b.jsonl, type: alpaca}";
    assert_eq!(of(two), ["datasets/validation/a.jsonl"]);
    of("{path: b/x, type: alpaca}, {path: a.jsonl, type: alpaca}");
}

#[test]
fn what_evaluates_rows_held_out_by_number_is_left() {
    let keys = ["eval_steps", "evals_per_epoch", "early_stopping_patience", "load_best_model_at_end"];
    for (held_out, fate) in [("200", Fate::Left), ("0", Fate::Unneeded)] {
        let text = format!(
            "base_model: a/b\nadapter: lora\ndatasets: [{{path: a.jsonl, type: alpaca}}]\nval_set_size: {held_out}\n\
             eval_steps: 50\nevals_per_epoch: 2\nearly_stopping_patience: 3\nload_best_model_at_end: true\n"
        );
        let found = imported(&text, Path::new("config.yml")).unwrap();
        for key in keys {
            assert_eq!(fate_of(&found, key), Some(fate), "{held_out}: {key}");
        }
        let instead = &line(&found, "evals_per_epoch").instead;
        assert_eq!(instead.ends_with("training.config.evaluation_strategy"), fate == Fate::Left, "{instead}");
    }
}

#[test]
fn columns_and_tags_of_a_described_dataset_are_carried_or_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let of = |described: Json| {
        let mut info = json!({"rows": {"file_name": "rows.json"}});
        info["rows"].as_object_mut().unwrap().extend(described.as_object().unwrap().clone());
        std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
        let text = "model_name_or_path: a/b\ntemplate: qwen\nstage: sft\ndataset: rows\n";
        let found = imported(text, &folder.path().join("config.yml")).unwrap();
        (value_at(&found, "training/dataset/field_mapping"), line(&found, "dataset").why.clone())
    };
    let mapped = |described: Json| of(described).0;
    for (columns, expected) in [
        (
            json!({"prompt": "instruction", "query": "input", "response": "output", "system": "role"}),
            json!({"instruction": "instruction", "input": "input", "output": "output", "system": "role"}),
        ),
        (
            json!({"prompt": "q", "response": "a", "system": "system"}),
            json!({"instruction": "q", "output": "a", "system": "system"}),
        ),
        (json!({"prompt": "instruction", "response": "output", "system": "system"}), Json::Null),
        (json!({"prompt": "instruction", "response": "output", "history": "history"}), Json::Null),
        (
            json!({"prompt": "q", "response": "a", "history": "past"}),
            json!({"instruction": "q", "output": "a", "history": "past"}),
        ),
    ] {
        assert_eq!(mapped(json!({"columns": columns})), expected, "{columns}");
    }
    for (columns, expected) in [
        (
            json!({"messages": "conversations", "system": "role"}),
            json!({"messages": "conversations", "system": "role"}),
        ),
        (
            json!({"messages": "talk", "system": "system", "tools": "tools"}),
            json!({"messages": "talk", "system": "system", "tools": "tools"}),
        ),
        (
            json!({"messages": "messages", "tools": "functions"}),
            json!({"messages": "messages", "tools": "functions"}),
        ),
        (json!({"messages": "conversations", "system": "system", "tools": "tools"}), Json::Null),
    ] {
        assert_eq!(mapped(json!({"formatting": "sharegpt", "columns": columns})), expected, "{columns}");
    }
    let (_, why) = of(json!({"columns": {"prompt": "q", "response": "a", "tools": "functions"}}));
    assert!(why.contains("columns.tools"), "{why}");
    for tag in ["observation_tag", "function_tag"] {
        let (_, why) = of(json!({"formatting": "sharegpt", "tags": {tag: "else"}}));
        assert!(why.contains("tags"), "{tag}: {why}");
        let usual = if tag == "function_tag" { "function_call" } else { "observation" };
        let (_, why) = of(json!({"formatting": "sharegpt", "tags": {tag: usual}}));
        assert!(!why.contains("tags"), "{tag}: {why}");
    }
}

#[test]
fn rows_of_a_described_dataset_that_are_elsewhere_or_fewer_are_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let of = |described: Json| {
        let info = json!({"rows": described});
        std::fs::write(folder.path().join("data/dataset_info.json"), info.to_string()).unwrap();
        let text = "model_name_or_path: a/b\ntemplate: qwen\nstage: sft\ndataset: rows\n";
        let found = imported(text, &folder.path().join("config.yml")).unwrap();
        let said = line(&found, "dataset").clone();
        assert!(!said.instead.contains("field_mapping"), "{}", said.instead);
        let copies: Vec<(String, String)> =
            found.copies.iter().map(|copy| (copy.from.clone(), copy.to.clone())).collect();
        (said.why, said.instead, copies)
    };
    let (why, instead, _) = of(json!({"file_name": "rows.json", "num_samples": 100}));
    assert!(why.contains("all rows are used"), "{why}");
    assert!(instead.contains("a file with as many rows"), "{instead}");

    for described in
        [json!({"ms_hub_url": "a/talk-1.5"}), json!({"ms_hub_url": "a/talk-1.5", "file_name": "x.json"})]
    {
        let (why, instead, copies) = of(described);
        assert!(why.contains("a/talk-1.5 is a dataset of ModelScope"), "{why}");
        assert_eq!(instead, "download it from ModelScope to datasets/talk-1.5");
        let from = "https://www.modelscope.cn/datasets/a/talk-1.5".to_owned();
        assert_eq!(copies, [(from, "datasets/talk-1.5".to_owned())]);
    }
    assert!(of(json!({"om_hub_url": "a/talk"})).1.contains("from Modelers"));

    let (why, instead, copies) = of(json!({"cloud_file_name": "s3://store/rows.jsonl"}));
    assert_eq!((&*why, &*instead), ("data is in the expert's folder", ""));
    assert_eq!(copies, [("s3://store/rows.jsonl".to_owned(), "datasets/rows.jsonl".to_owned())]);

    let (why, instead, copies) = of(json!({"script_url": "belle"}));
    assert!(why.contains("the script belle makes the rows"), "{why}");
    assert!(instead.contains("let it write them") && copies.is_empty(), "{instead}");

    let (why, ..) = of(json!({"hf_hub_url": "a/b", "ms_hub_url": "a/c", "folder": "python"}));
    assert_eq!(why, "without folder: every file of the dataset is read");
    assert_eq!(of(json!({"hf_hub_url": "a/b", "ms_hub_url": "a/c"})).0, "");
}

#[test]
fn a_part_of_a_split_is_not_claimed_for_a_file() {
    let of = |dataset: &str| {
        let text = format!("base_model: a/b\nadapter: lora\ndatasets: [{{{dataset}, type: alpaca}}]\n");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    let found = of("path: rows.jsonl, split: 'train[:50%]'");
    assert_eq!(fate_of(&found, "datasets[0].split"), Some(Fate::Left));
    assert_eq!(fate_of(&of("path: rows.jsonl, split: train"), "datasets[0].split"), Some(Fate::Unneeded));
    let hub = of("path: a/rows, split: 'train[:50%]'");
    assert_eq!(value_at(&hub, "training/dataset/path"), "a/rows::train[:50%]");
}

#[test]
fn validation_rows_of_trl_are_those_of_its_default_split() {
    let of = |more: &str| {
        let text = format!("model_name_or_path: a/b\nlora_r: 8\n{more}");
        imported(&text, Path::new("config.yml")).unwrap()
    };
    let path = |imported: &Imported| value_at(imported, "training/dataset/validation_path");
    let found = of("dataset_name: x/y\ndataset_config: de\neval_strategy: steps\neval_steps: 50\n");
    assert_eq!(path(&found), "x/y::test::de");
    assert_eq!(fate_of(&found, "dataset_test_split"), Some(Fate::Default));
    assert_eq!(value_at(&found, "training/config/evaluation_strategy"), "steps");
    assert_eq!(value_at(&found, "training/config/eval_steps"), 50);
    for more in [
        "dataset_name: x/y\n",
        "dataset_name: x/y\neval_strategy: 'no'\n",
        "dataset_name: x/y\neval_strategy: no\n",
        "dataset_name: rows.jsonl\neval_strategy: steps\n",
        "train_file: x/y\neval_strategy: steps\n",
    ] {
        assert_eq!(path(&of(more)), Json::Null, "{more}");
    }
    let found = of("dataset_name: x/y\neval_strategy: epoch\nvalidation_file: v.jsonl\n");
    assert_eq!(path(&found), "datasets/v.jsonl");
    let found = of("dataset_name: x/y\neval_strategy: epoch\ndataset_test_split: dev\n");
    assert_eq!(path(&found), "x/y::dev");
    let found = of("dataset_name: x/y\neval_strategy: epoch\ndataset_test_split: null\n");
    assert_eq!(path(&found), "x/y::test");
}

fn of_trl(more: &str) -> Imported {
    let text = format!("model_name_or_path: a/b\nuse_peft: true\n{more}");
    imported(&text, Path::new("config.yml")).unwrap()
}

#[test]
fn a_mixture_of_trl_is_several_tasks() {
    let found = of_trl(
        "dataset_name: ignored/there\n\
         datasets:\n\
         - {path: x/y, split: train_sft, columns: [messages]}\n\
         - {path: x/z, name: de}\n\
         - {path: json, data_files: {train: [rows/a.jsonl, rows/b.jsonl], test: t.jsonl}}\n\
         streaming: false\ntest_split_size: 0.1\neval_strategy: steps\neval_steps: 50\n",
    );
    let paths = ["x/y::train_sft", "x/z::train::de", "datasets/a.jsonl", "datasets/b.jsonl"];
    let tasks: Vec<Json> = paths.iter().map(|path| json!({"path": path})).collect();
    assert_eq!(value_at(&found, "training/dataset/tasks"), json!(tasks));
    assert_eq!(value_at(&found, "training/dataset/path"), Json::Null);
    assert_eq!(value_at(&found, "training/dataset/validation_split"), 0.1);
    assert_eq!(value_at(&found, "training/config/eval_steps"), 50);
    assert_eq!(fate_of(&found, "datasets"), None, "every part has its line");
    assert_eq!(fate_of(&found, "dataset_name"), Some(Fate::Unneeded));
    assert_eq!(fate_of(&found, "datasets[0].columns"), Some(Fate::Unneeded));
    assert_eq!(line(&found, "datasets[2].data_files").here, ["datasets/a.jsonl", "datasets/b.jsonl"]);
    let copies: Vec<_> = found.copies.iter().map(|copy| copy.from.as_str()).collect();
    assert_eq!(copies, ["rows/a.jsonl", "rows/b.jsonl"]);
    assert_eq!(false_claims(&found), [""; 0]);

    let one = of_trl("datasets: [{path: x/y, data_dir: python}]\ntest_split_size: 200\n");
    assert_eq!(value_at(&one, "training/dataset/path"), "x/y::train");
    assert_eq!(fate_of(&one, "datasets[0].data_dir"), Some(Fate::Left));
    assert_eq!(fate_of(&one, "test_split_size"), Some(Fate::Left));
    let folder = of_trl("datasets: [{path: parquet, data_dir: shards}]\n");
    assert_eq!(value_at(&folder, "training/dataset/path"), "datasets/shards");
    assert_eq!(value_at(&folder, "training/dataset/format"), "parquet");
    let texts = of_trl("datasets: [{path: text, data_files: book.txt, columns: [text]}, {path: x/y}]\n");
    assert_eq!(value_at(&texts, "training/dataset/path"), "x/y::train");
    assert_eq!(fate_of(&texts, "datasets[0].data_files"), Some(Fate::Left));
    let single = of_trl("dataset_name: x/y\ntest_split_size: 0.1\n");
    assert_eq!(value_at(&single, "training/dataset/validation_split"), Json::Null);
    assert_eq!(fate_of(&single, "test_split_size"), Some(Fate::Unneeded));
}

#[test]
fn files_by_split_are_those_of_the_split() {
    let files = "path: json, data_files: {train: a.jsonl, test: t.jsonl}";
    let part = of_trl(&format!("datasets: [{{{files}, split: 'train[:10%]'}}]\n"));
    assert_eq!(value_at(&part, "training/dataset/path"), "datasets/a.jsonl");
    assert_eq!(fate_of(&part, "datasets[0].split"), Some(Fate::Left));
    let none = of_trl(&format!("datasets: [{{{files}, split: dev}}, {{path: x/y}}]\n"));
    assert_eq!(value_at(&none, "training/dataset/path"), "x/y::train");
    assert!(line(&none, "datasets[0]").why.contains("none is named for this split"));
    let text = format!("base_model: a/b\ndatasets: [{{{files}, split: 'train[:10%]', type: alpaca}}]\n");
    let axolotl = imported(&text, Path::new("config.yml")).unwrap();
    assert_eq!(value_at(&axolotl, "training/dataset/path"), "datasets/a.jsonl");
    let text =
        format!("base_model: a/b\ndatasets:\n- {{{files}, split: dev, type: alpaca}}\n- {{path: x/y}}\n");
    let axolotl = imported(&text, Path::new("config.yml")).unwrap();
    assert_eq!(fate_of(&axolotl, "datasets[0]"), Some(Fate::Left));
}

#[test]
fn fractions_of_a_mixture_are_weights() {
    let found = of_trl(
        "datasets: [{path: a.jsonl, fraction: 0.75}, {path: book.txt, fraction: 0.5}, {path: b.jsonl, fraction: 0.25}]\n",
    );
    let tasks = json!([
        {"path": "datasets/a.jsonl", "weight": 0.75},
        {"path": "datasets/b.jsonl", "weight": 0.25},
    ]);
    assert_eq!(value_at(&found, "training/dataset/tasks"), tasks);
    assert_eq!(line(&found, "datasets[2].fraction").here, ["training.dataset.tasks.1.weight = 0.25"]);
    assert_eq!(fate_of(&found, "datasets[1].fraction"), Some(Fate::Unneeded));
    assert_eq!(false_claims(&found), [""; 0]);
    let found = of_trl("datasets: [{path: a.jsonl, fraction: 0.75}, {path: b.jsonl}]\n");
    assert_eq!(fate_of(&found, "datasets[0].fraction"), Some(Fate::Left));
    assert_eq!(value_at(&found, "training/dataset/tasks/0/weight"), Json::Null);
    let several = "{path: json, data_files: [a.jsonl, b.jsonl], fraction: 0.5}, {path: x/y, fraction: 0.5}";
    let found = of_trl(&format!("datasets: [{several}]\n"));
    assert_eq!(fate_of(&found, "datasets[0].fraction"), Some(Fate::Left));
    assert_eq!(fate_of(&found, "datasets[1].fraction"), Some(Fate::Left));
    assert_eq!(value_at(&found, "training/dataset/tasks/0/weight"), Json::Null);
}

#[test]
fn selected_columns_are_read_and_no_others() {
    let of = |columns: &str| of_trl(&format!("datasets: [{{path: x/y, columns: [{columns}]}}]\n"));
    let found = of("prompt, completion");
    let mapping = json!({"prompt": "prompt", "completion": "completion"});
    assert_eq!(value_at(&found, "training/dataset/field_mapping"), mapping);
    assert_eq!(fate_of(&found, "datasets[0].columns"), Some(Fate::Carried));
    let unknown = of("frage, antwort");
    assert_eq!(value_at(&unknown, "training/dataset/field_mapping"), Json::Null);
    assert_eq!(fate_of(&unknown, "datasets[0].columns"), Some(Fate::Left));
    assert_eq!(value_at(&of("messages, source"), "training/dataset/field_mapping"), Json::Null);
}
