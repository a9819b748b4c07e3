//! When each expert of a shelf would end on machines that are not here: longest first, each where it ends earliest.
//!
//! On nodes that are alike this is what the queue of `train --all` does: whoever is free takes the next expert.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use crate::train::longest_first;

/// An expert of known length.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// On this machine.
    pub seconds: f64,
    /// Between two checkpoints; None saves at the end only.
    pub save_seconds: Option<f64>,
    /// For each kind of node, whether the expert has room there.
    pub fits: Vec<bool>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    pub count: u32,
    pub experts_at_once: u32,
    /// As a multiple of this machine's.
    pub speed: f64,
    pub price_per_hour: f64,
    pub startup_seconds: f64,
    pub preempted_every_seconds: Option<f64>,
}

/// An expert's place in the plan, by the numbers of the expert, of the kind and of the node.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub job: usize,
    pub kind: usize,
    pub node: u32,
    pub begin: f64,
    pub end: f64,
    pub preemptions: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// In the order in which they start.
    pub placed: Vec<Placed>,
    /// Experts that no node can train.
    pub unplaced: Vec<usize>,
    pub makespan: f64,
    pub cost: f64,
    /// For each kind: nodes that train at least one expert, and the share of all its places that is in use until the end.
    pub used: Vec<u32>,
    pub busy: Vec<f64>,
}

/// What one more node of a kind would change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Experts that no node trains now.
    pub experts: usize,
    /// Of the experts that are trained now.
    pub seconds: f64,
    /// Of all that are trained then.
    pub cost: f64,
}

/// When a place is free; the first place of the first node comes first.
#[derive(Debug, PartialEq)]
struct Free {
    at: f64,
    place: usize,
}

impl Eq for Free {}

impl Ord for Free {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.place.cmp(&other.place))
    }
}

impl PartialOrd for Free {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub fn simulate(jobs: &[Job], kinds: &[Nodes]) -> Outcome {
    let mut free: Vec<BinaryHeap<Reverse<Free>>> =
        kinds.iter().map(|kind| places(kind, jobs.len())).collect();
    let mut outcome = Outcome::default();
    let seconds: Vec<Option<f64>> = jobs.iter().map(|job| Some(job.seconds)).collect();
    for job in longest_first(&seconds) {
        let ends = (0..kinds.len()).filter(|kind| jobs[job].fits[*kind]).filter_map(|kind| {
            let Reverse(Free { at, place }) = free[kind].peek()?;
            let node = (*place / kinds[kind].experts_at_once as usize) as u32;
            let (begin, end, preemptions) = kinds[kind].train(node, *at, &jobs[job])?;
            Some(Placed { job, kind, node, begin, end, preemptions })
        });
        // Of equals the first: the order of the kinds in the file.
        let Some(best) = ends.reduce(|best, next| if next.end < best.end { next } else { best }) else {
            outcome.unplaced.push(job);
            continue;
        };
        if let Some(Reverse(Free { place, .. })) = free[best.kind].pop() {
            free[best.kind].push(Reverse(Free { at: best.end, place }));
        }
        outcome.placed.push(best);
    }
    outcome.add_up(kinds);
    outcome
}

/// Places beyond the number of experts are never used.
fn places(kind: &Nodes, jobs: usize) -> BinaryHeap<Reverse<Free>> {
    let count = (kind.count as usize).saturating_mul(kind.experts_at_once as usize).min(jobs);
    (0..count).map(|place| Reverse(Free { at: kind.startup_seconds, place })).collect()
}

/// A training that is interrupted more often than this does not get anywhere.
const MOST_PREEMPTIONS: u32 = 100_000;

impl Nodes {
    /// Begin, end and interruptions of an expert that is given to a node at `from`; None where it never ends. The nodes of a
    /// kind are interrupted in turn, at equal distances.
    fn train(&self, node: u32, from: f64, job: &Job) -> Option<(f64, f64, u32)> {
        let length = job.seconds / self.speed;
        let Some(every) = self.preempted_every_seconds else { return Some((from, from + length, 0)) };
        let phase = every * f64::from(node + 1) / f64::from(self.count.max(1));
        let before = |time: f64| phase + ((time - phase) / every).floor() * every;
        let begin = if from >= phase { from.max(before(from) + self.startup_seconds) } else { from };
        let (mut now, mut kept) = (begin, 0.0);
        for preemptions in 0..MOST_PREEMPTIONS {
            let next = if now < phase { phase } else { before(now) + every };
            let reached = kept + (next - now);
            if length <= reached {
                return Some((begin, now + length - kept, preemptions));
            }
            let saved = job
                .save_seconds
                .map_or(0.0, |save| (reached * self.speed / save).floor() * save / self.speed);
            // After a first part of any length, a whole interval that adds nothing will never add anything.
            if preemptions > 0 && saved <= kept {
                return None;
            }
            kept = saved.max(kept);
            now = next + self.startup_seconds;
        }
        None
    }
}

impl Outcome {
    fn add_up(&mut self, kinds: &[Nodes]) {
        let mut until: HashMap<(usize, u32), f64> = HashMap::new();
        let mut busy = vec![0.0; kinds.len()];
        for placed in &self.placed {
            let end = until.entry((placed.kind, placed.node)).or_default();
            *end = end.max(placed.end);
            busy[placed.kind] += placed.end - placed.begin;
            self.makespan = self.makespan.max(placed.end);
        }
        self.used =
            (0..kinds.len()).map(|kind| until.keys().filter(|it| it.0 == kind).count() as u32).collect();
        // Added in one order, so that the sum is always the same number.
        let mut nodes: Vec<_> = until.into_iter().collect();
        nodes.sort_by_key(|(node, _)| *node);
        let price = |((kind, _), end): &((usize, u32), f64)| end / 3600.0 * kinds[*kind].price_per_hour;
        // From 0.0: the sum of nothing is -0.0.
        self.cost = nodes.iter().map(price).fold(0.0, |sum, price| sum + price);
        let share = |(kind, busy): (&Nodes, f64)| {
            let all = f64::from(kind.count) * f64::from(kind.experts_at_once) * self.makespan;
            if all > 0.0 { busy / all } else { 0.0 }
        };
        self.busy = kinds.iter().zip(busy).map(share).collect();
    }

