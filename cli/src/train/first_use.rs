//! Before the first training on a card with a version of torch, the kernels are compared with their references, as
//! `doctor --prove` does.

use expert_contract::plan::{DeviceKind, Dtype};
use expert_contract::resolve::Resolved;

use crate::args::Global;
use crate::doctor::kernels::{self, Asked};
use crate::failure::Failure;
use crate::sys::host;
use crate::ui::Console;
use crate::worker::Search;

/// What has not been compared in the format of any of these runs: a card each. Whoever compared it has to resolve again.
pub fn prove_untried<'a>(
    runs: impl Iterator<Item = &'a Resolved>,
    global: &Global,
    console: &Console,
) -> Result<bool, Failure> {
    let mut wanted = runs.filter_map(needed).peekable();
    if wanted.peek().is_none() {
        return Ok(false);
    }
    let python = Search::here(global.python.as_deref(), None).find()?.of_this_version()?.python;
    // A comparison that ends early leaves nothing behind.
    let mut tried = Vec::new();
    for (asked, card, format) in wanted {
        let this = (card.clone(), format);
        if tried.contains(&this) || kernels::is_tried(&host::home(), &card, format, &python) {
            continue;
        }
        tried.push(this);
        console.say(&format!(
            "first training in {format} on {card}: comparing its kernels with their references, once (--no-prove leaves this out)"
        ));
        let found = kernels::prove(&python, &asked, |trial| console.say(kernels::line(trial).trim_end()));
        match found {
            Ok(proof) => console.say(kernels::summary(&proof).trim_end()),
            Err(words) => console.warn(
                &format!("the kernels could not be compared, and training uses them all the same: {words}"),
                Some("run `expert-cli doctor --prove` and report what it says; --no-prove trains without it"),
            ),
        }
    }
    Ok(!tried.is_empty())
}

fn needed(run: &Resolved) -> Option<(Asked, String, Dtype)> {
    let card = &run.machine.device;
    let format = run.fast_format.filter(|_| card.kind == DeviceKind::Cuda)?;
    Some((Asked { card: Some(card.clone()), format: Some(format) }, card.name.clone(), format))
}
