//! The settings that a search varies, and the trials that it draws from them.

use std::fmt::Write;

use expert_contract::digest;
use expert_contract::manifest::Set;
use expert_contract::plan::{Duration, Warmup};
use expert_contract::resolve::{Resolved, estimate_steps};
use expert_contract::results::{SearchRange, SearchSetting};
use serde_json::{Value, json};

use crate::failure::Failure;

/// A setting that can be searched.
struct Parameter {
    name: &'static str,
    /// Of `training.config`.
    key: &'static str,
    whole: bool,
    default: Default,
    /// Bounds of what may be named.
    least: f64,
    most: f64,
}

enum Default {
    /// These multiples of the manifest's value, and all between them.
    Between(f64, f64),
    Multiples(&'static [f64]),
    Values(&'static [f64]),
}

/// What a run takes from the adapter that it starts from.
const OF_THE_SHAPE: [&str; 2] = [RANK, ALPHA];

/// What an adapter without a rank does not have.
const OF_THE_RANK: [&str; 3] = [RANK, ALPHA, DROPOUT];

const LEARNING_RATE: &str = "learning_rate";
pub const RANK: &str = "rank";
const ALPHA: &str = "alpha";
const STEPS: &str = "max_steps";
const DROPOUT: &str = "dropout";
const WARMUP: &str = "warmup_ratio";
const DECAY: &str = "weight_decay";

const PARAMETERS: [Parameter; 7] = [
    Parameter {
        name: "lr",
        key: LEARNING_RATE,
        whole: false,
        default: Default::Between(0.2, 5.0),
        least: 1e-9,
        most: 10.0,
    },
    Parameter {
        name: "rank",
        key: RANK,
        whole: true,
        default: Default::Values(&[8.0, 16.0, 32.0]),
        least: 1.0,
        most: 4096.0,
    },
    Parameter {
        name: "steps",
        key: STEPS,
        whole: true,
        default: Default::Multiples(&[0.5, 1.0, 2.0]),
        least: 1.0,
        most: 1e9,
    },
    Parameter {
        name: "alpha",
        key: ALPHA,
        whole: false,
        default: Default::Multiples(&[0.5, 1.0, 2.0]),
        least: 1e-6,
        most: 1e6,
    },
    Parameter {
        name: "dropout",
        key: DROPOUT,
        whole: false,
        default: Default::Values(&[0.0, 0.05, 0.1]),
        least: 0.0,
        most: 0.99,
    },
    Parameter {
        name: "warmup",
        key: WARMUP,
        whole: false,
        default: Default::Values(&[0.0, 0.03, 0.1]),
        least: 0.0,
        most: 0.99,
    },
    Parameter {
        name: "decay",
        key: DECAY,
        whole: false,
        default: Default::Values(&[0.0, 0.01, 0.1]),
        least: 0.0,
        most: 1.0,
    },
];

/// What is searched unless the command line names something else.
const USUAL: &str = "lr,rank,steps";
const USUAL_WITHOUT_RANK: &str = "lr,steps";

/// Why the usual space goes without the rank.
pub fn without_rank(typed: Option<&str>, own: &Resolved) -> Option<String> {
    fixed(RANK, own).filter(|_| typed.is_none()).map(|(reason, _)| reason)
}

/// Why no trial can have another value of a setting, and what to do.
fn fixed(key: &str, own: &Resolved) -> Option<(String, &'static str)> {
    let adapter = &own.recipe.adapter;
    if !adapter.kind.has_rank() && OF_THE_RANK.contains(&key) {
        let reason = format!("the adapter type `{}` has none", adapter.kind);
        return Some((reason, "leave it out of --space"));
    }
    (adapter.initial.is_some() && OF_THE_SHAPE.contains(&key)).then(|| {
        let reason = "it is that of `initial_adapter`".to_owned();
        (reason, "leave it out of --space, or remove `initial_adapter` from the manifest")
    })
}

const GEOMETRIC_FROM: f64 = 10.0;

/// One parameter with what it may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    name: &'static str,
    key: &'static str,
    whole: bool,
    range: Range,
}

#[derive(Debug, Clone, PartialEq)]
enum Range {
    Values(Vec<f64>),
    /// Geometric where the upper end is at least ten times the lower one, and of a learning rate always.
    Between(f64, f64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    dimensions: Vec<Dimension>,
    /// The manifest's alpha and rank, whose ratio is kept where rank is searched and alpha is not.
    alpha_and_rank: Option<(f64, f64)>,
    /// The manifest's values of all dimensions, where it has them: a trial with the same ones would be trained twice.
    own: Option<Vec<f64>>,
}

impl Space {
    /// `lr,rank=8|16,steps=50..400`, with the defaults of `own` for what has no values.
    pub fn parse(typed: Option<&str>, own: &Resolved) -> Result<Self, Failure> {
        let mut dimensions: Vec<Dimension> = Vec::new();
        let usual = if without_rank(typed, own).is_some() { USUAL_WITHOUT_RANK } else { USUAL };
        for part in typed.unwrap_or(usual).split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, values) =
                part.split_once('=').map_or((part, None), |(name, values)| (name.trim(), Some(values)));
            let known = PARAMETERS.iter().find(|it| it.name == name || it.key == name);
            let Some(parameter) = known else {
                let names: Vec<&str> = PARAMETERS.iter().map(|it| it.name).collect();
                return Err(refused(format!("there is no setting `{name}` to search"))
                    .hint(format!("--space takes {}, separated by commas", names.join(", "))));
            };
            if let Some((reason, hint)) = fixed(parameter.key, own) {
                return Err(refused(format!("`{name}` cannot be searched: {reason}")).hint(hint));
            }
            if dimensions.iter().any(|it| it.key == parameter.key) {
                return Err(refused(format!("`{name}` is named twice")).hint("name each setting once"));
            }
            let range = match values {
                Some(values) => parameter.named(values)?,
                None => parameter.default_of(own)?,
            };
            let Parameter { name, key, whole, .. } = *parameter;
            dimensions.push(Dimension { name, key, whole, range });
        }
        if dimensions.is_empty() {
            return Err(refused("--space names no setting".to_owned()).hint("such as --space lr,rank,steps"));
        }
        let has = |key: &str| dimensions.iter().any(|it| it.key == key);
        let adapter = &own.recipe.adapter;
        let alpha_and_rank = adapter.alpha.zip(adapter.rank.map(|rank| f64::from(rank.max(1))));
        let alpha_and_rank = alpha_and_rank.filter(|_| has(RANK) && !has(ALPHA));
        let own = dimensions.iter().map(|it| own_value(it.key, own)).collect();
        Ok(Self { dimensions, alpha_and_rank, own })
    }

