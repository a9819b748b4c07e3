//! `cluster.json`: the machines that `plan --all --cluster` simulates a shelf on.

use std::collections::HashSet;

use crate::diagnostic::{Code, Diagnostic, Problem, Severity, Style};
use crate::ledger::{Kind, NOT_NEGATIVE, POSITIVE};
use crate::manifest::section::section;
use crate::manifest::{Document, FileKind, bytes, check, json};
use crate::source::{Source, Span};

/// The machine that the plan is made on.
pub const HERE: &str = "here";
/// A machine without a GPU.
pub const CPU: &str = "cpu";
/// More nodes of a kind than this are a slip of the keyboard.
const MOST_NODES: i64 = 10_000;

const FILE: FileKind = FileKind {
    one: "a list of machines",
    many: "files for `--cluster`",
    max_bytes: 1 << 20,
    too_large_hint: "name the file that lists the kinds of machines",
    start_hint: "start from {\"nodes\": [{\"name\": \"here\", \"count\": 2}]}",
};

const POSITIVE_OR_NULL: Kind = Kind::OneOf(&[POSITIVE, Kind::Null]);
const TEXT_OR_NULL: Kind = Kind::OneOf(&[Kind::Text, Kind::Null]);

section! {
    /// Machines that a shelf is trained on.
    Cluster = CLUSTER at "cluster" {
        required: &["nodes"],
    }
    honoured {
        nodes ["nodes"]: Vec<NodeKind> = Vec::new(), Kind::List(&Kind::Object(&NODE)), "One entry per kind of machine.";
        bench ["bench"]: Option<String> = None, TEXT_OR_NULL,
            "A measurement of this machine, for the kinds that have their own `bench`: an `ablation.json` of `bench ablate -o`, or a finished run.";
    }
    kept {}
}

section! {
    /// Machines that are alike. Speed is relative to the machine that the plan is made on.
    NodeKind = NODE at "cluster.nodes[]" {
        required: &["name"],
    }
    honoured {
        name ["name"]: String = String::new(), Kind::Text, "What the plan calls this kind.";
        count ["count"]: u32 = 1, Kind::Integer { min: 0, max: MOST_NODES },
            "How many there are; 0 shows what the first one would save.";
        device ["device"]: String = HERE.to_owned(), Kind::Text,
            "`here` (as this machine), `cpu`, a card such as `rtx4090` or `24GB`, or several (`2xh100`).";
        memory ["memory"]: Option<String> = None, TEXT_OR_NULL,
            "Memory for one expert, such as `64GB`, where it is not the card's or this machine's; required with `cpu`.";
        speed ["speed"]: Option<f64> = None, POSITIVE_OR_NULL,
            "How many times as fast as this machine one expert trains on one device; with `here` 1 is assumed.";
        bench ["bench"]: Option<String> = None, TEXT_OR_NULL,
            "A measurement of such a node, instead of `speed`: the same expert as in `bench` of the cluster.";
        experts_at_once ["experts_at_once"]: Option<u32> = None, Kind::OneOf(&[Kind::Integer { min: 1, max: 1024 }, Kind::Null]),
            "Experts that train at the same time on one node; null is one per device.";
        price_per_hour ["price_per_hour"]: f64 = 0.0, NOT_NEGATIVE, "Price of one node per hour, in any currency.";
        startup_seconds ["startup_seconds"]: f64 = 0.0, NOT_NEGATIVE, "From renting a node until it trains; it is paid for.";
        preempted_every_hours ["preempted_every_hours"]: Option<f64> = None, POSITIVE_OR_NULL,
            "Hours between two interruptions of a node, where it can be taken away; null is never.";
    }
    kept {}
}

/// What reading a file gave.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// None where a diagnostic is an error.
    pub cluster: Option<Cluster>,
    pub document: Document,
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    pub fn ok(&self) -> bool {
        self.cluster.is_some()
    }

    pub fn rendered(&self, style: Style) -> String {
        self.document.rendered(&self.diagnostics, style)
    }
}

