//! Which of the manifest's bases a name or a path on the command line is.

use std::path::Path;

use super::parse::anywhere;
use crate::manifest::{BaseModel, Manifest, is_embedded, is_hub_id, is_path, may_mean, model_slug};

impl Manifest {
    /// The base that `--model` names: the whole name, its last part, or its slug, in any case; or its index from 0.
    /// A path names the base in that folder and no other, and a Hub id names that base of the Hub and no other; the
    /// name of the base that comes with the worker names that one, which needs no download.
    pub fn find_base(&self, name: &str) -> Option<usize> {
        let exact = self.bases.iter().position(|base| base.name.eq_ignore_ascii_case(name));
        if is_path(name) {
            return exact.or_else(|| self.base_in(Path::new(name)));
        }
        if is_hub_id(name) || is_embedded(name) {
            return exact;
        }
        let wanted = model_slug(name);
        exact
            .or_else(|| self.bases.iter().position(|base| model_slug(&base.name) == wanted))
            .or_else(|| self.bases.iter().position(|base| may_mean(name, &base.name)))
            .or_else(|| name.parse().ok().filter(|index| *index < self.bases.len()))
    }

    fn base_in(&self, folder: &Path) -> Option<usize> {
        let folder = folder.canonicalize().ok()?;
        let is_same = |base: &BaseModel| {
            anywhere(&base.name, &self.folder)
                .and_then(|it| it.canonicalize().ok())
                .is_some_and(|it| it == folder)
        };
        self.bases.iter().position(is_same)
    }

    /// The base that a folder or Hub id of this name holds a copy of: it has the last part of the base's name. On the Hub,
    /// another owner's base of the same name is another base, so only a base from elsewhere has a copy there. The base
    /// that comes with the worker is a copy of the Hub's base of that name.
    pub fn copied_base(&self, name: &str) -> Option<usize> {
        let is_folder = is_path(name);
        if !is_folder && !is_hub_id(name) && !is_embedded(name) {
            return None;
        }
        let wanted = model_slug(name);
        let is_copied = |base: &BaseModel| {
            model_slug(&base.name) == wanted && (is_folder || is_embedded(name) || !is_hub_id(&base.name))
        };
        self.bases.iter().position(is_copied)
    }

    /// The entry whose settings hold for this base: its own, or that of the base which it is a copy of.
    pub fn entry_for(&self, name: &str) -> Option<usize> {
        self.find_base(name).or_else(|| self.copied_base(name))
    }
}