    /// For the record: two searches with the same one draw the same trials.
    pub fn ranges(&self) -> Vec<SearchRange> {
        let one = |it: &Dimension| SearchRange { name: it.name.to_owned(), values: it.range.to_string() };
        self.dimensions.iter().map(one).collect()
    }

    /// The first `count` trials, all different from each other and from the manifest's own recipe. More of them begin with the same ones. Fewer where there are no more.
    pub fn trials(&self, seed: u64, count: usize) -> Vec<Vec<SearchSetting>> {
        let steps = steps_of_sequence(self.dimensions.len());
        let offsets: Vec<f64> = self.dimensions.iter().map(|it| offset(seed, it.name)).collect();
        let mut found: Vec<Vec<SearchSetting>> = Vec::new();
        for index in 0..20 * count.max(1) {
            if found.len() == count {
                break;
            }
            let places =
                offsets.iter().zip(&steps).map(|(offset, step)| (offset + index as f64 * step).fract());
            let values: Vec<f64> =
                self.dimensions.iter().zip(places).map(|(it, place)| it.value(place)).collect();
            let trial = self.settings(&values);
            if self.own.as_ref() != Some(&values) && !found.contains(&trial) {
                found.push(trial);
            }
        }
        found
    }

    fn settings(&self, values: &[f64]) -> Vec<SearchSetting> {
        let mut settings: Vec<SearchSetting> = Vec::new();
        for (dimension, &value) in self.dimensions.iter().zip(values) {
            settings.push(setting(dimension.name, dimension.key, number(value, dimension.whole)));
            if let (RANK, Some((alpha, rank))) = (dimension.key, self.alpha_and_rank) {
                settings.push(setting(ALPHA, ALPHA, number(value * alpha / rank, false)));
            }
        }
        settings
    }
}

