//! A required digest is a valid one.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for base in &manifest.bases {
        let digest = base.sha256.as_deref().unwrap_or_default();
        let is_hex = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digest.is_empty() && !is_hex {
            let problem = Problem::new(
                Code::InvalidDigest,
                base.sha256.span,
                "this is not a SHA-256 digest (64 hexadecimal digits)",
            );
            problems.push(problem.hint("leave it empty to accept any weights"));
        }
    }
}
