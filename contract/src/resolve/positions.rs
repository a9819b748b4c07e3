//! `max_seq_length` against the positions that the base has.

use crate::budget::Shape;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::RopeScaling;

use super::base::FoundBase;
use super::note::Note;
use super::recipe;

/// A `max_seq_length` that is more than the base has positions.
struct Excess {
    wanted: u64,
    /// Tokens of the longest row that has positions.
    room: u64,
    /// The limit in words.
    limit: String,
}

/// None where rows fit, and where the base's positions are not known.
fn excess(expert: &Effective<'_>, base: &FoundBase) -> Option<Excess> {
    let shape = base.shape.as_ref()?;
    let wanted = u64::from(*expert.config.max_seq_length);
    let positions = reach(shape, recipe::base(expert.base, base).rope_scaling.as_ref());
    // They have positions before those of the row.
    let soft_tokens = expert.virtual_tokens();
    let room = positions.saturating_sub(soft_tokens);
    let name = &base.logical;
    let limit = match soft_tokens {
        0 => format!("the {positions} positions of {name}"),
        tokens => {
            format!("the {room} that {tokens} soft tokens leave of the {positions} positions of {name}")
        }
    };
    (wanted > room).then_some(Excess { wanted, room, limit })
}

fn is_bounded(base: &FoundBase) -> bool {
    base.shape.as_ref().is_some_and(|shape| shape.bounded_positions)
}

/// A `max_seq_length` that a base cannot compute: one that is written, and any where no position is left.
pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    let setting = &expert.config.max_seq_length;
    let Excess { wanted, room, limit } = excess(expert, base).filter(|_| is_bounded(base))?;
    if room > 0 && !setting.is_given() {
        return None;
    }
    let message = format!("`max_seq_length` {wanted} is more than {limit}: longer rows cannot be computed");
    let hint = format!("set it to {room} or less, or choose a base whose positions have no limit");
    Some(Problem::new(Code::BeyondPositions, setting.span, message).hint(hint))
}

/// A base that cannot compute longer rows than it has positions lowers the default of `max_seq_length`, and refuses a longer
/// one that is written. On other bases a note says that they were not trained on such rows.
pub fn settle(expert: &mut Effective<'_>, base: &FoundBase, notes: &mut Vec<Note>) -> Result<(), Problem> {
    if let Some(problem) = check(expert, base) {
        return Err(problem);
    }
    notes.extend(shortened(expert, base));
    let Some(Excess { wanted, room, limit }) = excess(expert, base) else { return Ok(()) };
    if is_bounded(base) {
        notes.push(Note::new(
            "max-seq-length-lowered",
            format!("max_seq_length is {room} and not the default of {wanted}: it is limited to {limit}"),
            format!("set max_seq_length to {room} or less to silence this"),
        ));
        // Less than `wanted`, which is a u32.
        expert.config.max_seq_length.value = room as u32;
    } else if expert.config.max_seq_length.is_given() {
        notes.push(Note::new(
            "beyond-positions",
            format!("max_seq_length {wanted} is more than {limit}: it was not trained on longer rows"),
            format!("set max_seq_length to {room} or less, or `rope_scaling` of the base"),
        ));
    }
    Ok(())
}

/// A `rope_scaling` that leaves fewer positions than the base has without it.
fn shortened(expert: &Effective<'_>, base: &FoundBase) -> Option<Note> {
    let (shape, scaling) = (base.shape.as_ref()?, recipe::base(expert.base, base).rope_scaling?);
    let (own, scaled) = (shape.positions, reach(shape, Some(&scaling)));
    let from = match (scaling.original_max_position_embeddings, shape.scaled_from) {
        (None, Some(before)) => {
            format!("counts from the {before} positions before the base's own scaling and ")
        }
        _ => String::new(),
    };
    // Of a base without a length nothing is known.
    (own != u64::MAX && scaled < own).then(|| {
        Note::new(
            "rope-scaling-shortens",
            format!(
                "`rope_scaling` {from}leaves {scaled} positions, and {} has {own} without it",
                base.logical
            ),
            "raise its `factor`, set `original_max_position_embeddings`, or remove `rope_scaling`".to_owned(),
        )
    })
}

/// Tokens of the longest row that the base was made for, or is with the scaling of the manifest.
fn reach(shape: &Shape, scaling: Option<&RopeScaling>) -> u64 {
    let Some(scaling) = scaling.filter(|_| !shape.bounded_positions) else { return shape.positions };
    let original = scaling.original_max_position_embeddings.or(shape.scaled_from).unwrap_or(shape.positions);
    let scaled = (original as f64 * scaling.factor).round() as u64;
    scaling.max_position_embeddings.unwrap_or(scaled)
}
