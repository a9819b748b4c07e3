//! Successive halving: every trial is trained for a ninth of its steps, the best third of them for a third, and the best
//! third of those for all. The manifest's own recipe is trial 0 and stays to the end.

use std::cmp::Ordering;
use std::str::FromStr;

use expert_contract::results::{SearchRecord, SearchScore, SearchTrial};

use super::space::RANK;

/// Of a trial's steps.
pub const LENGTHS: [f64; 3] = [1.0 / 9.0, 1.0 / 3.0, 1.0];
pub const LAST: usize = LENGTHS.len() - 1;
/// One trial in so many goes to the next rung.
const KEPT: usize = 3;
pub const MOST_TRIALS: usize = 500;

/// How long a search may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    Trials(usize),
    Seconds(f64),
}

impl Budget {
    /// Trials at most.
    pub fn most(self) -> usize {
        match self {
            Self::Trials(count) => count,
            Self::Seconds(_) => MOST_TRIALS,
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{text}` is neither a time such as 2h, 30m or 90s, nor a number of trials from 2 to {MOST_TRIALS}"
            )
        };
        let unit = text.char_indices().next_back().and_then(|(at, unit)| {
            let seconds = match unit {
                'h' => 3600.0,
                'm' => 60.0,
                's' => 1.0,
                _ => return None,
            };
            Some((&text[..at], seconds))
        });
        let Some((number, seconds)) = unit else {
            let trials = text.parse().ok().filter(|trials| (2..=MOST_TRIALS).contains(trials));
            return trials.map(Self::Trials).ok_or_else(refused);
        };
        let time = number.parse::<f64>().ok().map(|number| number * seconds);
        time.filter(|time| time.is_finite() && *time > 0.0).map(Self::Seconds).ok_or_else(refused)
    }
}

/// What a trial takes: the same for every length, and what grows with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub fixed: f64,
    /// Of all steps.
    pub training: f64,
}

impl Cost {
    /// Of a trial at the first rung; `training` is its part without start and scoring.
    pub fn of_first(whole: f64, training: f64) -> Self {
        let training = training.clamp(0.0, whole);
        Self { fixed: whole - training, training: training / LENGTHS[0] }
    }

    pub fn at(self, rung: usize) -> f64 {
        self.fixed + self.training * LENGTHS[rung]
    }

    /// Of a whole search, with so many trials at once, and the last comparison.
    pub fn of_search(self, trials: usize, jobs: usize) -> f64 {
        let rungs: f64 = (0..LENGTHS.len())
            .map(|rung| (size(trials, rung) as f64 / jobs as f64).ceil() * self.at(rung))
            .sum();
        rungs + 2.0 * self.fixed
    }

    /// The most trials that end in this time; below 2 there is nothing to search.
    pub fn trials_in(self, seconds: f64, jobs: usize) -> usize {
        (1..=MOST_TRIALS).take_while(|trials| self.of_search(*trials, jobs) <= seconds).count()
    }
}

/// How many trials are at a rung: the best third, and the manifest's own recipe where it is not among them.
fn size(trials: usize, rung: usize) -> usize {
    if rung == 0 { trials } else { (best_at(trials, rung) + 1).min(trials) }
}

fn best_at(trials: usize, rung: usize) -> usize {
    (0..rung).fold(trials, |left, _| left.div_ceil(KEPT))
}

/// The score of a trial at a rung, if it has one.
pub fn score(trial: &SearchTrial, rung: usize) -> Option<&SearchScore> {
    trial.scores.iter().find(|it| it.rung == rung as u64)
}

fn accuracy(trial: &SearchTrial, rung: usize) -> Option<f64> {
    score(trial, rung)?.share.as_ref()?.accuracy
}

/// The numbers of the trials that are trained at this rung, the manifest's own recipe first.
pub fn entered(record: &SearchRecord, rung: usize) -> Vec<usize> {
    let all: Vec<usize> = (0..record.trials.len()).collect();
    if rung == 0 {
        return all;
    }
    let mut ranked = ranked(record, rung - 1);
    ranked.truncate(best_at(all.len(), rung));
    let own = record.trials.first().and_then(|own| accuracy(own, rung - 1)).map(|_| 0);
    let others = ranked.into_iter().filter(|trial| *trial != 0);
    own.into_iter().chain(others).collect()
}

/// Trials with a score at this rung, the best first.
fn ranked(record: &SearchRecord, rung: usize) -> Vec<usize> {
    let mut found: Vec<usize> =
        (0..record.trials.len()).filter(|it| accuracy(&record.trials[*it], rung).is_some()).collect();
    found.sort_by(|one, other| better(&record.trials[*one], &record.trials[*other], rung));
    found
}

/// The higher share of right answers first, then the lower validation loss, then fewer steps, then the lower rank. Trials
/// that are equal in all of them keep the order in which they were drawn. An unknown loss is the worst.
pub fn better(one: &SearchTrial, other: &SearchTrial, rung: usize) -> Ordering {
    let share = |trial| accuracy(trial, rung).unwrap_or(-1.0);
    let loss = |trial| validation_loss(trial, rung).unwrap_or(f64::INFINITY);
    let steps = |trial| score(trial, rung).and_then(|it| it.steps).unwrap_or(u64::MAX);
    share(other)
        .total_cmp(&share(one))
        .then(loss(one).total_cmp(&loss(other)))
        .then(steps(one).cmp(&steps(other)))
        .then(rank(one).total_cmp(&rank(other)))
}

pub fn validation_loss(trial: &SearchTrial, rung: usize) -> Option<f64> {
    score(trial, rung)?.validation_loss.filter(|loss| loss.is_finite())
}

/// 0 where it is not searched, as for the manifest's own recipe.
fn rank(trial: &SearchTrial) -> f64 {
    trial.settings.iter().find(|it| it.key == RANK).and_then(|it| it.value.as_f64()).unwrap_or_default()
}

/// A trial that was as often right as the winner at its rung, and lost to it by loss or cost.
pub fn tied(record: &SearchRecord) -> Option<usize> {
    let (best, rung) = winner(record)?;
    let second = *ranked(record, rung).get(1)?;
    (accuracy(&record.trials[best], rung) == accuracy(&record.trials[second], rung)).then_some(second)
}

/// The numbers of all trials: those that reached a longer rung first, and of these the best first.
pub fn sorted(record: &SearchRecord) -> Vec<usize> {
    let reached = |trial: &usize| {
        (0..LENGTHS.len()).rev().find(|rung| accuracy(&record.trials[*trial], *rung).is_some())
    };
    let mut order: Vec<usize> = (0..record.trials.len()).collect();
    order.sort_by(|one, other| {
        let (left, right) = (reached(one), reached(other));
        let by_score = |rung| better(&record.trials[*one], &record.trials[*other], rung);
        right.cmp(&left).then_with(|| left.map_or(Ordering::Equal, by_score))
    });
    order
}

/// The best trial of the longest rung that has one, with that rung. A rung that the budget did not reach for each of its
/// trials has no best one.
pub fn winner(record: &SearchRecord) -> Option<(usize, usize)> {
    let complete = (0..LENGTHS.len()).take_while(|rung| unreached(record, *rung).is_empty());
    complete.filter_map(|rung| Some((*ranked(record, rung).first()?, rung))).last()
}

/// The trials that a rung has, and that have neither a score nor a failure there.
pub fn unreached(record: &SearchRecord, rung: usize) -> Vec<usize> {
    let is_open = |trial: &usize| score(&record.trials[*trial], rung).is_none();
    entered(record, rung).into_iter().filter(is_open).collect()
}

/// Whether a trial has a score.
pub fn is_scored(record: &SearchRecord) -> bool {
    (0..LENGTHS.len()).any(|rung| !ranked(record, rung).is_empty())
}

#[cfg(test)]
mod tests {
    use expert_contract::results::{SearchSetting, Share};

    use super::*;

    #[test]
    fn a_budget_is_a_time_or_a_number_of_trials() {
        assert_eq!("2h".parse(), Ok(Budget::Seconds(7200.0)));
        assert_eq!("1.5m".parse(), Ok(Budget::Seconds(90.0)));
        assert_eq!("16".parse(), Ok(Budget::Trials(16)));
        for text in ["", "h", "-1h", "1", "0", "501", "2d", "inf", "nanh", "2 h x", "é"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
    }

    #[test]
    fn as_many_trials_are_drawn_as_end_in_time() {
        let cost = Cost::of_first(20.0, 10.0);
        assert!((cost.at(0) - 20.0).abs() < 1e-9 && (cost.at(LAST) - 100.0).abs() < 1e-9);
        let fitting = cost.trials_in(3600.0, 1);
        assert!(cost.of_search(fitting, 1) <= 3600.0 && cost.of_search(fitting + 1, 1) > 3600.0);
        assert!(cost.trials_in(3600.0, 2) > fitting);
        assert_eq!(cost.trials_in(10.0, 1), 0);
    }

    fn record(scores: &[&[Option<f64>]]) -> SearchRecord {
        let trial = |scores: &&[Option<f64>]| SearchTrial {
            scores: scores.iter().enumerate().map(|(rung, accuracy)| scored(rung, *accuracy)).collect(),
            ..SearchTrial::default()
        };
        SearchRecord { trials: scores.iter().map(trial).collect(), ..SearchRecord::default() }
    }

    fn scored(rung: usize, accuracy: Option<f64>) -> SearchScore {
        let share = accuracy.map(|accuracy| Share { accuracy: Some(accuracy), ..Share::default() });
        SearchScore { rung: rung as u64, share, ..SearchScore::default() }
    }

    #[test]
    fn the_best_third_and_the_own_recipe_are_trained_for_longer() {
        let found = record(&[
            &[Some(0.1)],
            &[Some(0.2)],
            &[None],
            &[Some(0.9)],
            &[Some(0.5)],
            &[Some(0.5)],
            &[Some(0.0)],
            &[Some(0.3)],
            &[Some(0.4)],
        ]);
        assert_eq!(entered(&found, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(entered(&found, 1), [0, 3, 4, 5]);
        assert_eq!(winner(&found), Some((3, 0)));
        let equal = record(&[&[Some(0.5), Some(0.5), Some(0.5)], &[Some(0.6), Some(0.5), Some(0.5)]]);
        assert_eq!(winner(&equal), Some((0, LAST)), "an equal score does not change the manifest");
        assert_eq!(winner(&record(&[&[None]])), None);
    }

    #[test]
    fn a_length_that_the_budget_did_not_reach_for_each_trial_has_no_winner() {
        let both = [Some(0.5), Some(0.5)];
        let found = record(&[&[Some(0.5), Some(0.5), Some(0.9)], &[Some(0.7), Some(0.7)]]);
        assert_eq!((winner(&found), unreached(&found, LAST)), (Some((1, 1)), vec![1]));
        let failed = record(&[&[Some(0.5), Some(0.5), Some(0.9)], &[Some(0.7), Some(0.7), None]]);
        assert_eq!(winner(&failed), Some((0, LAST)), "a failed one was reached");
        let begun = record(&[&both, &[]]);
        assert_eq!((winner(&begun), is_scored(&begun)), (None, true));
    }

    /// As many right answers as the others, with this loss, number of steps and rank.
    fn equal(loss: Option<f64>, steps: u64, rank: u64) -> SearchTrial {
        let setting = SearchSetting { key: RANK.to_owned(), value: rank.into(), ..SearchSetting::default() };
        let score = SearchScore { validation_loss: loss, steps: Some(steps), ..scored(0, Some(0.5)) };
        SearchTrial { settings: vec![setting], scores: vec![score] }
    }

    #[test]
    fn loss_then_cost_decide_between_equal_shares() {
        let all = vec![
            equal(None, 10, 4),
            equal(Some(f64::NAN), 5, 4),
            equal(Some(1.5), 90, 8),
            equal(Some(1.2), 90, 8),
            equal(Some(1.2), 30, 16),
            equal(Some(1.2), 30, 8),
            equal(Some(1.2), 30, 8),
        ];
        let mut found = SearchRecord { trials: all, ..SearchRecord::default() };
        assert_eq!(sorted(&found), [5, 6, 4, 3, 2, 1, 0]);
        assert_eq!((winner(&found), tied(&found)), (Some((5, 0)), Some(6)));
        assert_eq!(entered(&found, 1), [0, 5, 6, 4], "the best third, by the same order");
        found.trials[0].scores[0].share.as_mut().unwrap().accuracy = Some(0.6);
        assert_eq!((winner(&found), tied(&found)), (Some((0, 0)), None), "right answers come first");
    }
}