fn setting(name: &str, key: &str, value: Value) -> SearchSetting {
    SearchSetting { name: name.to_owned(), key: key.to_owned(), value }
}

/// As changes of the command line.
pub fn sets(setting: &SearchSetting) -> impl Iterator<Item = Set> + use<> {
    let set = |key: &str, value: String| Set::flag("--space", format!("training.config.{key}"), value);
    let replaced = replaced(&setting.key).map(|key| set(key, "0".to_owned()));
    [set(&setting.key, setting.value.to_string())].into_iter().chain(replaced)
}

/// The other way to write a setting, which is 0 where this one holds.
pub fn replaced(key: &str) -> Option<&'static str> {
    (key == WARMUP).then_some("warmup_steps")
}

/// The keys of the manifest that a search may write.
pub fn key(name: &str) -> Option<&'static str> {
    PARAMETERS.iter().find(|it| it.key == name).map(|it| it.key)
}

impl Parameter {
    fn named(&self, text: &str) -> Result<Range, Failure> {
        let value = |text: &str| -> Result<f64, Failure> {
            let found: f64 = text
                .trim()
                .parse()
                .map_err(|_| refused(format!("`{text}` of {} is not a number", self.name)).hint(HINT))?;
            let fits = found.is_finite()
                && (self.least..=self.most).contains(&found)
                && (!self.whole || found.fract() == 0.0);
            let kind = if self.whole { "a whole number" } else { "a number" };
            fits.then_some(found).ok_or_else(|| {
                refused(format!(
                    "{text} cannot be a value of {}: it takes {kind} from {} to {}",
                    self.name, self.least, self.most
                ))
                .hint(HINT)
            })
        };
        let Some((low, high)) = text.split_once("..") else {
            let values = text.split('|').map(value).collect::<Result<Vec<_>, _>>()?;
            return Ok(Range::Values(values));
        };
        let (low, high) = (value(low)?, value(high)?);
        if low >= high {
            return Err(
                refused(format!("{}={text}: the lower end is not below the upper one", self.name)).hint(HINT)
            );
        }
        Ok(Range::Between(low, high))
    }

    fn default_of(&self, own: &Resolved) -> Result<Range, Failure> {
        self.around(|| {
            own_value(self.key, own).filter(|value| *value > 0.0).ok_or_else(|| {
                refused(format!("the manifest has no {} that a range could be chosen around", self.name))
                    .hint(format!("name its values, such as --space {}=1|2", self.name))
            })
        })
    }

    /// The values where none are named, by the manifest's own one.
    fn around(&self, own: impl FnOnce() -> Result<f64, Failure>) -> Result<Range, Failure> {
        let fitting = |found: f64| found.clamp(self.least, self.most);
        Ok(match self.default {
            Default::Between(low, high) => {
                let own = own()?;
                Range::Between(fitting(rounded(own * low)), fitting(rounded(own * high)))
            }
            // Once the manifest's value is that value itself.
            Default::Multiples(multiples) => {
                let own = own()?;
                let whole = |found: f64| if self.whole { found.round() } else { found };
                Range::Values(multiples.iter().map(|it| fitting(whole(own * it))).collect())
            }
            Default::Values(values) => Range::Values(values.to_vec()),
        })
    }
}

const HINT: &str = "a range is lr=1e-4..5e-3, and values are rank=8|16|32";

