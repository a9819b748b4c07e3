//! `max_seq_length` against the positions that the base has.

use crate::budget::Shape;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::RopeScaling;

use super::base::FoundBase;
use super::outcome::Note;
use super::recipe;

/// A base that cannot compute longer rows than it has positions lowers the default of `max_seq_length`, and refuses a longer
/// one that is written. On other bases a note says that they were not trained on such rows.
pub fn settle(expert: &mut Effective<'_>, base: &FoundBase, notes: &mut Vec<Note>) -> Result<(), Problem> {
    let Some(shape) = &base.shape else { return Ok(()) };
    let setting = &expert.config.max_seq_length;
    let wanted = u64::from(**setting);
    let positions = reach(shape, recipe::base(expert.base, base).rope_scaling.as_ref());
    let soft_tokens = soft_tokens(expert);
    let room = positions.saturating_sub(soft_tokens);
    if wanted <= room {
        return Ok(());
    }
    let name = &base.logical;
    let limit = match soft_tokens {
        0 => format!("the {positions} positions of {name}"),
        tokens => {
            format!("the {room} that {tokens} soft tokens leave of the {positions} positions of {name}")
        }
    };
    if !shape.bounded_positions {
        if setting.is_given() {
            notes.push(Note::new(
                "beyond-positions",
                format!("max_seq_length {wanted} is more than {limit}: it was not trained on longer rows"),
                format!("set max_seq_length to {room} or less, or `rope_scaling` of the base"),
            ));
        }
        return Ok(());
    }
    match u32::try_from(room) {
        Ok(room) if room > 0 && !setting.is_given() => {
            notes.push(Note::new(
                "max-seq-length-lowered",
                format!("max_seq_length is {room} and not the default of {wanted}: it is limited to {limit}"),
                format!("set max_seq_length to {room} or less to silence this"),
            ));
            expert.config.max_seq_length.value = room;
            Ok(())
        }
        _ => {
            let message =
                format!("`max_seq_length` {wanted} is more than {limit}: longer rows cannot be computed");
            let problem = Problem::new(Code::BeyondPositions, setting.span, message);
            Err(problem
                .hint(format!("set it to {room} or less, or choose a base whose positions have no limit")))
        }
    }
}

/// Tokens of the longest row that the base was made for, or is with the scaling of the manifest.
fn reach(shape: &Shape, scaling: Option<&RopeScaling>) -> u64 {
    let Some(scaling) = scaling.filter(|_| !shape.bounded_positions) else { return shape.positions };
    let original = scaling.original_max_position_embeddings.unwrap_or(shape.positions);
    let scaled = (original as f64 * scaling.factor).round() as u64;
    scaling.max_position_embeddings.unwrap_or(scaled).max(shape.positions)
}

/// Soft prompts have positions before those of the row.
fn soft_tokens(expert: &Effective<'_>) -> u64 {
    if !expert.config.adapter_type.is_soft_prompt() {
        return 0;
    }
    expert.manifest.root.soft_prompts.iter().map(|prompt| u64::from(*prompt.tokens)).sum()
}
