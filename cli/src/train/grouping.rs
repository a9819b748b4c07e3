//! Which experts of a shelf train fused: those that would train one after another, where a probe says that it is faster.
//!
//! A group takes the place of one expert: a slot with its threads. So what is compared is what one slot computes, fused or one
//! after another, and experts that have a slot each are never fused. An expert's bytes differ with its group. So it
//! trains by itself where they are promised: a run that was begun by itself, or a lock of the same inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::plan::DeviceKind;
use expert_contract::resolve::{Resolved, fuse};
use expert_contract::speed::Bound;
use serde::Serialize;

use super::gain::{self, Gain, LEAST, MOST_EXPERTS, MOST_TOKENS, Rows};
use super::slots::{Slots, fits};
use super::trainer::Trainer;
use super::work::Waiting;
use crate::plan::{self, bound};
use crate::ui::Console;
use crate::ui::number::grouped;

/// Passes that are left for all experts of a shape, below which a probe takes longer than what it may save.
const WORTH_A_PROBE: u64 = 1000;

/// Whether a shape that was never measured is measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Allowed,
    /// A shelf that is only shown.
    Never,
}

/// Experts that share a verdict.
struct Class {
    rows: Rows,
    /// Places of the queue, longest first.
    members: Vec<usize>,
}

impl Class {
    fn experts<'a>(&self, waiting: &'a [Waiting]) -> Vec<&'a Resolved> {
        self.members.iter().filter_map(|&index| waiting[index].resolved()).collect()
    }
}

/// Experts of one shape that might train fused, and what is known of it.
#[derive(Serialize)]
pub struct Shape {
    pub experts: Vec<String>,
    pub tokens_per_micro_batch: u64,
    /// Where the verdict is kept; without it the next shelf measures again.
    pub file: PathBuf,
    pub measured: Option<Gain>,
}

/// Gives those that train fused the number of their group.
pub fn fuse_where_faster(
    waiting: &mut [Waiting],
    slots: &Slots,
    trainer: &Trainer,
    probe: Probe,
    console: &Console,
) -> Vec<Shape> {
    let to_do: Vec<usize> = (0..waiting.len()).filter(|&index| waiting[index].is_to_train()).collect();
    // The experts of one slot.
    let most = to_do.len().div_ceil(slots.jobs).min(MOST_EXPERTS);
    let (mut next, mut shapes) = (0, Vec::new());
    if most < 2 {
        return shapes;
    }
    for (place, class) in classes(waiting, &to_do, slots, trainer) {
        let most = most_that_fit(waiting, &class, most, slots);
        if most < 2 {
            continue;
        }
        let measured = verdict(waiting, &class, &place, slots, trainer, probe, console);
        shapes.push(Shape {
            experts: class.members.iter().map(|&index| waiting[index].expert.clone()).collect(),
            tokens_per_micro_batch: class.rows.together(),
            file: place,
            measured: measured.clone(),
        });
        let Some(gain) = measured else { continue };
        let names: Vec<&str> = class.members.iter().map(|&index| waiting[index].expert.as_str()).collect();
        let groups = divided(class.members.len(), most, &gain);
        console.say(&said(&names, class.rows, &groups, most, &gain));
        for (number, size) in groups.iter().enumerate() {
            // The longest of all groups come first, then the next ones: groups of the same length.
            let members = class.members.iter().skip(number).step_by(groups.len());
            for &index in members.take(*size) {
                waiting[index].group = Some(next + number);
            }
        }
        next += groups.len();
    }
    shapes
}

/// Those that may be fused, by the file of their shape's verdict.
fn classes(
    waiting: &[Waiting],
    to_do: &[usize],
    slots: &Slots,
    trainer: &Trainer,
) -> BTreeMap<PathBuf, Class> {
    let mut found: BTreeMap<PathBuf, Class> = BTreeMap::new();
    for &index in to_do {
        let Some(resolved) = waiting[index].resolved() else { continue };
        let Some(rows) = Rows::of(resolved).filter(|rows| may_gain(resolved, *rows)) else { continue };
        if fuse(&[resolved]).is_err() || !trainer.may_fuse(resolved) {
            continue;
        }
        let shared = resolved.clone().on(&slots.share(0));
        let class =
            found.entry(gain::place(&shared, rows)).or_insert_with(|| Class { rows, members: Vec::new() });
        let first = class.members.first().and_then(|&other| waiting[other].resolved());
        let is_named = |&other: &usize| {
            waiting[other].resolved().is_some_and(|it| it.recipe.expert == resolved.recipe.expert)
        };
        let fits = first.is_none_or(|first| fuse(&[first, resolved]).is_ok());
        if fits && !class.members.iter().any(is_named) {
            class.members.push(index);
        }
    }
    for class in found.values_mut() {
        let seconds: Vec<Option<f64>> = class.members.iter().map(|&index| waiting[index].seconds).collect();
        class.members = super::longest_first(&seconds).into_iter().map(|it| class.members[it]).collect();
    }
    found
}