fn own_value(key: &str, own: &Resolved) -> Option<f64> {
    let recipe = &own.recipe;
    match key {
        LEARNING_RATE => Some(recipe.optimizer.learning_rate),
        RANK => recipe.adapter.rank.map(f64::from),
        ALPHA => recipe.adapter.alpha,
        STEPS => steps(own),
        DROPOUT => Some(recipe.adapter.dropout),
        WARMUP => match recipe.schedule.warmup {
            Warmup::Ratio(ratio) => Some(ratio),
            Warmup::Steps(warmup) => match recipe.schedule.duration {
                Duration::Steps(steps) => Some(warmup as f64 / steps as f64),
                Duration::Epochs(_) => None,
            },
        },
        DECAY => Some(recipe.optimizer.weight_decay),
        _ => None,
    }
}

/// Of a whole training; an estimate where the manifest counts epochs. Not by its token cache, which the first trial may
/// make: the same command must find the same space.
pub fn steps(own: &Resolved) -> Option<f64> {
    match &own.recipe.schedule.duration {
        Duration::Steps(steps) => Some(*steps as f64),
        Duration::Epochs(_) => estimate_steps(&own.recipe, &own.facts, None).map(|it| it.steps as f64),
    }
}

impl Dimension {
    fn value(&self, place: f64) -> f64 {
        match &self.range {
            Range::Values(values) => values[((place * values.len() as f64) as usize).min(values.len() - 1)],
            Range::Between(low, high) => {
                let least = if self.key == LEARNING_RATE { 1.0 } else { GEOMETRIC_FROM };
                let found = if *low > 0.0 && high / low >= least {
                    low * (high / low).powf(place)
                } else {
                    low + (high - low) * place
                };
                if self.whole { found.round() } else { rounded(found) }
            }
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Between(low, high) => write!(formatter, "{}..{}", shown(*low), shown(*high)),
            Self::Values(values) => {
                let values: Vec<String> = values.iter().map(|it| shown(*it)).collect();
                formatter.write_str(&values.join("|"))
            }
        }
    }
}

/// As a person writes it.
pub fn shown(value: f64) -> String {
    let mut text = String::new();
    let small = value != 0.0 && value.abs() < 0.001;
    let _ = if small { write!(text, "{value:e}") } else { write!(text, "{value}") };
    text
}

/// Two digits say enough of a learning rate.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

fn number(value: f64, whole: bool) -> Value {
    if whole || value.fract() == 0.0 && value >= 1.0 { json!(value as u64) } else { json!(value) }
}

/// The additive sequence of the generalized golden ratio: however many trials there are, they cover the space evenly.
fn steps_of_sequence(dimensions: usize) -> Vec<f64> {
    let mut ratio = 2.0_f64;
    for _ in 0..64 {
        ratio = (1.0 + ratio).powf(1.0 / (dimensions as f64 + 1.0));
    }
    (1..=dimensions).map(|power| ratio.powi(-(power as i32))).collect()
}

/// Where the sequence begins for this seed, from 0 to 1.
fn offset(seed: u64, name: &str) -> f64 {
    let digest = digest::of(&json!({"seed": seed, "setting": name}));
    let bits = u64::from_str_radix(&digest[..13], 16).unwrap_or_default();
    bits as f64 / (1_u64 << 52) as f64
}

