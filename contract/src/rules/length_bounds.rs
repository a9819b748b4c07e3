//! Some length must be allowed.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let checks = &manifest.root.training.dataset.validation;
    if let (Some(min), Some(max)) = (*checks.min_length, *checks.max_length)
        && min > max
    {
        let message =
            format!("`min_length` is {min} and `max_length` is {max}, so every row would be dropped");
        problems.push(Problem::new(Code::LengthBounds, checks.min_length.span, message).hint("swap them"));
    }
}
