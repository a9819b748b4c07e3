//! Decides how many experts train at once, and on how many threads each.
//!
//! A step of a small base gains less than twice from a second thread, and start-up, scoring and saving gain nothing, so
//! experts in parallel with one thread each are faster than one after the other with all threads (see `benches/shelf`).
//! The number of threads affects rounding: the plan records it, and a resumed run keeps its
//! number.

use expert_contract::plan::{Device, DeviceKind, Machine};
use expert_contract::resolve::Share;

use crate::sys::host::{cores, devices_like, threads_alone};
use crate::ui::Console;
use crate::ui::number::bytes;

/// The share of a machine's memory for all experts together.
const MEMORY_SHARE: f64 = 0.8;

#[derive(Debug, Clone, PartialEq)]
pub struct Slots {
    pub jobs: usize,
    /// For each of them; None leaves it to torch, if no result depends on it.
    pub threads: Option<u32>,
    /// One after the other is given to the jobs.
    pub devices: Vec<Device>,
}

impl Slots {
    /// For these experts, which all have the same kind of device.
    pub fn of(machines: &[&Machine], asked: Option<u32>) -> Self {
        let asked = asked.map(|jobs| jobs as usize);
        let most = machines.len().max(1);
        let Some(first) = machines.first().map(|machine| &machine.device) else {
            return Self { jobs: 1, threads: None, devices: Vec::new() };
        };
        // Those that take several devices, or all cores, come one after the other.
        if machines.iter().any(|machine| machine.distributed.is_some()) {
            let jobs = asked.unwrap_or(1).min(most);
            return Self { jobs, threads: threads_alone(first), devices: vec![first.clone()] };
        }
        if first.kind == DeviceKind::Cpu {
            let largest = machines.iter().map(|machine| machine.estimate.total).max().unwrap_or(0);
            let jobs = asked.unwrap_or_else(|| side_by_side(cores(), first.memory_bytes, largest)).min(most);
            let threads = (cores() as usize / jobs).max(1) as u32;
            return Self { jobs, threads: Some(threads), devices: vec![first.clone()] };
        }
        let devices = devices_like(first);
        Self { jobs: asked.unwrap_or(devices.len()).min(most), threads: None, devices }
    }

    /// The memory that the largest experts need at once on one device, and what it has, where that is less. Each expert is
    /// planned for all of it, so this happens where a person asks for more jobs than fit.
    fn crowded(&self, machines: &[&Machine]) -> Option<(u64, u64)> {
        let there = self.devices.first()?.memory_bytes?;
        let at_once = self.jobs.div_ceil(self.devices.len());
        let mut sizes: Vec<u64> = machines.iter().copied().map(of_all_processes).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let needed = sizes.iter().take(at_once).sum();
        (at_once > 1 && needed > there).then_some((needed, there))
    }

    /// `them`: what the machines are of, such as "experts".
    pub fn warn_where_crowded(&self, machines: &[&Machine], them: &str, console: &Console) {
        let Some((needed, there)) = self.crowded(machines) else { return };
        let message = format!(
            "{} {them} at once may need {} of {}: each is planned as if it were alone",
            self.jobs.min(machines.len()),
            bytes(needed),
            bytes(there)
        );
        console.warn(&message, Some("lower --jobs, or plan each for its part with --max-memory"));
    }

    /// What one job has of the machine.
    pub fn share(&self, job: usize) -> Share {
        let device = self.devices.get(job % self.devices.len().max(1)).cloned();
        Share { device, threads: self.threads }
    }
}

/// The memory that an expert needs: the estimate is of one process, and those of a CPU have the same memory.
fn of_all_processes(machine: &Machine) -> u64 {
    let together = machine.distributed.filter(|_| machine.device.kind == DeviceKind::Cpu);
    together.map_or(1, |it| u64::from(it.processes)) * machine.estimate.total
}

/// One core each, up to what memory allows.
fn side_by_side(cores: u32, memory: Option<u64>, largest: u64) -> usize {
    room(memory, largest).clamp(1, cores as usize)
}

fn room(memory: Option<u64>, largest: u64) -> usize {
    match (memory, largest) {
        (Some(memory), 1..) => (MEMORY_SHARE * memory as f64 / largest as f64) as usize,
        _ => 1,
    }
}

/// Whether so many workers of this size fit side by side.
pub fn fits(jobs: usize, memory: Option<u64>, largest: u64) -> bool {
    room(memory, largest) >= jobs
}

#[cfg(test)]
mod tests {
    use expert_contract::plan::{Distributed, DistributedStrategy, Plan};

    use super::*;

    #[test]
    fn memory_bounds_how_many_train_side_by_side() {
        const GIB: u64 = 1 << 30;
        assert_eq!(side_by_side(2, Some(23 * GIB), 2 * GIB), 2);
        assert_eq!(side_by_side(8, Some(16 * GIB), 3 * GIB), 4);
        assert_eq!(side_by_side(8, Some(4 * GIB), 8 * GIB), 1);
        assert_eq!(side_by_side(8, None, GIB), 1);
        assert_eq!(side_by_side(8, Some(16 * GIB), 0), 1);
    }

    #[test]
    fn experts_that_do_not_fit_on_one_device_at_once_are_found() {
        let text = include_str!("../../../tests/examples/plan.json");
        let plan: Plan = serde_json::from_str(text).unwrap();
        let of = |total: u64| {
            let mut machine = plan.machine.clone();
            machine.estimate.total = total;
            machine
        };
        let (large, small) = (of(9), of(4));
        let device = |memory: u64| Device { memory_bytes: Some(memory), ..plan.machine.device.clone() };
        let slots = |jobs: usize, devices: Vec<Device>| Slots { jobs, threads: None, devices };
        let machines = [&small, &large, &small];
        assert_eq!(slots(2, vec![device(12)]).crowded(&machines), Some((13, 12)));
        assert_eq!(slots(2, vec![device(13)]).crowded(&machines), None);
        assert_eq!(slots(2, vec![device(12), device(12)]).crowded(&machines), None);
        assert_eq!(slots(1, vec![device(8)]).crowded(&machines), None);
        // The estimate is of one process, and all of them have a CPU's memory.
        let mut together = of(4);
        together.distributed = Some(Distributed { strategy: DistributedStrategy::Ddp, processes: 2 });
        assert_eq!(slots(2, vec![device(15)]).crowded(&[&together, &together]), Some((16, 15)));
    }

    #[test]
    fn an_expert_of_several_processes_has_the_machine_to_itself() {
        let text = include_str!("../../../tests/examples/plan.json");
        let plan: Plan = serde_json::from_str(text).unwrap();
        let alone = plan.machine;
        let mut together = alone.clone();
        together.distributed = Some(Distributed { strategy: DistributedStrategy::Ddp, processes: 2 });
        let slots = Slots::of(&[&alone, &together], None);
        assert_eq!((slots.jobs, slots.threads), (1, Some(cores())));
    }
}
