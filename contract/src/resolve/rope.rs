//! `rope_scaling` against the positions of the base, and its numbers against the dimensions that the base rotates.

use crate::diagnostic::{Code, Problem};
use crate::families;
use crate::manifest::{Effective, RopeWord};
use crate::plan::RopeKind;

use super::base::FoundBase;
use super::recipe;

pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    cannot_scale(expert, base).or_else(|| other_pairs(expert, base))
}

/// The worker refuses it too, of architectures outside the table of families (`base/rope.py`).
fn cannot_scale(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    recipe::base(expert.base, base).rope_scaling?;
    let architecture = base.architecture.as_ref()?;
    families::family(architecture).filter(|it| it.no_rope_scaling.contains(architecture))?;
    let message =
        format!("the base's architecture `{architecture}` has no rotary positions that can be scaled");
    let problem = Problem::new(Code::RopeScaling, expert.base.rope_scaling.span, message);
    Some(problem.hint("remove `rope_scaling`, or choose another base"))
}

/// longrope has a factor for each pair of rotated dimensions. None where they are not known.
fn other_pairs(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
    let rope = expert.base.rope_scaling.as_ref();
    let rope = rope.filter(|it| *it.kind == RopeWord::Kind(RopeKind::Longrope))?;
    let pairs = base.shape.as_ref()?.rotated_pairs?;
    let lists = [("short_factor", &rope.short_factor), ("long_factor", &rope.long_factor)];
    lists.into_iter().find_map(|(key, setting)| {
        let count = setting.as_ref()?.len();
        let message =
            format!("`{key}` has {count} numbers, and {} rotates {pairs} pairs of dimensions", base.logical);
        let problem = Problem::new(Code::RopeScaling, setting.span, message);
        (count as u64 != pairs).then(|| {
            problem.hint(format!("give {pairs} numbers in both lists, in the order of the dimensions"))
        })
    })
}
