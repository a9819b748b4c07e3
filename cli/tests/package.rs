//! Packages of finished runs: made, signed, verified, installed.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;
#[path = "common/packages.rs"]
mod packages;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use common::World;
use packages::{
    PACKAGE, RUN, archive, constrained_by, document, edit, plain, refused, run, sha256, talk, trained, tree,
    unpacked,
};
use serde_json::{Value, json};

fn packaged() -> World {
    let world = trained();
    document(&world, &["package", "experts/a"]);
    world
}

/// With keys `release` and `other`, and a package that `release` signed.
fn signed() -> World {
    let world = trained();
    for name in ["release.pem", "other.pem"] {
        document(&world, &["keygen", "--output", name]);
    }
    document(&world, &["package", "experts/a", "--sign", "release.pem"]);
    world
}

#[test]
fn an_expert_is_refused_as_a_package() {
    let world = trained();
    let output = run(&world, &["verify", "experts/a"]);
    assert_eq!(output.status.code(), Some(2));
    let said = talk(&output);
    assert!(
        said.contains("is an expert, not an unpacked package")
            && said.contains("expert-cli package experts/a"),
        "{said}"
    );
}

#[test]
fn a_package_holds_the_files_of_the_adapter_and_a_manifest_of_one_base() {
    let world = trained();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["base_models"].as_array_mut().unwrap().push(json!({"name": "Qwen/Qwen3-0.6B"}));
        manifest["training"]["decoding"] = json!({"grammar_file": "rules/answers.gbnf"});
        manifest["capabilities"] = json!(["task:sql"]);
    });
    std::fs::create_dir(world.path("experts/a/rules")).unwrap();
    std::fs::write(world.path("experts/a/rules/answers.gbnf"), "root ::= \"yes\"\n").unwrap();
    constrained_by(&world, "root ::= \"yes\"\n");
    std::fs::write(world.path("experts/a/LICENSE"), "free\n").unwrap();
    std::fs::write(world.path(RUN).join("final/notes.txt"), "mine").unwrap();
    let output = run(&world, &["package", "experts/a"]);
    assert!(output.status.success(), "{}", talk(&output));
    assert!(talk(&output).contains("final/notes.txt is not a file of a package and is left out"));
    assert!(talk(&output).contains(&format!("next: expert-cli verify {PACKAGE}")), "{}", talk(&output));

    let files = unpacked(&world.path(PACKAGE));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "manifest.json",
            "LICENSE",
            "README.md",
            "adapter_config.json",
            "adapter_model.safetensors",
            "chat_template.jinja",
            "expert.json",
            "generation_config.json",
            "grammar.gbnf",
            "tokenizer.json",
            "tokenizer_config.json",
        ]
    );
    let manifest: Value = serde_json::from_slice(&files[0].1).unwrap();
    let bases = manifest["base_models"].as_array().unwrap();
    assert_eq!((bases.len(), &bases[0]["name"]), (1, &json!("smollm2-135m-instruct")));
    assert_eq!(manifest["training"]["decoding"]["grammar_file"], "grammar.gbnf");
    assert_eq!(manifest["capabilities"], json!(["task:sql"]));
    let beside = std::fs::read_to_string(world.path(&format!("{PACKAGE}.sha256"))).unwrap();
    assert_eq!(beside, format!("{}  {PACKAGE}\n", sha256(&std::fs::read(world.path(PACKAGE)).unwrap())));
}

/// The fields that the format's own documentation names, read with nothing of this program.
#[test]
fn the_documented_fields_are_there() {
    let world = packaged();
    let files: BTreeMap<String, Vec<u8>> = unpacked(&world.path(PACKAGE)).into_iter().collect();
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
    assert_eq!((&manifest["name"], &manifest["version"]), (&json!("a"), &json!("0.1.0")));
    let listed = manifest["integrity"]["files"].as_object().unwrap();
    assert_eq!(listed.len(), files.len() - 1, "every file except the manifest");
    for (name, digest) in listed {
        assert_eq!(digest.as_str().unwrap(), format!("sha256:{}", sha256(&files[name])), "{name}");
        assert_eq!(manifest["integrity"]["sizes"][name], files[name].len(), "{name}");
    }
    let adapter = &manifest["base_models"][0]["adapters"][0];
    let weights = &files[adapter["path"].as_str().unwrap()];
    assert_eq!(adapter["size_bytes"], weights.len());
    assert_eq!(adapter["sha256"], sha256(weights));
    assert_eq!(adapter["type"], "lora");
    assert_eq!((&adapter["r"], &adapter["alpha"]), (&json!(4), &json!(8)));
    assert_eq!(adapter["target_modules"], json!(["q_proj"]));
}

#[test]
fn two_packages_of_one_run_are_the_same_bytes() {
    let world = packaged();
    let first = std::fs::read(world.path(PACKAGE)).unwrap();
    let again = document(&world, &["package", "experts/a"]);
    assert_eq!(again["unchanged"], true);
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for (path, content) in tree(&world.path(RUN).join("final")) {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(earlier).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(1100));
    document(&world, &["package", RUN, "--output", "other.expert"]);
    assert_eq!(std::fs::read(world.path("other.expert")).unwrap(), first);
    edit(&world.path("experts/a/manifest.json"), |manifest| manifest["description"] = json!("changed"));
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert_eq!(code, "package-exists");
    assert!(message.contains("a new version"), "{message}");
    assert_eq!(std::fs::read(world.path(PACKAGE)).unwrap(), first);
}

#[test]
fn a_folder_cannot_be_the_name_of_a_package() {
    let world = packaged();
    let (code, message) = refused(&world, &["package", "experts/a", "--output", "."]);
    assert_eq!(code, "output-folder");
    assert!(message.contains(". is a folder, and a package is a file"), "{message}");
}

