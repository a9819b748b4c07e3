//! Which experts a queue began with, kept until it ends: where it was killed or stopped and is started again, the cores are divided as
//! before, so that the experts that are left get the bytes that they would have had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expert_contract::digest;
use fs_err as fs;

use crate::sys::durable;
use crate::sys::paths::absolute;

const FOLDER: &str = "queues";

pub struct UnfinishedQueue {
    file: PathBuf,
    experts: Recipes,
}

/// The digest of each expert's recipe. One with another recipe belongs to a new queue, also where the one before was killed and its
/// experts were then trained one by one.
type Recipes = BTreeMap<String, String>;

impl UnfinishedQueue {
    /// Of the queue that has `to_do` to train or score in `folder`: what a queue that was not worked off began with, if that
    /// includes them all. `home` is the folder of everything that can be made again.
    pub fn find(home: &Path, folder: &Path, to_do: Recipes) -> Self {
        let file = home.join(FOLDER).join(format!("{}.json", digest::of_text(&absolute(folder))));
        let before = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Recipes>(&text).ok());
        let has_all =
            |before: &Recipes| to_do.iter().all(|(expert, recipe)| before.get(expert) == Some(recipe));
        let experts = before.filter(has_all).unwrap_or(to_do);
        Self { file, experts }
    }

    pub fn has(&self, expert: &str) -> bool {
        self.experts.contains_key(expert)
    }

    /// A queue that cannot be recorded divides the cores among what is left when it is started again.
    pub fn write(&self) {
        if let Ok(text) = serde_json::to_vec(&self.experts)
            && !self.experts.is_empty()
        {
            let _ = durable::write(&self.file, &text);
        }
    }

    /// It was worked off, if no other expert is left of a queue with more of them.
    pub fn remove(&self, ended: &BTreeSet<&str>) {
        if self.experts.keys().all(|expert| ended.contains(expert.as_str())) {
            let _ = fs::remove_file(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipes(text: &str) -> Recipes {
        text.split(' ').map(|expert| (expert.to_owned(), format!("recipe of {expert}"))).collect()
    }

    #[test]
    fn a_queue_is_that_of_before_until_all_of_it_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let find = |to_do: &str| UnfinishedQueue::find(home.path(), Path::new("experts"), recipes(to_do));
        let begun = find("a b c");
        begun.write();
        assert_eq!(find("c").experts, recipes("a b c"));
        find("c").remove(&BTreeSet::from(["c"]));
        assert_eq!(find("b").experts, recipes("a b c"), "a selection of it has ended");
        assert_eq!(find("b d").experts, recipes("b d"), "another queue");
        begun.remove(&BTreeSet::from(["a", "b", "c", "d"]));
        assert_eq!(find("c").experts, recipes("c"));
    }

    #[test]
    fn an_expert_with_another_recipe_is_of_a_new_queue() {
        let home = tempfile::tempdir().unwrap();
        let folder = Path::new("experts");
        UnfinishedQueue::find(home.path(), folder, recipes("a b c")).write();
        let changed = Recipes::from([("a".into(), "another recipe".into())]);
        assert_eq!(UnfinishedQueue::find(home.path(), folder, changed.clone()).experts, changed);
    }
}
