//! Events shown as one line.

use std::collections::BTreeMap;

use expert_contract::event::{Progress, Recovery, StageName};

use super::number::{bytes, grouped, percent, seconds, short};

/// Items by how much a person waits for them: a narrow terminal shows the first ones.
pub fn step(progress: &Progress) -> String {
    let (step, total) = (progress.step, progress.total_steps);
    let share = step.min(total).saturating_mul(100).checked_div(total);
    let share = share.map_or(String::new(), |share| format!(" {share}%"));
    let waited = if progress.seconds > 0.0 { 100.0 * progress.data_wait / progress.seconds } else { 0.0 };
    let items = [
        Some(format!("step {}/{}{share}", grouped(step), grouped(total))),
        progress.eta.map(|eta| format!("ETA {}", seconds(eta))),
        Some(format!("loss {:.4}", progress.loss)),
        Some(format!("{} tok/s", short(progress.tokens_per_second))),
        Some(format!("lr {}", learning_rate(progress.lr))),
        (progress.memory_allocated > 0).then(|| format!("mem {}", bytes(progress.memory_allocated))),
        progress.gpu_util.map(|percent| format!("gpu {percent:.0}%")),
        (waited >= 0.5).then(|| format!("wait {waited:.0}%")),
    ];
    items.into_iter().flatten().collect::<Vec<_>>().join(GAP)
}

/// Between items of a line.
const GAP: &str = "  ";

/// The line in this many columns: whole items are left out from its end, and only the first one is ever cut.
pub fn fit(line: &str, width: usize) -> String {
    let mut shown = String::new();
    for item in line.split(GAP) {
        let gap = if shown.is_empty() { "" } else { GAP };
        if shown.chars().count() + gap.len() + item.chars().count() > width {
            break;
        }
        shown += gap;
        shown += item;
    }
    if shown.is_empty() { line.chars().take(width).collect() } else { shown }
}

fn learning_rate(lr: f64) -> String {
    if lr == 0.0 { "0".to_owned() } else { format!("{lr:.2e}") }
}

/// The bounds of an accuracy are shown in the table at the end and in the report.
pub fn evaluated(step: u64, metrics: &BTreeMap<String, f64>) -> String {
    let scores = ["base", "adapter", "compared"].into_iter().filter_map(|side| {
        metrics.get(&format!("{side}_accuracy")).map(|score| format!("{side} {}", percent(*score)))
    });
    let further = metrics.iter().filter_map(|(name, score)| {
        let (set, side) = name.strip_suffix("_accuracy")?.split_once('/')?;
        Some(format!("{set} {side} {}", percent(*score)))
    });
    let scores = scores.chain(further).collect::<Vec<_>>();
    if !scores.is_empty() {
        return format!("scored: {}", scores.join("  "));
    }
    let told = metrics.iter().filter_map(|(name, value)| match name.as_str() {
        "accuracy_low" | "accuracy_high" => None,
        "accuracy" => Some(format!("accuracy {}", percent(*value))),
        _ => Some(format!("{name} {value:.4}")),
    });
    format!("evaluated at step {}: {}", grouped(step), told.collect::<Vec<_>>().join("  "))
}

pub fn advance(stage: StageName, done: u64, total: Option<u64>, unit: &str, rate: Option<f64>) -> String {
    let of = total.map_or(String::new(), |total| format!("/{}", grouped(total)));
    let rate = rate.map_or(String::new(), |rate| format!("  {}/s", short(rate)));
    format!("{stage}  {}{of} {unit}{rate}", grouped(done))
}

pub fn recovery(kind: Recovery) -> &'static str {
    match kind {
        Recovery::OutOfMemory => "out of memory, micro-batch split",
        Recovery::NonFinite => "loss not finite, step not applied",
        Recovery::DamagedCheckpoint => "damaged checkpoint skipped",
        Recovery::Tracker => "a tracker stopped answering",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_in_one_line() {
        let progress = Progress {
            step: 1200,
            total_steps: 4000,
            epoch: 0.3,
            loss: 1.234_56,
            lr: 5e-5,
            grad_norm: None,
            tokens: 100,
            supervised_tokens: 40,
            tokens_per_second: 21_700.0,
            seconds: 2.0,
            data_wait: 0.1,
            transfer: None,
            host_launch: None,
            device_compute: None,
            memory_allocated: 3 << 30,
            memory_reserved: 4 << 30,
            gpu_util: Some(97.0),
            eta: Some(3725.0),
        };
        assert_eq!(
            step(&progress),
            "step 1,200/4,000 30%  ETA 1h02m  loss 1.2346  21.7k tok/s  lr 5.00e-5  mem 3.00 GiB  gpu 97%  wait 5%"
        );
        assert_eq!(
            fit(&step(&progress), 79),
            "step 1,200/4,000 30%  ETA 1h02m  loss 1.2346  21.7k tok/s  lr 5.00e-5"
        );
        assert_eq!(fit(&step(&progress), 59), "step 1,200/4,000 30%  ETA 1h02m  loss 1.2346  21.7k tok/s");
        assert_eq!(fit(&step(&progress), 31), "step 1,200/4,000 30%  ETA 1h02m");
        assert_eq!(fit(&step(&progress), 30), "step 1,200/4,000 30%");
        assert_eq!(fit(&step(&progress), 9), "step 1,20");
    }

    #[test]
    fn scores_are_percentages() {
        let of = |metrics: &[(&str, f64)]| {
            metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let training = of(&[("accuracy", 0.125), ("accuracy_low", 0.05), ("eval_loss", 1.5)]);
        assert_eq!(evaluated(50, &training), "evaluated at step 50: accuracy 12.5%  eval_loss 1.5000");
        let sets =
            of(&[("base_accuracy", 0.0), ("people/adapter_accuracy", 0.1), ("people/adapter_low", 0.05)]);
        assert_eq!(evaluated(0, &sets), "scored: base 0.0%  people adapter 10.0%");
        let sides = of(&[("adapter_accuracy", 0.383), ("base_accuracy", 0.0), ("base_loss", 1.7)]);
        assert_eq!(evaluated(0, &sides), "scored: base 0.0%  adapter 38.3%");
    }

    #[test]
    fn the_first_step_of_a_warm_up_has_no_learning_rate_yet() {
        assert_eq!([0.0, 5e-5].map(learning_rate), ["0", "5.00e-5"]);
    }

    #[test]
    fn counted_work_reads_in_one_line() {
        assert_eq!(
            advance(StageName::Tokenize, 5000, Some(20_000), "rows", Some(1e4)),
            "tokenize  5,000/20,000 rows  10.0k/s"
        );
        assert_eq!(advance(StageName::Pack, 7, None, "rows", None), "pack  7 rows");
    }
}
