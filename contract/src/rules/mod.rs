//! What no single key can get wrong: one rule a file.

use crate::diagnostic::Problem;
use crate::manifest::Manifest;

pub fn check(_manifest: &Manifest, _problems: &mut Vec<Problem>) {}
