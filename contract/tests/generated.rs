//! Files generated from the ledger, the codes and the contract's types; checked in for editors, readers and
//! Python. `UPDATE=1 cargo test -p expert-contract --test generated` writes it.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use expert_contract::diagnostic::{HIDDEN, JOINERS};
use expert_contract::plan::{ACCURACY, CONTRACT_VERSION, EVAL_LOSS};
use expert_contract::python::{Form, Members, Module, modules};
use expert_contract::{families, reference, schema};
use schemars::Schema;
use serde_json::json;

fn hold(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(checked_in == text, "{file} is out of date; run with UPDATE=1 and review the difference");
}

fn pretty(schema: &Schema) -> String {
    serde_json::to_string_pretty(schema).unwrap() + "\n"
}

#[test]
fn manifest_schema() {
    hold("contract/schema/manifest.schema.json", &pretty(&schema::manifest()));
}

#[test]
fn cluster_schema() {
    hold("contract/schema/cluster.schema.json", &pretty(&schema::cluster()));
}

#[test]
fn plan_schema() {
    hold("contract/schema/plan.schema.json", &pretty(&schema::plan()));
}

#[test]
fn event_schema() {
    hold("contract/schema/event.schema.json", &pretty(&schema::event()));
}

#[test]
fn manifest_page() {
    hold("docs/manifest.md", &reference::manifest_page());
}

#[test]
fn diagnostics_page() {
    hold("docs/diagnostics.md", &reference::diagnostics_page());
}

/// What both languages replace in text of others before a terminal gets it.
#[test]
fn python_hidden_characters() {
    let hex = |c: &char| format!("0x{:X}", u32::from(*c));
    let ranges: Vec<_> =
        HIDDEN.iter().map(|range| format!("    ({}, {}),\n", hex(range.start()), hex(range.end()))).collect();
    let joiners = JOINERS.iter().map(hex).collect::<Vec<_>>().join(", ");
    hold(
        "worker/python/expert_worker/hidden_characters.py",
        &format!(
            "\"\"\"Characters that turn, join or hide text without being seen, as ranges of code points.\n\n\
             Generated from the Rust constants by `UPDATE=1 cargo test -p expert-contract --test generated`.\n\"\"\"\n\n\
             HIDDEN = (\n{})\n\
             # They shape emoji and the letters of several scripts, and are kept.\nJOINERS = ({joiners})\n",
            ranges.concat()
        ),
    );
}

/// Each of the two packages has to build from its own sources.
#[test]
fn python_table_of_families() {
    hold("worker/python/expert_worker/base/families.json", families::TABLE);
}

#[test]
fn families_page() {
    hold("docs/families.md", &reference::families_page());
}

/// The table in a page that is otherwise written by hand.
#[test]
fn serving_table() {
    let file = "docs/serve.md";
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
    let page = page.replace("\r\n", "\n");
    let (before, rest) = page.split_once("<!-- programs -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /programs -->\n").unwrap();
    let table = expert_contract::serving::table();
    hold(file, &format!("{before}<!-- programs -->\n{table}<!-- /programs -->\n{after}"));
}

/// The worker's models of the plan and of what the worker reports back.
#[test]
fn python_models() {
    let version = format!("CONTRACT_VERSION = {CONTRACT_VERSION}");
    let metrics = format!("EVAL_LOSS = {EVAL_LOSS:?}\nACCURACY = {ACCURACY:?}");
    let files = [
        (
            "worker/python/expert_worker/plan/models.py",
            Module {
                name: "expert_worker.plan.models",
                doc: "`plan.json`: every setting of a run. `recipe` decides the result, `machine` how it is computed here,\n\
                      and `request` is the task of this process.",
                schemas: vec![schema::plan()],
                form: Form::Exchanged,
                unions: &[("Request", Members::BeforeUnion)],
                constants: &version,
            },
        ),
        (
            "worker/python/expert_worker/events/models.py",
            Module {
                name: "expert_worker.events.models",
                doc: "The lines of the event stream.",
                schemas: vec![schema::event()],
                form: Form::Exchanged,
                unions: &[("Body", Members::Bare { suffix: "Line" })],
                constants: &metrics,
            },
        ),
        (
            "worker/python/expert_worker/routing/models.py",
            Module {
                name: "expert_worker.routing.models",
                doc: "What the router of a shelf learns from, and what it answers.",
                schemas: schema::routing(),
                form: Form::Exchanged,
                unions: &[],
                constants: "",
            },
        ),
        (
            "worker/python/expert_worker/results.py",
            Module {
                name: "expert_worker.results",
                doc: "What stages report at their end, and the records that the worker writes.",
                schemas: schema::results(),
                form: Form::Written,
                unions: &[],
                constants: "",
            },
        ),
        (
            "worker/python/expert_worker/recorded.py",
            Module {
                name: "expert_worker.recorded",
                doc: "The files of a run and of its token cache as they are found, whatever version wrote them.",
                schemas: schema::records(),
                form: Form::Recorded,
                unions: &[],
                constants: "",
            },
        ),
    ];
    let (paths, written): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    for (path, text) in paths.iter().zip(modules(&written).unwrap()) {
        hold(path, &text);
    }
}

#[test]
fn two_types_of_one_name_are_refused() {
    let module = |schema: serde_json::Value| Module {
        name: "m",
        doc: "",
        schemas: vec![Schema::try_from(schema).unwrap()],
        form: Form::Exchanged,
        unions: &[],
        constants: "",
    };
    let of =
        |kind: &str| json!({"title": "Score", "type": "object", "properties": {"value": {"type": kind}}});
    let refusal = Err("two types are called Score: rename one of them".to_owned());
    assert!(modules(&[module(of("number")), module(of("number"))]).is_ok());
    assert_eq!(modules(&[module(of("number")), module(of("string"))]), refusal);
    let twice = json!({"title": "Run", "definitions": {"Score": of("number"), "Score2": of("string")}});
    assert_eq!(modules(&[module(twice)]), refusal);
}
