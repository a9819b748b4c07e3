//! What every command owes a terminal, a pipe and a shell.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

fn expert_cli(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_expert-cli"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env_remove("EXPERT_PYTHON")
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    expert_cli(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every command, as the root's help lists it.
fn commands() -> Vec<String> {
    let help = text(&run(&["--help"]).stdout);
    // Deeper lines continue the description above them.
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("   "));
    listed
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn help_is_data_and_lists_codes_variables_and_commands() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for part in ["Exit codes:", "130", "Environment:", "EXPERT_PYTHON"] {
        assert!(help.contains(part), "{part}");
    }
    let commands = commands();
    for name in [
        "validate",
        "plan",
        "pretokenize",
        "train",
        "evaluate",
        "generate",
        "export",
        "package",
        "keygen",
        "verify",
        "install",
        "schema",
        "init",
        "doctor",
    ] {
        assert!(commands.iter().any(|command| command == name), "{name} is not in {commands:?}");
    }
}

#[test]
fn every_command_has_help_and_takes_json() {
    for command in commands() {
        let output = run(&[&command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let help = text(&output.stdout);
        assert!(help.contains("--json"), "{command}");
        assert!(help.lines().next().unwrap().len() > 10, "{command} says nothing of itself");
    }
}

#[test]
fn bad_usage_is_exit_2_with_a_suggestion() {
    let output = run(&["train", "--epoch", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(text(&output.stderr).contains("--epochs"), "{}", text(&output.stderr));
    for arguments in
        [vec![], vec!["nonsense"], vec!["train", "--resume", "--fresh"], vec!["train", "--jobs", "2"]]
    {
        assert_eq!(run(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Of one expert they would do nothing, however it is named.
#[test]
fn options_of_a_shelf_are_refused_for_one_expert() {
    for option in ["--jobs=2", "--only=a", "--changed-since=x", "--separate", "--no-fuse", "--engine=ray"] {
        for expert in [&["expert-sql"][..], &["-m", "nowhere/manifest.json"], &[]] {
            let output = run(&[&["train", option], expert].concat());
            assert_eq!(output.status.code(), Some(2), "{option} {expert:?}");
            let said = text(&output.stderr);
            assert!(said.contains("cannot be used with") || said.contains("--all"), "{option}: {said}");
        }
    }
}

#[test]
fn no_evaluate_of_one_expert_says_where_it_belongs() {
    for more in [&[][..], &["expert-sql"], &["-m", "nowhere/manifest.json"]] {
        let output = run(&[&["train", "--no-evaluate"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        let said = text(&output.stderr);
        assert!(said.contains("--no-evaluate belongs to --all"), "{said}");
        assert!(said.contains("expert-cli train --all --no-evaluate"), "{said}");
    }
}

#[test]
fn bad_usage_under_json_is_a_document_too() {
    for arguments in [&["train", "--json", "a", "b"][..], &["--json"], &["train", "--epoch", "3", "--json"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&document["ok"], &document["error"]["code"]), (&false.into(), &"bad-usage".into()));
        assert!(!document["error"]["message"].as_str().unwrap().is_empty());
        assert!(text(&output.stderr).contains("expert-cli"), "{arguments:?}");
    }
    assert!(run(&["--help", "--json"]).stdout.starts_with(b"Trains"));
}

#[test]
fn every_command_answers_bad_usage_with_one_document() {
    let with = |command: &str, more: &[&str]| -> Vec<String> {
        command.split(' ').chain(more.iter().copied()).map(str::to_owned).collect()
    };
    let bench = ["watch", "timeline", "ablate", "tune"].map(|name| format!("bench {name}"));
    for command in commands().into_iter().chain(bench) {
        for more in
            [&["--json", "--no-such-flag"][..], &["--no-such-flag", "--json"], &["--json", "a", "b", "c"]]
        {
            let words = with(&command, more);
            let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(output.status.code(), Some(2), "{words:?}");
            let document: serde_json::Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{words:?}: {error}: {}", text(&output.stdout)));
            // `validate` takes any number of paths, and reports each.
            let is_refused = document["ok"] == false || document["experts"].is_array();
            assert!(is_refused, "{words:?}: {document}");
        }
    }
}

#[test]
fn a_failure_under_json_is_one_document_and_also_a_message() {
    let output = run(&["train", "-m", "nowhere/manifest.json", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["ok"], &document["exit"]), (&false.into(), &2.into()));
    assert!(text(&output.stderr).contains("error"));
}

#[test]
fn what_is_missing_on_a_command_line_is_named_under_json_too() {
    let output = run(&["stop", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["error"]["message"].as_str().unwrap().contains("<EXPERT>"), "{document}");
}

#[test]
fn where_nothing_can_be_written_the_hint_names_an_option_that_the_command_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = run(&["init", "expert-a", "--parent", file.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("choose another with --parent"), "{said}");
}

#[test]
fn without_a_terminal_nothing_is_coloured() {
    for arguments in
        [vec!["doctor", "--python", "nowhere"], vec!["plan", "-m", "nowhere"], vec!["init", "Bad Name"]]
    {
        let output = run(&arguments);
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_nobodys_error() {
    let mut child = expert_cli(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(script.contains("pretokenize"), "{shell}");
    }
}

#[test]
fn the_guide_names_every_command_code_and_variable() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/commands.md")).unwrap();
    for command in commands() {
        assert!(guide.contains(&format!("| `{command}")), "docs/commands.md lacks {command}");
    }
    for (exit, meaning) in expert_contract::exit::Exit::ALL {
        let line = format!("| {} | {meaning} |", exit.code());
        assert!(guide.contains(&line), "docs/commands.md lacks {line}");
    }
    let help = text(&run(&["--help"]).stdout);
    let variables = help.lines().skip_while(|line| *line != "Environment:").skip(1);
    for name in variables.filter_map(|line| line.split_whitespace().next()) {
        assert!(guide.contains(&format!("`{name}`")), "docs/commands.md lacks {name}");
    }
}

/// A limit on the size of files ends in words as a full disk does, not by a signal.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_file_sizes_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_expert-cli");
    let limited = |words: &str| {
        let line = format!("ulimit -f 0; exec '{program}' {words}");
        Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap()
    };
    let output = limited("init a");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(text(&output.stderr).contains("ulimit -f"), "{}", text(&output.stderr));
    let done = Command::new(program).args(["init", "b"]).current_dir(folder.path()).output().unwrap();
    assert!(done.status.success());
    let output = limited("train -m b --device cpu");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

/// What a person gets who types a Tab in bash behind these words.
#[cfg(unix)]
fn completed(words: &[&str]) -> Vec<String> {
    let script = r#"
        source <("$1" completions bash); shift
        [[ $(complete -p expert-cli) =~ -F\ ([^ ]+) ]] || exit 9
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        "${BASH_REMATCH[1]}" expert-cli "${@: -1}" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", script, "bash", env!("CARGO_BIN_EXE_expert-cli"), "expert-cli"])
        .args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[cfg(unix)]
#[test]
fn bash_completes_below_the_first_word() {
    for (words, wanted) in [
        (&["tr"][..], "train"),
        (&["bench", ""], "ablate"),
        (&["train", "--lear"], "--learning-rate"),
        (&["bench", "tune", "--ep"], "--epochs"),
        (&["init", "--preset", ""], "consumer-24gb"),
    ] {
        let offered = completed(words);
        assert!(offered.iter().any(|word| word == wanted), "{words:?}: {offered:?}");
    }
}

/// Every command that works with one expert takes it as it takes a folder.
#[test]
fn an_expert_is_named_without_a_flag() {
    for command in [
        "plan",
        "train",
        "pretokenize",
        "evaluate",
        "generate",
        "export --merge",
        "package",
        "report",
        "validate",
        "runs",
        "datasets",
        "clean",
        "stop",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["nowhere/expert"]).collect();
        let output = run(&words);
        let talk = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{command}: {talk}");
        assert!(!talk.contains("unexpected argument"), "{command}: {talk}");
    }
    let output = run(&["plan", "a", "-m", "b"]);
    assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
}

/// Without a folder: the expert that the working directory is, else `experts`, else the working directory.
#[test]
fn experts_are_found_from_where_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |place: &str, words: &[&str]| {
        let output = expert_cli(words).current_dir(folder.path().join(place)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{place} {words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    std::fs::create_dir(folder.path().join("shelf")).unwrap();
    at("shelf", &["init", "ash"]);
    let named = |place: &str| at(place, &["matrix"]).contains("\"expert\":\"ash\"");
    assert!(named("shelf") && named("shelf/ash"));
    std::fs::rename(folder.path().join("shelf"), folder.path().join("experts")).unwrap();
    assert!(named(""));
    for command in ["runs", "datasets", "clean"] {
        at("experts/ash", &[command]);
    }
}

#[test]
fn a_number_of_another_form_is_refused_with_what_is_expected() {
    for (words, expected) in [
        (&["train", "--seed", "1.5"][..], "'--seed <N>': write a whole number of at least 0"),
        (&["plan", "--max-steps", "many"], "write a whole number of at least -1"),
        (&["train", "--lora-rank", "8.0"], "write a whole number from 1 to 4096"),
        (&["train", "--batch-size", "1e3"], "write a whole number from 1 to 65536"),
        (&["train", "--max-seq-length", "2k"], "write a whole number from 8 to 1048576"),
        (&["train", "--epochs", "three"], "write a number "),
        (&["train", "--learning-rate", "2e"], "write a number "),
        (&["evaluate", "--rows", "all"], "write a whole number of at least 1"),
        (&["evaluate", "--rows", "0"], "write a whole number of at least 1"),
    ] {
        let output = expert_cli(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(expected), "{words:?}: {}", text(&output.stderr));
    }
}

/// What a command does not read it neither takes as an option nor requires.
#[test]
fn test_rows_belong_to_evaluate_and_training_rows_to_what_trains() {
    let folder = tempfile::tempdir().unwrap();
    let here = |words: &[&str]| expert_cli(words).current_dir(folder.path()).output().unwrap();
    assert_eq!(here(&["init", "ash"]).status.code(), Some(0));
    let missing = here(&["evaluate", "ash", "-d", "people.jsonl"]);
    assert!(text(&missing.stderr).contains("people.jsonl"), "{}", text(&missing.stderr));
    std::fs::remove_dir_all(folder.path().join("ash/datasets")).unwrap();
    let unread = here(&["evaluate", "ash", "--base-only"]);
    assert!(text(&unread.stderr).contains("training.dataset.test_path"), "{}", text(&unread.stderr));
    let untrained = here(&["export", "ash", "--merge"]);
    assert_ne!(untrained.status.code(), Some(0));
    assert!(!text(&untrained.stderr).contains("there is no data"), "{}", text(&untrained.stderr));
    assert!(text(&here(&["generate", "ash", "-d", "x"]).stderr).contains("unexpected argument '-d'"));
}

/// A result that is cut off is not a success: a script would take it for the whole.
#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_ends_in_4() {
    let folder = tempfile::tempdir().unwrap();
    let full = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        expert_cli(arguments).current_dir(folder.path()).stdout(full).stderr(Stdio::piped()).output().unwrap()
    };
    for arguments in [
        &["schema"][..],
        &["completions", "bash"],
        &["init", "app"],
        &["validate", "app"],
        &["plan", "app", "--device", "cpu", "--json"],
    ] {
        let output = full(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {said}");
        assert!(said.contains("cannot write the result: No space left on device"), "{arguments:?}: {said}");
        assert!(said.contains("hint"), "{arguments:?}: {said}");
    }
    // A command that failed keeps its code, and a reader that closes the pipe early changes nothing.
    assert_eq!(full(&["validate", "nowhere", "--json"]).status.code(), Some(2));
    let mut cut = expert_cli(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(cut.stdout.take());
    let output = cut.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}