    /// The expert that ends last.
    pub fn last(&self) -> Option<&Placed> {
        self.placed.iter().reduce(|last, next| if next.end > last.end { next } else { last })
    }
}

/// For each kind, what one more of its nodes would change.
pub fn one_more(jobs: &[Job], kinds: &[Nodes], now: &Outcome) -> Vec<Gain> {
    let trained_now = (0..jobs.len()).filter(|job| !now.unplaced.contains(job));
    let trained_now: Vec<Job> = trained_now.map(|job| jobs[job].clone()).collect();
    let with = |kind: usize| {
        let mut more = kinds.to_vec();
        more[kind].count += 1;
        let then = simulate(jobs, &more);
        let makespan = simulate(&trained_now, &more).makespan;
        Gain {
            experts: now.unplaced.len().saturating_sub(then.unplaced.len()),
            seconds: now.makespan - makespan,
            cost: then.cost - now.cost,
        }
    };
    (0..kinds.len()).map(with).collect()
}

/// A gain below this share of the whole is none.
const NOTICEABLE: f64 = 0.01;

/// The kind of which one more node trains the most experts that no node trains now, for the least; where there is none, the
/// one that saves the most time for what it adds to the cost.
pub fn best(gains: &[Gain], makespan: f64) -> Option<usize> {
    let worth = |gain: &Gain| match gain {
        Gain { experts: 1.., cost, .. } => -cost,
        Gain { seconds, cost, .. } if *cost > 0.0 => seconds / cost,
        _ => f64::INFINITY,
    };
    let order = |a: &Gain, b: &Gain| {
        let by_worth = worth(a).total_cmp(&worth(b));
        a.experts.cmp(&b.experts).then(by_worth).then(a.seconds.total_cmp(&b.seconds))
    };
    let helps = |gain: &Gain| gain.experts > 0 || gain.seconds > NOTICEABLE * makespan;
    let found = gains.iter().enumerate().filter(|(_, gain)| helps(gain));
    found.reduce(|best, next| if order(next.1, best.1).is_gt() { next } else { best }).map(|(kind, _)| kind)
}

/// The longest time that one expert needs on the node that trains it fastest: no number of nodes is faster.
pub fn bound(jobs: &[Job], kinds: &[Nodes]) -> Option<(usize, f64)> {
    let alone = |(index, job): (usize, &Job)| {
        let ends = kinds.iter().zip(&job.fits).filter(|(_, fits)| **fits);
        let ends = ends.filter_map(|(kind, _)| Some(kind.train(0, kind.startup_seconds, job)?.1));
        Some((index, ends.reduce(f64::min)?))
    };
    jobs.iter().enumerate().filter_map(alone).reduce(|a, b| if b.1 > a.1 { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Nodes = Nodes {
        count: 1,
        experts_at_once: 1,
        speed: 1.0,
        price_per_hour: 0.0,
        startup_seconds: 0.0,
        preempted_every_seconds: None,
    };

    fn job(seconds: f64) -> Job {
        Job { seconds, save_seconds: None, fits: vec![true; 2] }
    }

    fn jobs(seconds: &[f64]) -> Vec<Job> {
        seconds.iter().map(|it| job(*it)).collect()
    }

    #[test]
    fn two_like_nodes_take_turns_with_the_longest_first() {
        let outcome = simulate(&jobs(&[1.0, 5.0, 2.0, 3.0]), &[Nodes { count: 2, ..NODE }]);
        let found: Vec<_> = outcome.placed.iter().map(|it| (it.job, it.node, it.begin, it.end)).collect();
        assert_eq!(found, [(1, 0, 0.0, 5.0), (3, 1, 0.0, 3.0), (2, 1, 3.0, 5.0), (0, 0, 5.0, 6.0)]);
        assert_eq!((outcome.makespan, outcome.last().unwrap().job), (6.0, 0));
        assert!((outcome.busy[0] - 11.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn an_expert_waits_for_a_fast_node_where_it_ends_earlier() {
        let kinds = [NODE, Nodes { speed: 10.0, ..NODE }];
        let outcome = simulate(&jobs(&[100.0, 90.0, 15.0]), &kinds);
        let found: Vec<_> = outcome.placed.iter().map(|it| (it.job, it.kind, it.end)).collect();
        assert_eq!(found, [(0, 1, 10.0), (1, 1, 19.0), (2, 0, 15.0)]);
        assert_eq!(outcome.used, [1, 1]);
    }

    #[test]
    fn start_up_is_paid_and_an_unused_node_is_not() {
        let paid = Nodes { count: 3, price_per_hour: 3.6, startup_seconds: 100.0, ..NODE };
        let outcome = simulate(&jobs(&[400.0, 500.0]), &[paid]);
        assert_eq!((outcome.used[0], outcome.makespan), (2, 600.0));
        assert!((outcome.cost - (0.5 + 0.6)).abs() < 1e-9, "{}", outcome.cost);
    }

    #[test]
    fn experts_that_fit_nowhere_or_never_end_are_left_out() {
        let one = Job { fits: vec![false, false], ..job(1.0) };
        let often = Nodes { preempted_every_seconds: Some(10.0), ..NODE };
        let long = Job { save_seconds: Some(11.0), ..job(30.0) };
        let outcome = simulate(&[one, long, job(10.0)], &[often.clone(), Nodes { count: 0, ..NODE }]);
        assert_eq!(outcome.unplaced, [1, 0]);
        assert_eq!((outcome.placed[0].job, outcome.placed[0].end), (2, 10.0));
        assert!(simulate(&[], &[often]).placed.is_empty());
    }

    #[test]
    fn an_interrupted_expert_repeats_what_was_not_saved() {
        let node = Nodes { preempted_every_seconds: Some(10.0), startup_seconds: 1.0, ..NODE };
        let saved = Job { save_seconds: Some(4.0), ..job(20.0) };
        // 1 to 10: 9 done, 8 kept. 11 to 20: 17 done, 16 kept. 21 to 25: the rest.
        let outcome = simulate(&[saved], std::slice::from_ref(&node));
        assert_eq!((outcome.makespan, outcome.placed[0].preemptions), (25.0, 2));
        // Free at the moment of an interruption: the node starts again first.
        assert_eq!(node.train(0, 10.5, &job(2.0)), Some((11.0, 13.0, 0)));
        assert_eq!(node.train(0, 1.0, &job(12.0)), None);
        let faster = Nodes { speed: 2.0, ..node };
        assert_eq!(faster.train(0, 1.0, &job(12.0)), Some((1.0, 7.0, 0)));
    }

    #[test]
    fn one_more_node_and_what_to_buy() {
        let cheap = Nodes { price_per_hour: 1.0, ..NODE };
        let fast = Nodes { count: 0, speed: 4.0, price_per_hour: 40.0, ..NODE };
        let (jobs, kinds) = (jobs(&[3600.0; 4]), [cheap, fast]);
        let now = simulate(&jobs, &kinds);
        assert_eq!((now.makespan, now.cost), (4.0 * 3600.0, 4.0));
        let gains = one_more(&jobs, &kinds, &now);
        assert_eq!((gains[0].seconds, gains[0].cost, gains[1].seconds), (7200.0, 0.0, 3.0 * 3600.0));
        assert_eq!(best(&gains, now.makespan), Some(0));
        assert_eq!(best(&[Gain { experts: 0, seconds: 1.0, cost: 0.0 }], 1000.0), None);
        assert_eq!(bound(&jobs, &kinds), Some((0, 900.0)));
    }

    #[test]
    fn a_node_that_trains_what_no_other_can_comes_before_any_saving() {
        let absent = |price| Nodes { count: 0, price_per_hour: price, ..NODE };
        let kinds = [NODE, absent(2.0), absent(1.0)];
        let small = Job { fits: vec![true; 3], ..job(3600.0) };
        let large = Job { fits: vec![false, true, true], ..job(7200.0) };
        let alone = [large.clone()];
        let now = simulate(&alone, &kinds);
        assert!(now.cost.is_sign_positive());
        let gains = one_more(&alone, &kinds, &now);
        assert_eq!(gains[0], Gain { experts: 0, seconds: 0.0, cost: 0.0 });
        assert_eq!(gains[1], Gain { experts: 1, seconds: 0.0, cost: 4.0 });
        assert_eq!(best(&gains, now.makespan), Some(2), "the cheaper one");
        let jobs = [small.clone(), large, small];
        let now = simulate(&jobs, &kinds);
        let gains = one_more(&jobs, &kinds, &now);
        assert_eq!((gains[0].experts, gains[0].seconds), (0, 3600.0));
        assert_eq!((gains[2].experts, gains[2].seconds), (1, 3600.0), "of the small ones");
        assert_eq!(best(&gains, now.makespan), Some(2));
    }
}