/// Checks and types the text of a file; all problems are found in this one pass.
pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Loaded {
    let (text, problem) = bytes::decode(bytes, &FILE);
    let source = Source::new(name, text);
    let (document, mut diagnostics) = match problem {
        Some(problem) if problem.severity == Severity::Error => {
            let document = Document::new(source);
            let diagnostics = vec![document.at(problem, String::new())];
            return Loaded { cluster: None, document, diagnostics };
        }
        problem => Document::parse(source, problem),
    };
    let mut problems = Vec::new();
    let cluster = document.root.as_ref().and_then(|root| {
        check::check(&CLUSTER, root, &mut problems);
        let cluster = root.as_object().map(Cluster::from_object)?;
        if problems.is_empty() {
            check_values(&cluster, root, &mut problems);
        }
        Some(cluster)
    });
    diagnostics.extend(document.locate(problems));
    diagnostics.sort_by_key(Diagnostic::order);
    let errors = diagnostics.iter().any(|it| it.severity == Severity::Error);
    Loaded { cluster: cluster.filter(|_| !errors), document, diagnostics }
}

/// What the ledger alone cannot say.
fn check_values(cluster: &Cluster, root: &json::Node, problems: &mut Vec<Problem>) {
    let nodes = &cluster.nodes;
    if nodes.value.is_empty() {
        let problem = Problem::new(Code::EmptyValue, nodes.span, "`cluster.nodes` lists no machine");
        problems.push(problem.hint("add {\"name\": \"here\", \"count\": 1}"));
    } else if nodes.iter().all(|it| *it.count == 0) {
        let problem =
            Problem::new(Code::OutOfRange, nodes.span, "every `count` is 0: there is no machine to train on");
        problems.push(problem.hint("set the `count` of one kind to 1 or more"));
    }
    let places = root.as_object().and_then(|it| it.get("nodes")).and_then(json::Node::as_list);
    let places = places.unwrap_or_default();
    let mut names = HashSet::new();
    for (node, place) in nodes.iter().zip(places) {
        if node.name.trim().is_empty() {
            let problem = Problem::new(Code::EmptyValue, node.name.span, "the name of this kind is empty");
            problems.push(problem.hint("name it after the machine, such as \"h100\""));
        } else if !names.insert(node.name.value.as_str()) {
            let message = format!("two kinds are called `{}`", *node.name);
            let problem = Problem::new(Code::Conflict, node.name.span, message);
            problems.push(problem.hint("give each kind its own name, or add up their counts"));
        }
        check_speed(cluster, node, place.span, problems);
        if *node.device == CPU && node.memory.is_none() {
            let problem =
                Problem::new(Code::MissingKey, place.span, format!("`{}` lacks `memory`", *node.name));
            problems.push(problem.hint("add its size, such as \"memory\": \"64GB\""));
        }
    }
}

fn check_speed(cluster: &Cluster, node: &NodeKind, place: Span, problems: &mut Vec<Problem>) {
    match (&*node.speed, &*node.bench) {
        (Some(_), Some(_)) => {
            let message = format!("`speed` and `bench` of `{}` both say how fast it is", *node.name);
            let problem = Problem::new(Code::Conflict, node.bench.key, message);
            problems.push(problem.hint("keep `bench`, which is measured, or remove it"));
        }
        (None, Some(_)) if cluster.bench.is_none() => {
            let message = format!("`bench` of `{}` has nothing to be compared with", *node.name);
            let problem = Problem::new(Code::MissingKey, node.bench.key, message);
            problems.push(problem.hint(
                "measure the same expert on this machine with `expert-cli bench ablate EXPERT --only packing -o DIR`, \
                 and name DIR/ablation.json as `bench` beside `nodes`",
            ));
        }
        (None, None) if *node.device != HERE => {
            let message = format!("the speed of `{}` is not known", *node.name);
            let problem = Problem::new(Code::MissingKey, place, message);
            problems.push(problem.hint(
                "add `speed` (how many times as fast as this machine), or `bench` with a measurement of such a machine",
            ));
        }
        _ => {}
    }
}
