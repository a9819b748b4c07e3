//! A cluster's plan as text.

use std::path::Path;

use super::simulate::Gain;
use super::{Found, measuring};
use crate::args::PlanOptions;
use crate::run::speed::amount;
use crate::sys::paths::portable;
use crate::ui::number::{bytes, grouped, percent, seconds, short};
use crate::ui::style::STRONG;
use crate::ui::wrap::columns;
use crate::ui::wrap::wrapped;
use crate::ui::{Align, Console, Table};

/// More lines of one sort are counted and left to `--json`.
const LINES: usize = 20;

pub fn show(found: &Found, folder: &Path, options: &PlanOptions, console: &Console) {
    let mut page = String::new();
    let mut line = |text: &str| {
        page += &wrapped(text, 2, columns());
        page.push('\n');
    };
    let outcome = &found.outcome;
    let (all, placed) = (found.experts.len(), outcome.placed.len());
    let of_all = if placed == all { String::new() } else { format!(" of {}", grouped(all as u64)) };
    if let Some(last) = outcome.last() {
        let cost = if outcome.cost > 0.0 { format!(" for {}", amount(outcome.cost)) } else { String::new() };
        line(&format!(
            "{STRONG}{}{STRONG:#}{cost}: {}{of_all} experts of {} from their first step; {} ends last",
            seconds(outcome.makespan),
            grouped(placed as u64),
            portable(folder),
            found.expert(last).name,
        ));
    } else if found.of_job.is_empty() {
        line(&format!(
            "nothing to simulate: none of the {} experts of {} is measured",
            grouped(all as u64),
            portable(folder)
        ));
    } else {
        line(&format!(
            "no node that is there trains any of the {} measured experts of {}",
            grouped(found.of_job.len() as u64),
            portable(folder)
        ));
    }
    line(
        "validation during training, saving and scoring are not in it; step times are those of this machine, times each node's speed",
    );
    page.push('\n');
    page += &nodes(found);
    if placed > 0 && placed <= LINES {
        page.push('\n');
        page += &experts(found);
    }
    console.data(&page);
    for text in advice(found) {
        console.data(&wrapped(&text, 2, columns()));
    }
    missing(found, options, console);
}

fn nodes(found: &Found) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("nodes", Align::Left),
        ("count", right),
        ("speed", right),
        ("used", right),
        ("busy", right),
        ("one more saves", right),
        ("and adds", right),
    ]);
    for (index, kind) in found.kinds.iter().enumerate() {
        let gain = found.gains[index];
        let saved = match gain {
            Gain { experts: 1.., .. } => format!("trains {}", experts_more(gain.experts)),
            Gain { seconds: saved, .. } if saved > 0.0 => seconds(saved),
            _ => "nothing".to_owned(),
        };
        let added = match gain.cost {
            cost if cost.abs() < 5e-5 => "-".to_owned(),
            cost if cost < 0.0 => format!("-{}", amount(-cost)),
            cost => amount(cost),
        };
        table.row([
            kind.name.clone(),
            grouped(u64::from(kind.nodes.count)),
            format!("{}x", short(kind.nodes.speed)),
            grouped(u64::from(found.outcome.used[index])),
            percent(found.outcome.busy[index]),
            saved,
            added,
        ]);
    }
    table.stacked()
}

fn experts(found: &Found) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("expert", Align::Left),
        ("node", Align::Left),
        ("begins", right),
        ("ends", right),
        ("alone here", right),
        ("interruptions", right),
    ]);
    for placed in &found.outcome.placed {
        table.row([
            found.expert(placed).name.clone(),
            format!("{} {}", found.kinds[placed.kind].name, placed.node + 1),
            seconds(placed.begin),
            seconds(placed.end),
            found.timed(placed).map(|it| seconds(it.seconds)).unwrap_or_default(),
            placed.preemptions.to_string(),
        ]);
    }
    table.stacked()
}

fn experts_more(count: usize) -> String {
    if count == 1 { "1 expert".to_owned() } else { format!("{} experts", grouped(count as u64)) }
}

/// What to buy, or why nothing helps.
fn advice(found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    let Some((job, bound)) = found.bound else { return lines };
    match found.best {
        Some(kind) => {
            let (name, gain) = (&found.kinds[kind].name, found.gains[kind]);
            lines.push(match gain.experts {
                0 => format!("buy: one more {name} saves {}", seconds(gain.seconds)),
                more => format!("buy: one more {name} trains {} that no node trains now", experts_more(more)),
            });
        }
        None => lines.push("buy: nothing; one more node of any kind saves less than 1%".to_owned()),
    }
    lines.push(format!(
        "no number of these nodes is faster than {}: {} alone takes that long",
        seconds(bound),
        found.expert_of(job).name
    ));
    let idle = found.kinds.iter().zip(&found.outcome.used).filter(|(kind, used)| **used < kind.nodes.count);
    for (kind, used) in idle {
        lines.push(format!("not needed: {} of {} {}", kind.nodes.count - used, kind.nodes.count, kind.name));
    }
    lines
}

/// Experts that are not in the numbers, and what to do about each.
fn missing(found: &Found, options: &PlanOptions, console: &Console) {
    let listed = |names: &[&str]| {
        let more = names.len().saturating_sub(LINES);
        let rest = if more > 0 { format!(" and {more} more (--json has all)") } else { String::new() };
        format!("{}{rest}", names[..names.len() - more].join(", "))
    };
    let name = |index: &usize| found.experts[*index].name.as_str();
    if let Some(first) = found.unmeasured.first() {
        let names: Vec<&str> = found.unmeasured.iter().map(name).collect();
        console.warn(
            &format!("not measured on this machine, and left out: {}", listed(&names)),
            Some(&format!("measure a run of the shape: {}", measuring(&found.experts[*first], options))),
        );
    }
    let too_large: Vec<&str> = found.too_large.iter().map(name).collect();
    if !too_large.is_empty() {
        console.warn(
            &format!("too large for every node, and left out: {}", listed(&too_large)),
            Some("add a kind of node with more memory, lower max_seq_length, or quantize the base"),
        );
    }
    for (index, kind) in found.kinds.iter().enumerate() {
        let lacks = |it: &&super::Expert| it.known.as_ref().is_ok_and(|it| it.lacks[index].is_some());
        let names: Vec<&str> = found.experts.iter().filter(lacks).map(|it| it.name.as_str()).collect();
        let lack = found.experts.iter().find_map(|it| it.known.as_ref().ok()?.lacks[index]);
        if let (Some(lack), true) = (lack, names.len() > too_large.len()) {
            let needed = format!(
                "{} needs {}, and {} of {} can be used",
                names[0],
                bytes(lack.needed_bytes),
                bytes(lack.usable_bytes),
                bytes(lack.memory_bytes)
            );
            console.warn(
                &format!("too large for {}, and not placed there: {} ({needed})", kind.name, listed(&names)),
                None,
            );
        }
    }
    for (expert, reason) in found.unplaced() {
        console.warn(&format!("{} is left out: {reason}", expert.name), None);
    }
}