/// As where the temporary folder is full: the package is larger than a file may be.
#[test]
fn a_temporary_folder_that_does_not_take_the_package_is_named() {
    let world = trained();
    let temporary = world.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let package = world.expert_cli(&["package", "experts/a"], "");
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1; exec \"$@\"", "sh"])
        .arg(package.get_program())
        .args(package.get_args());
    limited.current_dir(world.path(".")).env("TMPDIR", &temporary).env("EXPERT_HOME", world.path("home"));
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", talk(&output));
    let named = format!("cannot write to the temporary folder {}: ", temporary.display());
    assert!(talk(&output).contains(&named), "{}", talk(&output));
    assert!(talk(&output).contains("hint: set TMPDIR to a folder"), "{}", talk(&output));
    assert!(!world.path(PACKAGE).exists());
}

#[test]
fn a_package_can_be_signed_after_it_was_made_and_a_signature_is_not_lost() {
    let world = packaged();
    let unsigned = std::fs::read(world.path(PACKAGE)).unwrap();
    for name in ["release.pem", "other.pem"] {
        document(&world, &["keygen", "--output", name]);
    }
    let done = document(&world, &["package", "experts/a", "--sign", "release.pem"]);
    assert_eq!(done["unchanged"], false);
    let signed = std::fs::read(world.path(PACKAGE)).unwrap();
    assert_ne!(signed, unsigned);
    let beside = std::fs::read_to_string(world.path(&format!("{PACKAGE}.sha256"))).unwrap();
    assert_eq!(beside, format!("{}  {PACKAGE}\n", sha256(&signed)));
    let verified = document(&world, &["verify", PACKAGE, "--key", "release.pub.pem"]);
    assert_eq!(verified["ok"], true);
    for (command, words) in [
        (&["package", "experts/a"][..], "the same package with a signature"),
        (&["package", "experts/a", "--sign", "other.pem"], "the same package with another signature"),
    ] {
        let (code, message) = refused(&world, command);
        assert!(code == "package-exists" && message.contains(words), "{message}");
    }
    assert_eq!(std::fs::read(world.path(PACKAGE)).unwrap(), signed);
}

#[test]
fn no_folder_of_the_machine_gets_into_a_package() {
    let world = trained();
    let data = world.path("experts/a/datasets/train.jsonl").to_str().unwrap().to_owned();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["dataset"]["path"] = json!(data);
    });
    document(&world, &["package", "experts/a"]);
    let folder = world.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    for (name, content) in unpacked(&world.path(PACKAGE)) {
        assert!(!String::from_utf8_lossy(&content).contains(&folder), "{name}");
    }
    let manifest: Value = serde_json::from_slice(&unpacked(&world.path(PACKAGE))[0].1).unwrap();
    assert_eq!(manifest["training"]["dataset"]["path"], "train.jsonl");
}

#[test]
fn only_keys_that_hold_paths_are_shortened() {
    let world = trained();
    let data = world.path("experts/a/datasets/train.jsonl").to_str().unwrap().to_owned();
    let more = world.path("experts/a/datasets/more.jsonl").to_str().unwrap().to_owned();
    std::fs::write(&more, "{\"prompt\": \"a\", \"completion\": \"b\"}\n").unwrap();
    let labels = json!(["/start", "/help", "~/", "//"]);
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["dataset"]["path"] = json!(data);
        manifest["training"]["dataset"]["field_mapping"] = json!({"prompt": "/question"});
        manifest["training"]["decoding"] = json!({"stop_sequences": ["/end", "//", "~~"]});
        manifest["training"]["script"] = json!("/home/me/train.py");
        manifest["training"]["dataset_generation"] =
            json!({"prompt": "/write a row", "script_path": "/home/me/make.py"});
        manifest["evaluation"] = json!({
            "scorer": {"classification": {"labels": labels}},
            "test_cases": [{"prompt": "/begin", "expected": "/start"}],
            "test_sets": {"more": more},
        });
    });
    document(&world, &["package", "experts/a"]);
    let manifest: Value = serde_json::from_slice(&unpacked(&world.path(PACKAGE))[0].1).unwrap();
    let training = &manifest["training"];
    assert_eq!(training["decoding"]["stop_sequences"], json!(["/end", "//", "~~"]));
    assert_eq!(training["dataset"]["field_mapping"], json!({"prompt": "/question"}));
    assert_eq!(training["dataset"]["path"], "train.jsonl");
    assert_eq!(training["script"], "train.py");
    assert_eq!(training["dataset_generation"], json!({"prompt": "/write a row", "script_path": "make.py"}));
    assert_eq!(
        manifest["evaluation"],
        json!({
            "scorer": {"classification": {"labels": labels}},
            "test_cases": [{"prompt": "/begin", "expected": "/start"}],
            "test_sets": {"more": "more.jsonl"},
        })
    );
}

