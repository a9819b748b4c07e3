//! Settings that exclude one another. In one layer both are a mistake, which a rule reports. Of two layers the later one
//! holds: what a base's `overrides`, `--preset`, a flag or `--set` gives switches off its rivals from before.

use super::config::Config;
use super::setting::{Origin, Setting};
use super::vocabulary::{ActivationCheckpointing, GradientCheckpointing, Limit};
use crate::plan::{AdapterKind, ScheduleKind, Strategy};

/// Switches off each setting that one of a later layer excludes. The value shows that later layer as its origin.
pub fn settle(config: &mut Config) {
    // Where `max_steps` is the later one, the number of epochs has no part in the run.
    replace(&config.epochs, &mut config.max_steps, Limit(None));
    warmup(config);
    if *config.bf16 == Some(true) {
        replace(&config.bf16, &mut config.fp16, false);
        if *config.fp16 {
            replace(&config.fp16, &mut config.bf16, Some(false));
        }
    }
    adapter(config);
    checkpointing(config);
    if !*config.packing {
        replace(&config.packing, &mut config.share_prefixes, false);
    }
    if *config.dataloader_num_workers == 0 {
        replace(&config.dataloader_num_workers, &mut config.dataloader_prefetch_factor, None);
    }
    if *config.evaluation_strategy == Strategy::No {
        replace(&config.evaluation_strategy, &mut config.load_best_model_at_end, false);
    }
    replace(&config.metric_for_best_model, &mut config.greater_is_better, None);
}

fn warmup(config: &mut Config) {
    if *config.warmup_ratio > 0.0 {
        replace(&config.warmup_ratio, &mut config.warmup_steps, 0);
    }
    if *config.warmup_steps > 0 {
        replace(&config.warmup_steps, &mut config.warmup_ratio, 0.0);
    }
    let schedule = &config.lr_scheduler;
    if **schedule == ScheduleKind::Constant {
        replace(schedule, &mut config.warmup_steps, 0);
        replace(schedule, &mut config.warmup_ratio, 0.0);
    }
    let mut options = config.lr_scheduler_kwargs.value.clone();
    options.retain(|name, _| schedule.options().contains(&name.as_str()));
    replace(schedule, &mut config.lr_scheduler_kwargs, options);
}

/// Two keys of one switch: the later one decides.
fn checkpointing(config: &mut Config) {
    let activation = &config.activation_checkpointing;
    if let Some(extent) = **activation {
        let is_off = extent == ActivationCheckpointing::None;
        let agreeing = if is_off { GradientCheckpointing::Off } else { GradientCheckpointing::On };
        replace(activation, &mut config.gradient_checkpointing, agreeing);
        if is_off && *config.gradient_checkpointing == GradientCheckpointing::On {
            replace(&config.gradient_checkpointing, &mut config.activation_checkpointing, None);
        }
    }
}

fn adapter(config: &mut Config) {
    let kind = &config.adapter_type;
    if !kind.has_rank() {
        replace(kind, &mut config.rank, None);
        replace(kind, &mut config.alpha, None);
        replace(kind, &mut config.dropout, 0.0);
    }
    if **kind != AdapterKind::Ia3 {
        replace(kind, &mut config.feedforward_modules, Vec::new());
    }
}

/// `rival` becomes `off` where `setting` is of a later layer. `adapters[]` and `training.config` describe one adapter side by side.
fn replace<T, U: PartialEq>(setting: &Setting<T>, rival: &mut Setting<U>, off: U) {
    let is_later = setting.origin >= Origin::Overrides && setting.origin > rival.origin;
    if is_later && rival.value != off {
        *rival = Setting { value: off, origin: setting.origin, span: setting.span, key: setting.key };
    }
}
