//! `init`: what it writes, and what it refuses.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use expert_contract::manifest::Options;
use expert_contract::plan::{Device, DeviceKind, PrecisionRequest, Threads};
use expert_contract::read;
use expert_contract::resolve::{ProductsInFp32, Site, resolve};

fn init(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_expert-cli"))
        .arg("init")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn what_it_writes_validates_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let output = init(folder.path(), &["expert-new", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["path"], "expert-new");
    for file in document["files"].as_array().unwrap() {
        assert!(folder.path().join(file.as_str().unwrap()).is_file());
    }
    let options = Options { strict: true, ..Options::default() };
    let loaded = read::load(&folder.path().join("expert-new/manifest.json"), &options);
    assert!(loaded.ok() && loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
}

#[test]
fn sample_rows_that_are_left_beside_other_training_rows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(init(folder.path(), &["expert-new"]).status.code(), Some(0));
    let data = folder.path().join("expert-new/datasets");
    let found = || {
        let loaded = read::load(&folder.path().join("expert-new/manifest.json"), &Options::default());
        let codes = loaded.diagnostics.iter().map(|it| format!("{}: {}", it.code, it.message));
        codes.collect::<Vec<_>>()
    };
    std::fs::write(data.join("train.jsonl"), "{\"prompt\": \"a\", \"completion\": \"b\"}\n").unwrap();
    let said = "has the sample rows of `init`, and the training rows are others";
    let expected = ["validation", "test"].map(|it| format!("data-sample: `datasets/{it}.jsonl` {said}"));
    assert_eq!(found(), expected);
    // Folders, patterns and packed files may hold the sample rows.
    std::fs::create_dir(data.join("parts")).unwrap();
    std::fs::rename(data.join("train.jsonl"), data.join("parts/train.jsonl")).unwrap();
    std::fs::write(data.join("train.jsonl.gz"), "packed").unwrap();
    let manifest = folder.path().join("expert-new/manifest.json");
    let written = std::fs::read_to_string(&manifest).unwrap();
    for path in ["datasets/parts", "datasets/parts/*.jsonl", "datasets/train.jsonl.gz"] {
        std::fs::write(&manifest, written.replace("datasets/train.jsonl", path)).unwrap();
        assert_eq!(found(), [""; 0], "{path}");
    }
    std::fs::write(&manifest, written).unwrap();
    std::fs::rename(data.join("parts/train.jsonl"), data.join("train.jsonl")).unwrap();
    for file in ["validation.jsonl", "test.jsonl"] {
        std::fs::write(data.join(file), "{\"prompt\": \"c\", \"completion\": \"d\"}\n").unwrap();
    }
    assert_eq!(found(), [""; 0]);
}

#[test]
fn files_without_rows_are_named_with_what_to_do_in_words_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sheet.xlsx", "rows.bz2", "rows.yaml", "rows.yml", "notes.txt", "d/train.csv", "d/test.csv"]
    {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "a").unwrap();
    }
    let split = |data: &str| {
        Command::new(env!("CARGO_BIN_EXE_expert-cli"))
            .args(["datasets", "split", data])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    for (data, of_init, of_split) in [
        ("sheet.xlsx", "save the sheet as CSV", "save the sheet as CSV"),
        ("rows.yaml", "write its list as JSON: python3", "< 'rows.yaml' > 'rows.json'"),
        ("rows.yml", "write its list as JSON: python3", "< 'rows.yml' > 'rows.json'"),
        ("notes.txt", "end its name with .csv, .jsonl or .json", "of running text write a row per line"),
        ("rows.bz2", "unpack it: bunzip2 'rows.bz2'", "unpack it: bunzip2 'rows.bz2'"),
        ("d", "write --data 'd/*train*'", "write 'd/*train*'"),
    ] {
        for (output, words) in
            [(init(folder.path(), &["new", "--data", data]), of_init), (split(data), of_split)]
        {
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}

#[test]
fn the_commands_in_its_readme_are_for_a_shell_in_the_folder_that_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("My Folder")).unwrap();
    assert_eq!(init(folder.path(), &["sp", "--parent", "My Folder"]).status.code(), Some(0));
    let readme = std::fs::read_to_string(folder.path().join("My Folder/sp/README.md")).unwrap();
    assert!(readme.contains("    expert-cli validate 'My Folder/sp'  "), "{readme}");
    assert!(!readme.contains(" My Folder"), "{readme}");
}