/// Data, the cache and the mirror may have been elsewhere, where `--allow-path` said.
#[test]
fn an_expert_with_data_outside_its_folder_is_usable_after_install() {
    let world = trained();
    std::fs::create_dir(world.path("experts/shared")).unwrap();
    for name in ["train", "more"] {
        let rows = world.path(&format!("experts/shared/{name}.jsonl"));
        std::fs::copy(world.path("experts/a/datasets/train.jsonl"), rows).unwrap();
    }
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["dataset"]["path"] = json!("../shared/train.jsonl");
        manifest["training"]["config"]["checkpoint_mirror"] = json!("file:///mnt/nas/alice/{expert-name}");
        manifest["training"]["config"]["pretokenized_cache"] = json!("..");
        manifest["evaluation"]["test_sets"] = json!({"more": "..\\shared/more.jsonl"});
    });
    document(&world, &["package", "experts/a"]);
    let manifest: Value = serde_json::from_slice(&unpacked(&world.path(PACKAGE))[0].1).unwrap();
    assert_eq!(manifest["training"]["dataset"]["path"], "train.jsonl");
    assert_eq!(manifest["training"]["config"]["checkpoint_mirror"], "{expert-name}");
    assert_eq!(manifest["training"]["config"]["pretokenized_cache"], ".");
    assert_eq!(manifest["evaluation"]["test_sets"], json!({"more": "more.jsonl"}));
    let folder = document(&world, &["install", PACKAGE, "--registry", "registry"])["folder"].clone();
    let ask = ["generate", folder.as_str().unwrap(), "--prompt", "x"];
    let output = world.expert_cli(&ask, "steps=1").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn a_base_that_is_a_plain_text_is_packaged_as_any() {
    let base = "smollm2-135m-instruct";
    let package = |name: &str, value: Value| {
        let world = trained();
        edit(&world.path("experts/a/manifest.json"), |manifest| {
            let manifest = manifest.as_object_mut().unwrap();
            manifest.retain(|key, _| key != "base_models" && key != "schema_version");
            manifest.insert(name.to_owned(), value);
        });
        document(&world, &["package", "experts/a"]);
        document(&world, &["install", PACKAGE, "--registry", "registry"]);
        serde_json::from_slice::<Value>(&unpacked(&world.path(PACKAGE))[0].1).unwrap()
    };
    let first = package("base_model", json!(base));
    assert_eq!((&first["base_model"], first.get("base_models")), (&json!({"name": base}), None));
    assert_eq!(first["adapters"][0]["r"], 4);
    let second = package("base_models", json!(["Qwen/Qwen3-0.6B", base]));
    assert_eq!((second["base_models"].as_array().unwrap().len(), second.get("base_model")), (1, None));
    assert_eq!(second["base_models"][0]["name"], base);
}

/// As `train --model OTHER` reads the manifest: the first base says how any base is held and adapted.
#[test]
fn a_run_on_a_base_that_the_manifest_does_not_name_is_packaged_with_what_holds_for_it() {
    let listed = json!({
        "name": "Qwen/Qwen3-0.6B", "quantization": "int8", "sha256": "ab".repeat(32),
        "prompt_template": "chatml", "overrides": {"rank": 64},
        "adapters": [{"type": "lora", "r": 64, "scaling": "kept"}],
    });
    for key in ["base_model", "base_models"] {
        let world = trained();
        edit(&world.path("experts/a/manifest.json"), |manifest| {
            let manifest = manifest.as_object_mut().unwrap();
            manifest.retain(|key, _| key != "base_models" && key != "schema_version");
            let value = if key == "base_model" { listed.clone() } else { json!([listed.clone()]) };
            manifest.insert(key.to_owned(), value);
        });
        document(&world, &["package", RUN]);
        let manifest: Value = serde_json::from_slice(&unpacked(&world.path(PACKAGE))[0].1).unwrap();
        let base = manifest["base_model"].as_object().or(manifest["base_models"][0].as_object()).unwrap();
        let keys: Vec<&str> = base.keys().map(String::as_str).filter(|key| *key != "adapters").collect();
        assert_eq!(keys, ["name", "quantization"], "{key}");
        assert_eq!((&base["name"], &base["quantization"]), (&json!("smollm2-135m-instruct"), &json!("int8")));
        let adapters = base.get("adapters").or(manifest.get("adapters")).unwrap();
        assert_eq!((&adapters[0]["scaling"], &adapters[0]["r"]), (&json!("kept"), &json!(4)), "{key}");
    }
}

#[test]
fn a_manifest_that_could_not_be_read_from_the_package_is_not_packaged() {
    let world = trained();
    std::fs::write(world.path("experts/a/ours.jinja"), "{{ messages[0].content }}").unwrap();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["base_models"][0]["prompt_template"] = json!("custom");
        manifest["base_models"][0]["template_path"] = json!("ours.jinja");
    });
    // As a run of another tool, without a template.
    std::fs::remove_file(world.path(RUN).join("final/chat_template.jinja")).unwrap();
    edit(&world.path(RUN).join("run.json"), |record| {
        record["final"].as_object_mut().unwrap().remove("chat_template.jinja");
    });
    edit(&world.path(RUN).join("final/expert.json"), |record| {
        record["files"].as_object_mut().unwrap().remove("chat_template.jinja");
    });
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert_eq!(code, "unusable-package", "{message}");
    let said = talk(&run(&world, &["package", "experts/a"]));
    assert!(said.contains("the template `ours.jinja` is not here"), "{said}");
    assert!(!world.path(PACKAGE).exists());
}

/// `chat_template.jinja`, `generation_config.json` and the score are those of the run.
#[test]
fn a_manifest_with_another_template_or_other_settings_for_answers_is_not_packaged() {
    let world = trained();
    let manifest = world.path("experts/a/manifest.json");
    let settings = json!({"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop_sequences": []});
    let set = |changes: Value| {
        edit(&manifest, |manifest| {
            let mut decoding = settings.clone();
            decoding.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            manifest["training"]["decoding"] = decoding;
        });
    };
    set(json!({"max_new_tokens": 20}));
    edit(&world.path(RUN).join("run.json"), |record| {
        let mut decoding = settings.clone();
        decoding["max_new_tokens"] = json!(20);
        record["recipe"]["decoding"] = decoding;
        record["recipe"]["template"] = json!({"kind": "tokenizer", "source": null});
    });
    document(&world, &["package", "experts/a", "--output", "same.expert"]);

    set(json!({"max_new_tokens": 30, "stop_sequences": [";"]}));
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert_eq!(code, "settings-changed", "{message}");
    assert!(message.contains("another max_new_tokens, stop_sequences than the run in"), "{message}");
    assert!(message.ends_with("score the run with it as it is: expert-cli evaluate experts/a"), "{message}");
    // Of several bases the first is trained where none is named.
    let several = |manifest: &mut Value| {
        let bases = manifest["base_models"].as_array_mut().unwrap();
        bases.insert(0, json!({"name": "Qwen/Qwen3-0.6B"}));
    };
    edit(&manifest, several);
    let (_, message) = refused(&world, &["package", "experts/a"]);
    let command = "expert-cli evaluate experts/a --model smollm2-135m-instruct";
    assert!(message.contains(command), "{message}");
    edit(&manifest, |manifest| drop(manifest["base_models"].as_array_mut().unwrap().remove(0)));

    set(json!({"max_new_tokens": 20}));
    edit(&manifest, |manifest| manifest["base_models"][0]["prompt_template"] = json!("chatml"));
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert!(code == "settings-changed" && message.contains("another chat template than"), "{message}");
    assert!(message.contains("expert-cli train experts/a --fresh"), "{message}");
    let (_, message) = refused(&world, &["package", "experts/a", "--model", "smollm2-135m-instruct"]);
    let command = "expert-cli train experts/a --model smollm2-135m-instruct --fresh";
    assert!(message.contains(command), "{message}");
    let (_, message) = refused(&world, &["package", "experts/a", "--model", "./tiny"]);
    assert!(message.ends_with("expert-cli train experts/a --model ./tiny"), "{message}");
    let other = "experts/a has no run on ./tiny; it has one on smollm2-135m-instruct";
    assert!(message.contains(other), "{message}");
    assert!(!world.path(PACKAGE).exists());
}

