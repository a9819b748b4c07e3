//! Which experts a queue began with, kept until it ends: where it was killed or stopped and is started again, the cores are divided as
//! before, so that the experts that are left get the bytes that they would have had.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use expert_contract::digest;
use fs_err as fs;

use crate::sys::durable;
use crate::sys::paths::absolute;

const FOLDER: &str = "queues";

pub struct UnfinishedQueue {
    file: PathBuf,
    experts: BTreeSet<String>,
}

impl UnfinishedQueue {
    /// Of the queue that has `to_do` to train or score in `folder`: what a queue that was not worked off began with, if that
    /// includes them all. `home` is the folder of everything that can be made again.
    pub fn find(home: &Path, folder: &Path, to_do: BTreeSet<String>) -> Self {
        let file = home.join(FOLDER).join(format!("{}.json", digest::of_text(&absolute(folder))));
        let before =
            fs::read(&file).ok().and_then(|text| serde_json::from_slice::<BTreeSet<String>>(&text).ok());
        let experts = before.filter(|before| before.is_superset(&to_do)).unwrap_or(to_do);
        Self { file, experts }
    }

    pub fn has(&self, expert: &str) -> bool {
        self.experts.contains(expert)
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
        if self.experts.iter().all(|expert| ended.contains(expert.as_str())) {
            let _ = fs::remove_file(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> BTreeSet<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_queue_is_that_of_before_until_all_of_it_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let find = |to_do: &str| UnfinishedQueue::find(home.path(), Path::new("experts"), names(to_do));
        let begun = find("a b c");
        begun.write();
        assert_eq!(find("c").experts, names("a b c"));
        find("c").remove(&BTreeSet::from(["c"]));
        assert_eq!(find("b").experts, names("a b c"), "a selection of it has ended");
        assert_eq!(find("b d").experts, names("b d"), "another queue");
        begun.remove(&BTreeSet::from(["a", "b", "c", "d"]));
        assert_eq!(find("c").experts, names("c"));
    }
}