#[test]
fn the_preset_for_a_database_and_its_schema_need_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (&["new", "--preset", "sql"][..], "--ddl"),
        (&["new", "--ddl", "schema.sql"], "--preset sql"),
        (&["new", "--preset", "json"], "--schema"),
        (&["new", "--preset", "sql", "--schema", "api.json"], "--ddl"),
        (&["new", "--schema", "api.json"], "--preset json"),
        (&["--preset", "sql", "--ddl", "no such.sql", "--python", "/bin/false"], "the worker"),
        (&["Bad Name", "--preset", "sql", "--ddl", "schema.sql"], "holds ' '"),
    ] {
        let output = init(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{arguments:?}: {said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

/// Rows are made from a schema only, and a workflow or the list of presets from none.
#[test]
fn options_that_would_have_no_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    for (arguments, message) in [
        (&["new", "--rows", "5000"][..], "--ddl <FILE>|--schema <FILE>"),
        (&["new", "--seed", "7"], "--ddl <FILE>|--schema <FILE>"),
        (&["new", "--preset", "cpu", "--rows", "5000"], "--ddl <FILE>|--schema <FILE>"),
        (&["new", "--ddl", "a.sql", "--schema", "a.json"], "cannot be used with"),
        (&["--ci", "--tool", TOOL, "--ddl", "a.sql"], "cannot be used with"),
        (&["--ci", "--tool", TOOL, "--schema", "a.json"], "cannot be used with"),
        (&["--list-presets", "--ddl", "a.sql"], "cannot be used with"),
        (&["new", "--data", "a.csv", "--ddl", "a.sql"], "cannot be used with"),
        (&["--ci", "--tool", TOOL, "--data", "a.csv"], "cannot be used with"),
        (&["--list-presets", "--data", "a.csv"], "cannot be used with"),
        (&["new", "--map", "prompt=a"], "--data <FILE>"),
        (&["new", "--by", "a"], "--data <FILE>"),
        (&["new", "--data", "a.csv", "--map", "prompt"], "write it as prompt=FIELD"),
    ] {
        let output = init(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(message), "{arguments:?}: {said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{arguments:?}");
    }
}

/// What is made from the expert's files is not committed with them, and others may read what git would let them read.
#[test]
#[cfg(unix)]
fn runs_are_ignored_by_git_and_files_are_readable_as_the_umask_says() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let command = format!("umask 022 && exec {} init ash", env!("CARGO_BIN_EXE_expert-cli"));
    let output = Command::new("sh").args(["-c", &command]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success());
    let ignored = std::fs::read_to_string(folder.path().join("ash/.gitignore")).unwrap();
    assert!(["/weights/", "/datasets_optimized/"].iter().all(|line| ignored.lines().any(|it| it == *line)));
    for file in ["manifest.json", "README.md", ".gitignore", "datasets/train.jsonl"] {
        let mode = std::fs::metadata(folder.path().join("ash").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{file}");
    }
}

/// As git does on Windows.
#[test]
#[cfg(unix)]
fn a_checkout_that_converts_line_ends_keeps_the_bytes_that_the_lock_has() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(init(folder.path(), &["ash"]).status.code(), Some(0));
    let git = |arguments: &[&str]| {
        let settings = ["core.autocrlf=true", "user.name=a", "user.email=a@example.org"];
        let settings = settings.iter().flat_map(|it| ["-c", it]);
        let mut command = Command::new("git");
        let done = command.args(settings).args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    std::fs::write(folder.path().join("ash/expert.lock"), "{\n}\n").unwrap();
    let files = ["datasets/train.jsonl", "manifest.json", "expert.lock"].map(|file| format!("ash/{file}"));
    let bytes = || files.each_ref().map(|file| std::fs::read(folder.path().join(file)).unwrap());
    let before = bytes();
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "x"]);
    std::fs::remove_dir_all(folder.path().join("ash")).unwrap();
    git(&["checkout", "--", "."]);
    assert!(before == bytes());
}