/// The grammar in a package is the one by which `evaluate` scored and `serve` answers.
#[test]
fn only_the_grammar_of_the_run_is_packaged() {
    let world = trained();
    let manifest = world.path("experts/a/manifest.json");
    let changed = |message: &str| message.contains("evaluate") && message.contains("experts/a");
    edit(&manifest, |manifest| manifest["training"]["decoding"] = json!({"grammar_file": "answer.gbnf"}));
    std::fs::write(world.path("experts/a/answer.gbnf"), "root ::= \"yes\"\n").unwrap();
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert!(code == "grammar-changed" && changed(&message), "no grammar in the run: {message}");

    constrained_by(&world, "root ::= \"yes\"\n");
    std::fs::write(world.path("experts/a/answer.gbnf"), "root ::= \"no\"\n").unwrap();
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert!(code == "grammar-changed" && changed(&message), "another grammar: {message}");
    assert!(!world.path(PACKAGE).exists());

    edit(&manifest, |manifest| drop(manifest["training"].as_object_mut().unwrap().remove("decoding")));
    assert_eq!(refused(&world, &["package", "experts/a"]).0, "grammar-changed", "none in the manifest");
    edit(&manifest, |manifest| manifest["training"]["decoding"] = json!({"grammar_file": "answer.gbnf"}));

    std::fs::write(world.path("experts/a/answer.gbnf"), "root ::= \"yes\"\n").unwrap();
    let final_grammar = world.path(RUN).join("final/grammar.gbnf");
    std::fs::write(&final_grammar, "root ::= \"no\"\n").unwrap();
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert!(code == "damaged-run" && message.contains("grammar.gbnf"), "{message}");

    constrained_by(&world, "root ::= \"yes\"\n");
    document(&world, &["package", "experts/a"]);
    document(&world, &["verify", PACKAGE]);
    // A package of an earlier version, with a list of files that fits the files.
    let files = unpacked(&world.path(PACKAGE));
    for (grammar, words) in [
        (Some("root ::= \"no\"\n"), "grammar.gbnf is not the grammar that expert.json names"),
        (None, "grammar.gbnf is missing"),
    ] {
        let kept = files.iter().filter_map(|(name, content)| match (name.as_str(), grammar) {
            ("grammar.gbnf", None) => None,
            ("grammar.gbnf", Some(grammar)) => Some((name, grammar.as_bytes().to_vec())),
            _ => Some((name, content.clone())),
        });
        let mut kept: Vec<(&String, Vec<u8>)> = kept.collect();
        let mut document: Value = serde_json::from_slice(&kept[0].1).unwrap();
        let digests: serde_json::Map<String, Value> = kept[1..]
            .iter()
            .map(|(name, content)| ((*name).clone(), json!(format!("sha256:{}", sha256(content)))))
            .collect();
        document["integrity"] = json!({"files": digests});
        kept[0].1 = document.to_string().into_bytes();
        let entries: Vec<_> = kept.iter().map(|(name, content)| plain(name, content)).collect();
        archive(&world.path("changed.expert"), &entries);
        for command in [&["verify", "changed.expert"][..], &["install", "changed.expert", "--registry", "r"]]
        {
            let (code, message) = refused(&world, command);
            assert!(code == "damaged-package" && message.contains(words), "{command:?}: {message}");
        }
    }
}

/// `grammar_type` names no file, and the run has one.
#[test]
fn the_grammar_of_any_json_is_packaged() {
    let world = trained();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["decoding"] = json!({"use_grammar": true, "grammar_type": "json"});
    });
    let folder = world.path(RUN).join("final");
    std::fs::write(folder.join("grammar.json"), "{}").unwrap();
    edit(&folder.join("expert.json"), |record| {
        record["grammar"] = json!({"name": "grammar.json", "sha256": sha256(b"{}")});
    });
    document(&world, &["package", "experts/a"]);
    let files: BTreeMap<String, Vec<u8>> = unpacked(&world.path(PACKAGE)).into_iter().collect();
    assert_eq!(files["grammar.json"], b"{}");

    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["version"] = json!("0.2.0");
        manifest["training"]["decoding"]["grammar_type"] = json!("sql");
    });
    std::fs::remove_file(folder.join("grammar.json")).unwrap();
    edit(&folder.join("expert.json"), |record| {
        record["grammar"] = json!({"name": "sql", "sha256": sha256(b"sql")});
    });
    document(&world, &["package", "experts/a", "--output", "sql.expert"]);
    document(&world, &["verify", "sql.expert"]);
}