fn refused(message: String) -> Failure {
    Failure::bad_input("bad-space", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(dimensions: Vec<Dimension>, alpha_and_rank: Option<(f64, f64)>) -> Space {
        Space { dimensions, alpha_and_rank, own: None }
    }

    fn two() -> Space {
        let lr =
            Dimension { name: "lr", key: LEARNING_RATE, whole: false, range: Range::Between(1e-4, 1e-2) };
        let rank = Dimension { name: "rank", key: RANK, whole: true, range: Range::Values(vec![8.0, 16.0]) };
        space(vec![lr, rank], Some((16.0, 8.0)))
    }

    #[test]
    fn a_seed_draws_the_same_trials_and_more_of_them_begin_the_same() {
        let (few, many) = (two().trials(1, 6), two().trials(1, 30));
        assert_eq!(few[..], many[..6]);
        assert_ne!(two().trials(2, 6), few);
        assert!(many.iter().all(|one| many.iter().filter(|other| *other == one).count() == 1));
        let ranks: Vec<u64> = many.iter().filter_map(|it| it[1].value.as_u64()).collect();
        assert!(ranks.contains(&8) && ranks.contains(&16) && ranks.len() == 30, "{ranks:?}");
        let rates: Vec<f64> = many.iter().filter_map(|it| it[0].value.as_f64()).collect();
        assert!(rates.iter().all(|rate| (1e-4..=1e-2).contains(rate)), "{rates:?}");
        for decade in [1e-4..1e-3, 1e-3..1e-2] {
            let share = rates.iter().filter(|rate| decade.contains(*rate)).count();
            assert!((12..=18).contains(&share), "{share} of 30 in {decade:?}");
        }
        let alpha = &many[0][2];
        assert_eq!(alpha.key, ALPHA);
        assert_eq!(alpha.value.as_u64(), Some(2 * ranks[0]), "alpha grows with rank");
    }

    #[test]
    fn a_learning_rate_is_always_drawn_geometrically() {
        let middle = |key, high| {
            let range = Range::Between(1e-4, high);
            Dimension { name: "it", key, whole: false, range }.value(0.5)
        };
        assert_eq!((middle(LEARNING_RATE, 4e-4), middle(LEARNING_RATE, 1e-2)), (2e-4, 1e-3));
        assert_eq!((middle(DECAY, 4e-4), middle(DECAY, 1e-2)), (2.5e-4, 1e-3));
    }

    #[test]
    fn alpha_keeps_the_manifests_ratio_to_the_digit() {
        for (alpha, own, ranks, wanted) in [
            (16.0, 8.0, vec![64.0, 128.0], [128.0, 256.0]),
            (128.0, 100.0, vec![25.0, 50.0], [32.0, 64.0]),
            (10.0, 3.0, vec![6.0, 48.0], [20.0, 160.0]),
            (1.0, 8.0, vec![1.0, 27.0], [0.125, 3.375]),
        ] {
            let rank = Dimension { name: "rank", key: RANK, whole: true, range: Range::Values(ranks) };
            let trials = space(vec![rank], Some((alpha, own))).trials(1, 2);
            let mut found: Vec<f64> = trials.iter().filter_map(|it| it[1].value.as_f64()).collect();
            found.sort_by(f64::total_cmp);
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn once_the_manifests_value_is_that_value() {
        let [lr, _, steps, alpha, ..] = &PARAMETERS;
        for (parameter, own, wanted) in [
            (alpha, 128.0, "64|128|256"),
            (alpha, 12.34, "6.17|12.34|24.68"),
            (steps, 125.0, "63|125|250"),
            (lr, 3e-4, "6e-5..0.0015"),
        ] {
            assert_eq!(parameter.around(|| Ok(own)).unwrap().to_string(), wanted);
        }
    }

    #[test]
    fn a_small_space_ends_when_all_is_drawn() {
        let rank = Dimension { name: "rank", key: RANK, whole: true, range: Range::Values(vec![8.0, 16.0]) };
        let small = space(vec![rank], None);
        assert_eq!(small.trials(7, 10).len(), 2);
        let beside_own = Space { own: Some(vec![16.0]), ..small };
        let trials = beside_own.trials(7, 10);
        assert_eq!(trials.len(), 1);
        assert_eq!(trials[0][0].value, 8, "the manifest's own recipe is a trial already");
    }

    #[test]
    fn values_are_checked_and_shown_as_written() {
        let [lr, rank, ..] = &PARAMETERS;
        assert_eq!(lr.named("1e-4..5e-3").unwrap().to_string(), "1e-4..0.005");
        assert_eq!(rank.named("8|16").unwrap().to_string(), "8|16");
        for (parameter, text) in
            [(lr, "x"), (lr, "2..1"), (lr, "-1"), (lr, "nan"), (rank, "1.5"), (rank, "0"), (rank, "")]
        {
            assert!(parameter.named(text).is_err(), "{text}");
        }
    }
}