/// Whether a probe is worth its time: a pass of this size does not keep the device busy.
fn may_gain(resolved: &Resolved, rows: Rows) -> bool {
    match resolved.machine.device.kind {
        DeviceKind::Cuda => bound(resolved).is_none_or(|bound| bound == Bound::Launches),
        _ => rows.together() <= MOST_TOKENS,
    }
}

/// The largest group that fits the memory in every slot at once.
fn most_that_fit(waiting: &[Waiting], class: &Class, most: usize, slots: &Slots) -> usize {
    let experts = class.experts(waiting);
    let fits = |size: &usize| {
        let Some(group) = experts.get(..*size) else { return false };
        let memory = group[0].machine.device.memory_bytes;
        // Each GPU has only its own jobs in memory.
        let jobs = slots.jobs.div_ceil(slots.devices.len().max(1));
        fuse(group).is_ok_and(|estimate| fits(jobs, memory, estimate.total))
    };
    (2..=most).rev().find(fits).unwrap_or(0)
}

/// What is kept of the shape, or measured now.
fn verdict(
    waiting: &[Waiting],
    class: &Class,
    place: &Path,
    slots: &Slots,
    trainer: &Trainer,
    probe: Probe,
    console: &Console,
) -> Option<Gain> {
    if let Some(cached) = Gain::cached(place) {
        return Some(cached);
    }
    let experts = class.experts(waiting);
    if experts.iter().filter_map(|it| passes(it)).sum::<u64>() < WORTH_A_PROBE {
        return None;
    }
    let count = experts.len();
    if probe == Probe::Never {
        console.say(&format!(
            "{count} experts may train faster fused: `train --all` measures it before they start"
        ));
        return None;
    }
    console.say(&format!("measuring whether {count} experts train faster fused; once per machine and shape"));
    let first = experts.first()?;
    let base = trainer.runner.fetch(&first.recipe, &first.machine, &mut |_| {}).ok()?;
    let mut subject = (*first).clone().on(&slots.share(0));
    subject.machine = subject.machine.with_base(base);
    match gain::measure(&subject, class.rows, place, trainer.runner.global.python.as_deref()) {
        Ok(found) => Some(found),
        Err(reason) => {
            console.say(&format!("not measured, so they train separately: {reason}"));
            None
        }
    }
}

/// Micro-batches of the whole run.
fn passes(resolved: &Resolved) -> Option<u64> {
    Some(plan::steps(resolved)?.steps * resolved.machine.accumulation)
}

/// Groups as large as they may be, and one of those that are left over, where they gain enough.
fn divided(count: usize, most: usize, gain: &Gain) -> Vec<usize> {
    let gains = |size: usize| gain.of(size).is_some_and(|found| found >= LEAST);
    let Some(size) = (2..=most.min(count)).rev().find(|size| gains(*size)) else { return Vec::new() };
    // As equal as can be, where the smaller ones gain enough too.
    let number = count.div_ceil(size);
    let (smaller, larger) = (count / number, count % number);
    if gains(smaller) {
        return (0..number).map(|it| smaller + usize::from(it < larger)).collect();
    }
    vec![size; count / size]
}

fn said(names: &[&str], rows: Rows, groups: &[usize], most: usize, gain: &Gain) -> String {
    let tokens = rows.together();
    let [alone, size] = [1, groups.first().copied().unwrap_or(most)];
    let found = gain.of(size).unwrap_or_default();
    let rates = match (gain.rate(alone), gain.rate(size)) {
        (Some(alone), Some(fused)) => {
            format!("{} tokens/s fused, {} one after another", grouped(fused as u64), grouped(alone as u64))
        }
        _ => String::new(),
    };
    let measured =
        format!("{found:.2}x at {tokens} tokens per micro-batch ({rates}, measured on this machine)");
    if groups.is_empty() {
        return format!("{} train separately: fused gains {measured}", names.join(", "));
    }
    let sizes: Vec<String> = groups.iter().map(usize::to_string).collect();
    let plural = if groups.len() == 1 { "a group" } else { "groups" };
    format!(
        "{} train fused, in {plural} of {}: {measured}; --no-fuse trains each by itself, with the bytes that it has alone",
        names.join(", "),
        sizes.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_as_equal_as_their_gain_allows() {
        let both = Gain::measured([(1, 100.0), (2, 130.0), (4, 180.0)]);
        assert_eq!(divided(2, 4, &both), [2]);
        assert_eq!(divided(5, 4, &both), [3, 2]);
        assert_eq!(divided(8, 4, &both), [4, 4]);
        assert_eq!(divided(5, 2, &both), [2, 2], "one is left");
        let four = Gain::measured([(1, 100.0), (2, 110.0), (4, 130.0)]);
        assert_eq!(divided(5, 4, &four), [4]);
        assert_eq!(divided(9, 4, &four), [4, 4]);
        assert!(divided(3, 4, &four).is_empty() && divided(9, 3, &four).is_empty());
    }
}