#[test]
fn a_checksum_file_of_somebody_else_is_kept() {
    let world = trained();
    let beside = world.path("mine.expert.sha256");
    for text in ["my notes\n".to_owned(), format!("{}  other.expert\n", "0".repeat(64))] {
        std::fs::write(&beside, &text).unwrap();
        let (code, message) = refused(&world, &["package", "experts/a", "-o", "mine.expert"]);
        assert!(code == "checksum-exists" && message.contains("mine.expert.sha256"), "{message}");
        assert_eq!(std::fs::read_to_string(&beside).unwrap(), text);
        assert!(!world.path("mine.expert").exists());
    }
    // Of a package that was removed since.
    std::fs::write(&beside, format!("{}  mine.expert\n", "0".repeat(64))).unwrap();
    document(&world, &["package", "experts/a", "-o", "mine.expert"]);
    let line = format!("{}  mine.expert\n", sha256(&std::fs::read(world.path("mine.expert")).unwrap()));
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), line);
    assert_eq!(document(&world, &["package", "experts/a", "-o", "mine.expert"])["unchanged"], true);
}

#[test]
fn only_a_finished_and_whole_run_is_packaged() {
    let world = trained();
    let final_folder = world.path(RUN).join("final");
    let code = |words: &[&str]| refused(&world, words);
    std::fs::write(final_folder.join("training_args.bin"), b"\x80\x04").unwrap();
    let (kind, message) = code(&["package", "experts/a"]);
    assert!(kind == "pickle" && message.contains("training_args.bin"), "{message}");
    std::fs::remove_file(final_folder.join("training_args.bin")).unwrap();

    std::fs::write(final_folder.join("tokenizer.json"), b"\x80\x04.").unwrap();
    let (kind, message) = code(&["package", "experts/a"]);
    assert!(kind == "damaged-run" && message.contains("tokenizer.json is damaged"), "{message}");
    // The model card is the user's, so it has no digest in the record.
    std::fs::write(final_folder.join("tokenizer.json"), b"{\"version\": \"1.0\"}").unwrap();
    std::fs::write(final_folder.join("README.md"), b"\x80\x04.").unwrap();
    let (_, message) = code(&["package", "experts/a"]);
    assert!(message.contains("README.md holds a pickle"), "{message}");
    std::fs::write(final_folder.join("README.md"), "# a\n").unwrap();

    let manifest = world.path("experts/a/manifest.json");
    edit(&manifest, |manifest| drop(manifest.as_object_mut().unwrap().remove("version")));
    assert_eq!(code(&["package", "experts/a"]).0, "no-version");
    edit(&manifest, |manifest| manifest["version"] = json!("1/../../2"));
    assert_eq!(code(&["package", "experts/a"]).0, "bad-version");
    edit(&manifest, |manifest| manifest["version"] = json!("0.1.0"));

    let record = world.path(RUN).join("run.json");
    let finished = std::fs::read(&record).unwrap();
    std::fs::remove_file(&record).unwrap();
    std::fs::write(world.path(RUN).join("plan.json"), "{}").unwrap();
    std::fs::create_dir(world.path(RUN).join("checkpoint-3")).unwrap();
    for words in [&["package", "experts/a"][..], &["package", RUN]] {
        let (kind, message) = code(words);
        assert_eq!(kind, "unfinished-run", "{words:?}: {message}");
        assert!(message.contains("expert-cli train experts/a --resume"), "{message}");
    }
    let plan = json!({"recipe": {"base": {"name": "Org/another"}}});
    std::fs::write(world.path(RUN).join("plan.json"), plan.to_string()).unwrap();
    for words in [&["package", "experts/a"][..], &["package", RUN]] {
        let (_, message) = code(words);
        assert!(message.contains("expert-cli train experts/a --model Org/another --resume"), "{message}");
    }
    std::fs::write(&record, finished).unwrap();
    assert_eq!(code(&["package", "experts/a", "--model", "other"]).0, "no-run");
    assert_eq!(code(&["package", "nowhere"]).0, "no-manifest");
    edit(&manifest, |manifest| manifest["name"] = json!("b"));
    assert_eq!(code(&["package", RUN]).0, "another-expert");
    assert!(!world.path(PACKAGE).exists());
}

#[test]
fn one_of_several_runs_is_named() {
    let world = trained();
    let other = world.path("experts/a/weights/qwen3-0.6b");
    std::fs::create_dir_all(other.join("final")).unwrap();
    for (path, content) in tree(&world.path(RUN)) {
        let target = other.join(path.strip_prefix(world.path(RUN)).unwrap());
        std::fs::write(target, content).unwrap();
    }
    let (code, message) = refused(&world, &["package", "experts/a"]);
    assert!(code == "several-runs" && message.contains("weights/qwen3-0.6b"), "{message}");
    document(&world, &["package", "experts/a", "--model", "smollm2-135m-instruct"]);
}

#[test]
fn every_flipped_byte_is_found_and_its_file_named() {
    let world = signed();
    let files = unpacked(&world.path(PACKAGE));
    let folder = document(&world, &["install", PACKAGE, "--registry", "registry"])["folder"].clone();
    let folder = folder.as_str().unwrap();
    for (name, content) in &files {
        for at in [0, content.len() / 2, content.len() - 1] {
            let mut changed = content.clone();
            changed[at] ^= 1;
            let entries: Vec<_> = files
                .iter()
                .map(|(other, content)| plain(other, if other == name { &changed } else { content }))
                .collect();
            archive(&world.path("changed.expert"), &entries);
            std::fs::write(std::path::Path::new(folder).join(name), &changed).unwrap();
            for package in ["changed.expert", folder] {
                let (code, message) = refused(&world, &["verify", package, "--key", "release.pub.pem"]);
                let named = message.contains(&format!("damaged: {name} "))
                    || name == "signature.sig" && code == "wrong-signature";
                assert!(named, "{name} at {at}: {message}");
            }
        }
        std::fs::write(std::path::Path::new(folder).join(name), content).unwrap();
    }
    document(&world, &["verify", folder, "--key", "release.pub.pem"]);
}

