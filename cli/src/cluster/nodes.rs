//! The kinds of nodes that a cluster's file names, with the speed that is stated or measured.

use std::path::Path;

use expert_contract::cluster::{self, CPU, Cluster, HERE, NodeKind};
use expert_contract::diagnostic::{Code, Problem, Severity, did_you_mean};
use expert_contract::manifest::Setting;
use fs_err as fs;

use super::simulate::Nodes;
use crate::failure::Failure;
use crate::run::measured::{TOKENS_PER_SECOND, number, read};
use crate::sys::cards::{self, Card};
use crate::ui::Console;

/// One kind, and what decides whether an expert fits it.
pub struct Kind {
    pub name: String,
    pub device: Device,
    /// Where it is not the device's own.
    pub memory: Option<u64>,
    pub nodes: Nodes,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Device {
    Here,
    Cpu,
    Card(Card),
}

impl Device {
    fn experts_at_once(&self) -> u32 {
        match self {
            Self::Card(card) => card.found().devices,
            Self::Here | Self::Cpu => 1,
        }
    }
}

pub fn load(file: &Path, console: &Console) -> Result<Vec<Kind>, Failure> {
    let bytes = fs::read(file).map_err(|error| {
        Failure::reading("read the machines in", file, &error)
            .hint("name a file such as {\"nodes\": [{\"name\": \"here\", \"count\": 2}]}; docs/cluster.md has the keys")
    })?;
    let loaded = cluster::from_bytes(bytes, &file.to_string_lossy().replace('\\', "/"));
    let mut diagnostics = loaded.diagnostics;
    let mut problems = Vec::new();
    let read_node = |node: &NodeKind, problems: &mut Vec<Problem>| {
        (device(&node.device, problems), memory(&node.memory, problems))
    };
    let machines: Vec<_> = loaded
        .cluster
        .iter()
        .flat_map(|it| it.nodes.iter())
        .map(|node| read_node(node, &mut problems))
        .collect();
    diagnostics.extend(loaded.document.locate(problems));
    console.report(&diagnostics, &loaded.document.sources);
    let errors = diagnostics.iter().any(|it| it.severity == Severity::Error);
    let Some(cluster) = loaded.cluster.filter(|_| !errors) else {
        return Err(Failure { code: "bad-cluster".to_owned(), ..Failure::manifest(file, diagnostics) });
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let kind = |(node, (device, memory)): (&NodeKind, (Option<Device>, Option<u64>))| {
        let device = device.unwrap_or(Device::Here);
        let nodes = Nodes {
            count: *node.count,
            experts_at_once: node.experts_at_once.unwrap_or_else(|| device.experts_at_once()),
            speed: speed(node, &cluster, folder)?,
            price_per_hour: *node.price_per_hour,
            startup_seconds: *node.startup_seconds,
            preempted_every_seconds: node.preempted_every_hours.value.map(|hours| hours * 3600.0),
        };
        Ok(Kind { name: node.name.value.clone(), device, memory, nodes })
    };
    cluster.nodes.iter().zip(machines).map(kind).collect()
}

fn device(named: &Setting<String>, problems: &mut Vec<Problem>) -> Option<Device> {
    match named.as_str() {
        HERE => return Some(Device::Here),
        CPU => return Some(Device::Cpu),
        _ => {}
    }
    match Card::parse(named) {
        Ok(card) => Some(Device::Card(card)),
        Err(reason) => {
            let message = format!("`{}` is not a device", **named);
            let hint = did_you_mean(named, [HERE, CPU]).unwrap_or(reason);
            problems.push(Problem::new(Code::UnknownWord, named.span, message).hint(hint));
            None
        }
    }
}

fn memory(named: &Setting<Option<String>>, problems: &mut Vec<Problem>) -> Option<u64> {
    let text = named.as_deref()?;
    let size = cards::memory(text);
    if let Err(reason) = &size {
        let message = format!("`{text}` is not a size of memory");
        problems.push(Problem::new(Code::WrongType, named.span, message).hint(reason.clone()));
    }
    size.ok()
}

/// Stated, or the ratio of two measurements.
fn speed(node: &NodeKind, cluster: &Cluster, folder: &Path) -> Result<f64, Failure> {
    let (Some(there), Some(here)) = (node.bench.as_deref(), cluster.bench.as_deref()) else {
        return Ok(node.speed.unwrap_or(1.0));
    };
    let tokens_per_second = |file: &str| {
        let file = folder.join(file);
        number(&read(&file)?, &[TOKENS_PER_SECOND]).ok_or_else(|| {
            Failure::bad_input("no-measurement", format!("{} has no {TOKENS_PER_SECOND}", file.display()))
                .hint("name an ablation.json, or the folder of a finished run")
        })
    };
    Ok(tokens_per_second(there)? / tokens_per_second(here)?)
}
