//! Where the manifest's paths lead.

use crate::diagnostic::Problem;
use crate::manifest::{Manifest, Options};

pub fn check(_manifest: &Manifest, _options: &Options, _problems: &mut Vec<Problem>) {}