/// Wherever a byte of the file itself is flipped, behind gzip's header and except in the last byte of the compressed data, whose
/// unused bits mean nothing.
#[test]
fn a_flipped_byte_of_the_archive_is_found() {
    let world = packaged();
    let whole = std::fs::read(world.path(PACKAGE)).unwrap();
    for at in (10..whole.len() - 9).step_by(29).chain(whole.len() - 8..whole.len()) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        std::fs::write(world.path("changed.expert"), changed).unwrap();
        let output = run(&world, &["verify", "changed.expert"]);
        assert_eq!(output.status.code(), Some(2), "byte {at}: {}", talk(&output));
    }
}

#[test]
fn missing_and_extra_files_are_named() {
    let world = packaged();
    let files = unpacked(&world.path(PACKAGE));
    let all: Vec<_> = files.iter().map(|(name, content)| plain(name, content)).collect();
    for missing in ["tokenizer.json", "adapter_model.safetensors", "manifest.json"] {
        let rest: Vec<_> = files
            .iter()
            .filter(|(name, _)| name != missing)
            .map(|(name, content)| plain(name, content))
            .collect();
        archive(&world.path("less.expert"), &rest);
        let (_, message) = refused(&world, &["verify", "less.expert"]);
        assert!(message.contains(&format!("{missing} is missing")), "{message}");
        let output = run(&world, &["verify", "less.expert", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&found["ok"], &found["exit"]), (&json!(false), &json!(2)));
        assert_eq!(found["problems"][0]["file"], missing, "{found}");
        let listed = found["files"].as_array().unwrap();
        assert_eq!(listed.len(), files.len() - 1, "every file with its digest");
        assert!(listed.iter().all(|file| file["sha256"].as_str().is_some_and(|it| it.len() == 64)));
    }
    archive(&world.path("more.expert"), &[all, vec![plain("merges.txt", b"a b")]].concat());
    let (_, message) = refused(&world, &["verify", "more.expert"]);
    assert!(message.contains("merges.txt is extra"), "{message}");
}

#[test]
fn a_signature_covers_every_file_and_names_its_key() {
    let world = signed();
    let report = document(&world, &["verify", PACKAGE]);
    assert_eq!(report["signature"]["state"], "unknown-key");
    let key = report["signature"]["key"].clone();
    let report = document(&world, &["verify", PACKAGE, "--key", "release.pub.pem"]);
    assert_eq!(report["signature"], json!({"state": "valid", "key": key}));
    let (code, message) = refused(&world, &["verify", PACKAGE, "--key", "other.pub.pem"]);
    assert!(code == "wrong-signature" && message.contains(key.as_str().unwrap()), "{message}");

    // A package with one file changed and a new list keeps no valid signature.
    let files: BTreeMap<String, Vec<u8>> = unpacked(&world.path(PACKAGE)).into_iter().collect();
    std::fs::write(world.path(RUN).join("final/README.md"), "# another\n").unwrap();
    document(&world, &["package", "experts/a", "--output", "plain.expert"]);
    let mut forged: Vec<_> =
        unpacked(&world.path("plain.expert")).iter().map(|(name, content)| plain(name, content)).collect();
    forged.push(plain("signature.sig", &files["signature.sig"]));
    archive(&world.path("forged.expert"), &forged);
    for words in [&["verify", "forged.expert"][..], &["verify", "forged.expert", "--key", "release.pub.pem"]]
    {
        let (code, message) = refused(&world, words);
        assert!(code == "wrong-signature" && message.contains("does not fit"), "{message}");
    }
    let report = document(&world, &["verify", "plain.expert"]);
    assert_eq!(report["signature"]["state"], "unsigned");
    for command in ["verify", "install"] {
        let (code, _) = refused(&world, &[command, "plain.expert", "--key", "release.pub.pem"]);
        assert_eq!(code, "not-signed");
    }
}

