//! Each schedule takes its own numbers.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, one_of};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let kind = *config.lr_scheduler;
    let span = config.lr_scheduler_kwargs.span;
    for (name, number) in config.lr_scheduler_kwargs.iter() {
        let known = kind.options();
        let rate = *config.learning_rate;
        let (message, hint) = match name.as_str() {
            name if !known.contains(&name) => {
                let hint = if known.is_empty() { "remove it".to_owned() } else { one_of(name, known) };
                (format!("the `{kind}` schedule takes no `{name}`"), hint)
            }
            "min_lr_ratio" if *number >= 1.0 => {
                (format!("`min_lr_ratio` is {number}"), "write a number below 1".to_owned())
            }
            "lr_end" if *number >= rate => (
                format!("`lr_end` is {number}, and `learning_rate` is {rate}"),
                "end below the learning rate".to_owned(),
            ),
            "num_cycles" | "power" if *number <= 0.0 => {
                (format!("`{name}` is {number}"), "write a number above 0".to_owned())
            }
            _ => continue,
        };
        problems.push(Problem::new(Code::SchedulerOption, span, message).hint(hint));
    }
}