/// An editor opens the file that `$schema` names, from the manifest's folder and without a network.
#[test]
fn the_manifest_names_a_schema_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(init(folder.path(), &["ash"]).status.code(), Some(0));
    let read =
        |path: &Path| -> serde_json::Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let manifest = read(&folder.path().join("ash/manifest.json"));
    let named = manifest["$schema"].as_str().unwrap();
    let schema = read(&folder.path().join("ash").join(named));
    assert_eq!(schema, serde_json::to_value(expert_contract::schema::manifest()).unwrap());
    assert!(
        manifest
            .as_object()
            .unwrap()
            .keys()
            .all(|key| key.starts_with(['$', '_']) || schema["properties"].get(key).is_some())
    );
}

/// Every preset, on the device that it is for.
#[test]
fn presets_validate_without_a_word_and_fit_their_device() {
    const GIB: u64 = 1 << 30;
    let folder = tempfile::tempdir().unwrap();
    let listed: serde_json::Value =
        serde_json::from_slice(&init(folder.path(), &["--list-presets", "--json"]).stdout).unwrap();
    let names: Vec<&str> =
        listed["presets"].as_array().unwrap().iter().map(|it| it["preset"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 10);
    // Rows of these come from a schema, which the worker reads.
    for name in names.into_iter().filter(|name| !["sql", "json"].contains(name)) {
        let output = init(folder.path(), &[name, "--preset", name]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let path = folder.path().join(name).join("manifest.json");
        let loaded = read::load(&path, &Options { strict: true, ..Options::default() });
        assert!(loaded.ok() && loaded.diagnostics.is_empty(), "{name}: {:?}", loaded.diagnostics);
        let gpu = match name {
            "production" | "consumer-24gb" | "context-32k-small" => Some(24 * GIB),
            "context-32k-medium" => Some(48 * GIB),
            "datacenter-80gb" | "context-32k-large" => Some(80 * GIB),
            _ => None,
        };
        let manifest = loaded.manifest.unwrap();
        let expert = manifest.effective(0).unwrap();
        let resolved = resolve(&expert, &site(&path, gpu)).unwrap();
        // The example rows are few for a large GPU, and nothing was proven on this one, which is noted.
        let usual = |code: &&str| !["few-steps", "not-compiled"].contains(code);
        let notes: Vec<&str> = resolved.notes.iter().map(|note| note.code).filter(usual).collect();
        assert!(notes.is_empty(), "{name}: {notes:?} {:?}", resolved.machine.estimate);
        assert_eq!(resolved.recipe.precision.compute == PrecisionRequest::Bf16, gpu.is_some(), "{name}");
        // The sample rows are few: a GPU's preset takes one packed row per step, and not 32.
        assert_eq!(resolved.recipe.batch.rows_per_step == 1, gpu.is_some(), "{name}");
        assert_eq!(resolved.recipe.batch.max_seq_length == 32_768, name.starts_with("context"), "{name}");
    }
}

fn site(manifest: &Path, gpu: Option<u64>) -> Site {
    let kind = if gpu.is_some() { DeviceKind::Cuda } else { DeviceKind::Cpu };
    let memory_bytes = Some(gpu.unwrap_or(8 << 30));
    Site {
        manifest: manifest.to_owned(),
        output: None,
        data: None,
        test: None,
        home: manifest.with_file_name("home"),
        hub_cache: manifest.with_file_name("hub"),
        device: Device { kind, index: 0, name: "a device".to_owned(), memory_bytes },
        devices: 1,
        least_memory: None,
        computes_bf16: gpu.is_some(),
        products_in_fp32: ProductsInFp32::unmeasured(gpu.is_some()),
        compiled: Vec::new(),
        captured: Vec::new(),
        limits: None,
        threads: Threads::default(),
        launched: None,
        launched_here: None,
        wait_for_mirror: false,
    }
}

#[test]
fn a_preset_says_why_and_the_default_is_the_one_for_a_cpu() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["a", "--preset", "datacenter-80gb"]);
    init(folder.path(), &["b"]);
    init(folder.path(), &["c", "--preset", "cpu"]);
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name).join("manifest.json")).unwrap();
    assert!(text("a").contains("\"_why_rank\": ") && text("a").contains("Qwen/Qwen3-8B"));
    assert_eq!(text("b").replace("\"b\"", "\"c\""), text("c"));
    let output = init(folder.path(), &["d", "--preset", "consumer-24"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("consumer-24gb"));
}