#[test]
fn keys_are_private_new_and_not_mistaken_for_each_other() {
    let world = signed();
    let secret = std::fs::read_to_string(world.path("release.pem")).unwrap();
    assert!(secret.starts_with("-----BEGIN PRIVATE KEY-----"));
    let mode = std::fs::metadata(world.path("release.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, _) = refused(&world, &["keygen", "--output", "release.pem"]);
    assert_eq!(code, "key-exists");
    assert_eq!(std::fs::read_to_string(world.path("release.pem")).unwrap(), secret);
    std::fs::remove_file(world.path("other.pem")).unwrap();
    let (_, message) = refused(&world, &["keygen", "--output", "other.pem"]);
    assert!(message.contains("other.pub.pem is there already"), "{message}");
    assert!(!world.path("other.pem").exists());
    let (_, message) = refused(&world, &["package", "experts/a", "--sign", "release.pub.pem"]);
    assert!(message.contains("this is the public key"), "{message}");
    let (_, message) = refused(&world, &["verify", PACKAGE, "--key", "release.pem"]);
    assert!(message.contains("never pass the private one on"), "{message}");
    let output = run(&world, &["keygen", "--output", "shown.pem"]);
    let line = std::fs::read_to_string(world.path("shown.pem")).unwrap().lines().nth(1).unwrap().to_owned();
    assert!(!talk(&output).contains(&line));
}

#[test]
fn two_versions_of_a_key_have_two_public_keys() {
    let world = World::new();
    for (private, public) in [
        ("release-1.2", "release-1.2.pub.pem"),
        ("release-1.3", "release-1.3.pub.pem"),
        ("plain", "plain.pub.pem"),
        ("v1.4.pem", "v1.4.pub.pem"),
    ] {
        document(&world, &["keygen", "--output", private]);
        assert!(world.path(public).is_file(), "{public}");
    }
}

/// The name is free for the next attempt.
#[test]
fn a_key_that_could_not_be_written_leaves_no_file() {
    let world = World::new();
    // No file may have a byte.
    let keygen = world.expert_cli(&["keygen", "--output", "full.pem"], "");
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(keygen.get_program()).args(keygen.get_args());
    let output = limited.current_dir(world.path(".")).output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(!world.path("full.pem").exists(), "{}", talk(&output));
    // The public key's name is longer than a name may be, the private one's is not.
    let long = format!("{}.pem", "a".repeat(250));
    let output = run(&world, &["keygen", "--output", &long]);
    assert_ne!(output.status.code(), Some(0), "{}", talk(&output));
    assert!(!world.path(&long).exists(), "{}", talk(&output));
}

#[test]
fn what_a_killed_install_left_goes_after_a_day() {
    let world = packaged();
    let hours = |hours| std::time::SystemTime::now() - std::time::Duration::from_hours(hours);
    for (name, age) in [("registry/.installing-old", 25), ("registry/.installing-new", 1)] {
        std::fs::create_dir_all(world.path(name)).unwrap();
        std::fs::write(world.path(name).join("README.md"), "half").unwrap();
        std::fs::File::open(world.path(name)).unwrap().set_modified(hours(age)).unwrap();
    }
    document(&world, &["install", PACKAGE, "--registry", "registry"]);
    assert!(!world.path("registry/.installing-old").exists());
    assert!(world.path("registry/.installing-new").exists());
    let listed = document(&world, &["install", "--list", "--registry", "registry"]);
    assert_eq!(listed["installed"].as_array().unwrap().len(), 1);
}

/// Files that only training and scoring read are not in a package, and generate needs none of them.
#[test]
fn an_expert_with_scorer_template_and_test_cases_answers_after_install() {
    let world = trained();
    std::fs::write(world.path("experts/a/score.py"), "def score(answer, expected):\n    return True\n")
        .unwrap();
    std::fs::write(world.path("experts/a/cases.json"), r#"[{"prompt": "a", "expected": "b"}]"#).unwrap();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["base_models"][0]["prompt_template"] = json!("custom");
        manifest["base_models"][0]["template_path"] = json!("prompts/ours.jinja");
        manifest["evaluation"] = json!({"scorer": {"python": "score.py:score"}, "test_cases": "cases.json"});
        manifest["training"]["config"]["initial_adapter"] = json!("earlier/final");
        manifest["base_models"][0]["overrides"]["initial_adapter"] = json!("earlier/final");
    });
    std::fs::create_dir(world.path("experts/a/prompts")).unwrap();
    std::fs::write(world.path("experts/a/prompts/ours.jinja"), "{{ messages[0].content }}").unwrap();
    let output = run(&world, &["package", "experts/a"]);
    let words = "leaves out training.config.initial_adapter, evaluation.scorer, evaluation.test_cases";
    assert!(talk(&output).contains(words), "{}", talk(&output));
    let folder = document(&world, &["install", PACKAGE, "--registry", "registry"])["folder"].clone();
    let packaged =
        std::fs::read_to_string(std::path::Path::new(folder.as_str().unwrap()).join("manifest.json"))
            .unwrap();
    assert!(!packaged.contains("initial_adapter"), "{packaged}");
    let ask = ["generate", folder.as_str().unwrap(), "--prompt", "x"];
    let output = world.expert_cli(&ask, "steps=1").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
}

/// An adapter to start from that does not fit, such as one of an earlier rank.
#[test]
fn what_only_a_training_starts_from_does_not_stop_a_finished_run() {
    let world = trained();
    std::fs::create_dir(world.path("experts/a/earlier")).unwrap();
    let config = r#"{"peft_type": "LORA", "r": 3, "lora_alpha": 6}"#;
    std::fs::write(world.path("experts/a/earlier/adapter_config.json"), config).unwrap();
    std::fs::write(world.path("experts/a/earlier/adapter_model.safetensors"), "").unwrap();
    edit(&world.path("experts/a/manifest.json"), |manifest| {
        manifest["training"]["config"]["initial_adapter"] = json!("earlier");
    });
    for words in ["plan experts/a", "train experts/a --dry-run", "pretokenize experts/a"] {
        let (output, document) = world.json(words, "steps=1");
        assert_eq!(output.status.code(), Some(2), "{words}: {}", talk(&output));
        assert_eq!(document["diagnostics"][0]["code"], "initial-adapter", "{document}");
    }
    for words in [
        "evaluate experts/a",
        "generate experts/a --prompt x",
        "export experts/a --merge",
        "datasets",
        "package experts/a",
    ] {
        let (output, _) = world.json(words, "steps=1");
        assert_eq!(output.status.code(), Some(0), "{words}: {}", talk(&output));
    }
}

/// On other systems such names cannot be made.
#[cfg(target_os = "linux")]
#[test]
fn folders_whose_names_are_not_utf8_are_in_documents() {
    use std::os::unix::ffi::OsStrExt;

    let world = trained();
    let folder = world.path("").join(std::ffi::OsStr::from_bytes(b"experts\xff"));
    std::fs::rename(world.path("experts"), &folder).unwrap();
    let cache = folder.join("a/datasets_optimized/a/tokenized").join("0".repeat(32));
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("cache.json"), "{}").unwrap();
    for (words, field) in [
        (&["runs", "--json"][..], "/runs/0/path"),
        (&["clean", "--dry-run", "--json"], "/removed/0/path"),
        (&["install", "--list", "--json", "--registry"], "/registry"),
    ] {
        let output = world.expert_cli(words, "").arg(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", talk(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let path = document.pointer(field).and_then(Value::as_str).unwrap_or_default();
        assert!(path.contains("experts\u{fffd}"), "{words:?}: {document}");
    }
}

fn install<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["install"], words, &["--registry", "registry"]].concat()
}

