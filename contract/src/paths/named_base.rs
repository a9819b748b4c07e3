//! Which of the manifest's bases a name or a path on the command line is.

use std::path::Path;

use super::parse::anywhere;
use crate::manifest::{BaseModel, Manifest, is_hub_id, is_path, model_slug};

impl Manifest {
    /// The base that `--model` names: the whole name, its last part, or its slug, in any case; or its index from 0.
    /// A path names the base in that folder and no other.
    pub fn find_base(&self, name: &str) -> Option<usize> {
        let wanted = model_slug(name);
        let exact = self.bases.iter().position(|base| base.name.eq_ignore_ascii_case(name));
        if is_path(name) {
            return exact.or_else(|| self.base_in(Path::new(name)));
        }
        // Another owner's base of the same name is another base, and a whole Hub id is not a short form.
        let on_hub = is_hub_id(name);
        let may_be = |base: &BaseModel| !on_hub || !is_hub_id(&base.name);
        exact
            .or_else(|| self.bases.iter().position(|base| model_slug(&base.name) == wanted && may_be(base)))
            .or_else(|| {
                let longer = format!("{wanted}-");
                self.bases.iter().position(|base| !on_hub && model_slug(&base.name).starts_with(&longer))
            })
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

    /// The base that a folder of this name holds a copy of: another folder with the last part of a base's name.
    pub fn copied_base(&self, name: &str) -> Option<usize> {
        let wanted = model_slug(name);
        is_path(name).then(|| self.bases.iter().position(|base| model_slug(&base.name) == wanted)).flatten()
    }
}
