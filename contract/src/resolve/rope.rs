//! The numbers of `rope_scaling` against the dimensions that the base rotates.

use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, RopeWord};
use crate::plan::RopeKind;

use super::base::FoundBase;

/// longrope has a factor for each pair of rotated dimensions. None where they are not known.
pub fn check(expert: &Effective<'_>, base: &FoundBase) -> Option<Problem> {
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