/// `verify` shows who signed an installed expert, whichever of the two packages was installed first.
#[test]
fn the_signature_of_an_installed_package_is_added() {
    let world = signed();
    document(&world, &["package", "experts/a", "--output", "unsigned.expert"]);
    let done = document(&world, &install(&["unsigned.expert"]));
    let folder = done["folder"].as_str().unwrap().to_owned();
    let keyed = ["verify", &folder, "--key", "release.pub.pem"];
    assert_eq!(refused(&world, &keyed).0, "not-signed");
    let done = document(&world, &install(&[PACKAGE, "--key", "release.pub.pem"]));
    assert_eq!(done["outcome"], "signature-added");
    assert_eq!(document(&world, &keyed)["signature"]["state"], "valid");
    for package in ["unsigned.expert", PACKAGE] {
        assert_eq!(document(&world, &install(&[package]))["outcome"], "already-installed");
    }
    let unsigned = run(&world, &install(&["unsigned.expert"]));
    assert!(talk(&unsigned).contains("\nsigned by "), "{}", talk(&unsigned));
    // The other signer's key is not that of the signature that is there.
    document(&world, &["package", "experts/a", "--output", "other.expert", "--sign", "other.pem"]);
    let (code, message) = refused(&world, &install(&["other.expert", "--key", "other.pub.pem"]));
    assert!(code == "damaged-install" && message.contains("signed by another key"), "{message}");
    // Without the key the installed signature stays, and is the one that is shown.
    let other = install(&["other.expert"]);
    let key = |document: &Value| document["signature"]["key"].clone();
    let (there, theirs) =
        (document(&world, &["verify", &folder]), document(&world, &["verify", "other.expert"]));
    assert_ne!(key(&there), key(&theirs));
    assert_eq!(key(&document(&world, &other)), key(&there));
    let said = talk(&run(&world, &other));
    let not_taken = format!("the package is signed by {}", key(&theirs).as_str().unwrap());
    assert!(said.contains(&not_taken) && said.contains("remove signature.sig"), "{said}");
    std::fs::write(std::path::Path::new(&folder).join("signature.sig"), "{}").unwrap();
    let (code, message) = refused(&world, &install(&[PACKAGE]));
    assert!(code == "damaged-install" && message.contains("cannot be read"), "{message}");
}

#[test]
fn an_expert_is_installed_once_and_usable_from_there() {
    let world = signed();
    let done = document(&world, &["install", PACKAGE, "--registry", "registry", "--key", "release.pub.pem"]);
    assert_eq!(done["outcome"], "installed");
    let folder = world.path("registry/a/0.1.0/smollm2-135m-instruct");
    assert_eq!(std::path::Path::new(done["folder"].as_str().unwrap()), folder);
    let before = tree(&world.path("registry"));
    assert_eq!(before.len(), unpacked(&world.path(PACKAGE)).len());
    let again = document(&world, &["install", PACKAGE, "--registry", "registry"]);
    assert_eq!(again["outcome"], "already-installed");
    let refusal = run(&world, &["plan", folder.to_str().unwrap(), "--device", "cpu"]);
    assert!(talk(&refusal).contains("an installed expert comes without its data"), "{}", talk(&refusal));
    // A folder that was installed is a package too.
    let copied = document(&world, &["install", folder.to_str().unwrap(), "--registry", "second"]);
    assert_eq!(copied["outcome"], "installed");

    edit(&world.path("experts/a/manifest.json"), |manifest| manifest["description"] = json!("changed"));
    document(&world, &["package", "experts/a", "--output", "changed.expert"]);
    let (code, message) = refused(&world, &["install", "changed.expert", "--registry", "registry"]);
    assert!(code == "other-version" && message.contains("another version"), "{message}");
    assert_eq!(tree(&world.path("registry")), before);

    let listed = document(&world, &["install", "--list", "--registry", "registry"]);
    let entry = &listed["installed"][0];
    assert_eq!(
        (&entry["name"], &entry["version"], &entry["base"], &entry["signed"]),
        (&json!("a"), &json!("0.1.0"), &json!("smollm2-135m-instruct"), &json!(true))
    );
    assert_eq!(listed["installed"].as_array().unwrap().len(), 1);

    // Rank, alpha and modules are those of the trained adapter, whatever the manifest said.
    let output = run(&world, &["validate", folder.to_str().unwrap()]);
    assert!(!talk(&output).contains("error"), "{}", talk(&output));
    let ask = ["generate", folder.to_str().unwrap(), "--prompt", "x"];
    let output = world.expert_cli(&ask, "steps=1").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    for words in ["there is no adapter", "data-missing", "download"] {
        assert!(!talk(&output).contains(words), "{words}: {}", talk(&output));
    }
    assert!(talk(&output).contains("next: expert-cli export"), "{}", talk(&output));
    let export = ["export", folder.to_str().unwrap(), "--merge"];
    let output = world.expert_cli(&export, "steps=1").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    assert!(talk(&output).contains("--base-only --model a-merged"), "{}", talk(&output));
    let exported = |words: &[&str], place: &std::path::Path| {
        let output = world
            .expert_cli(&[&["export", "--merge"], words].concat(), "steps=1")
            .current_dir(place)
            .output();
        (output.as_ref().unwrap().status.code(), talk(&output.unwrap()))
    };
    let inside = folder.join("merged");
    for words in [&[][..], &["--to", "merged"], &["--to", inside.to_str().unwrap()], &["--to", "x/../y"]] {
        let (code, said) = exported(words, &folder);
        assert!(code == Some(2) && said.contains("another folder with --to"), "{words:?}: {said}");
    }
    let (code, said) = exported(&["--to", "../../../elsewhere"], &folder);
    assert!(code == Some(0), "{said}");
    assert_eq!(tree(&world.path("registry")), before, "nothing is written there");

    std::fs::write(folder.join("README.md"), "mine").unwrap();
    let (code, message) = refused(&world, &["install", PACKAGE, "--registry", "registry"]);
    assert!(code == "damaged-install" && message.contains("README.md"), "{message}");
    std::fs::create_dir_all(folder.join("weights/smollm2-135m-instruct/export/merged")).unwrap();
    let (_, message) = refused(&world, &["install", PACKAGE, "--registry", "registry"]);
    assert!(message.contains("move its weights/ elsewhere, remove"), "{message}");
}