const TOOL: &str = "someone/expert-cli@0123456789abcdef0123456789abcdef01234567";

#[test]
fn a_workflow_is_written_into_a_repository_and_never_over_one() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |folder: &Path, words: &str| {
        let output = init(folder, &["--ci", "--tool", TOOL]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && talk.contains(words), "{talk}");
    };
    refused(folder.path(), "`git init`");
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    refused(&folder.path().join("below"), "run it there: cd ");
    std::fs::create_dir(folder.path().join("experts")).unwrap();
    let output = init(folder.path(), &["--ci", "--tool", TOOL]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.path().join(".github/workflows/experts.yml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("repository: someone/expert-cli") && text.contains("scripts/ci/matrix experts"));
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(init(folder.path(), &["--ci", "--tool", TOOL]).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_tool_without_a_commit_and_a_folder_that_a_shell_would_misread_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    for tool in [
        "someone/tool",
        "someone/tool@main",
        "tool@0123456789abcdef0123456789abcdef01234567",
        "a/b c@x",
        "../tool@0123456789abcdef0123456789abcdef01234567",
        "someone/..@0123456789abcdef0123456789abcdef01234567",
    ] {
        assert_eq!(init(folder.path(), &["--ci", "--tool", tool]).status.code(), Some(2), "{tool}");
    }
    for parent in ["/tmp", "a b", "-x", "a;b", "$(b)"] {
        let parent = format!("--parent={parent}");
        assert_eq!(
            init(folder.path(), &["--ci", "--tool", TOOL, &parent]).status.code(),
            Some(2),
            "{parent}"
        );
    }
    assert_eq!(init(folder.path(), &["--ci"]).status.code(), Some(2));
    assert_eq!(init(folder.path(), &[]).status.code(), Some(2));
    assert!(!folder.path().join(".github").exists());
}

#[test]
fn the_rows_are_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), &["one"]);
    init(folder.path(), &["two"]);
    let data = |name: &str| std::fs::read(folder.path().join(name).join("datasets/train.jsonl")).unwrap();
    assert_eq!(data("one"), data("two"));
}

#[test]
fn it_goes_into_the_shelf_and_never_over_anything() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("experts")).unwrap();
    assert_eq!(init(folder.path(), &["a"]).status.code(), Some(0));
    let manifest = folder.path().join("experts/a/manifest.json");
    std::fs::write(&manifest, "mine").unwrap();
    let output = init(folder.path(), &["a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is there already"));
    assert_eq!(std::fs::read_to_string(manifest).unwrap(), "mine");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../x", "/tmp/x", "a/b", "", "CON"] {
        assert_eq!(init(folder.path(), &[name]).status.code(), Some(2), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
