//! Which experts a queue began with, kept until it ends: where it was killed or stopped and is started again, the cores are divided as
//! before, so that the experts that are left get the bytes that they would have had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expert_contract::digest;
use expert_contract::plan;
use fs_err as fs;
use serde_json::json;

use crate::experts::MANIFEST;
use crate::lock::inputs::is_revision;
use crate::sys::durable;
use crate::sys::paths::absolute;

const FOLDER: &str = "queues";

pub struct UnfinishedQueue {
    file: PathBuf,
    experts: Inputs,
}

/// A digest of each expert's inputs. One with others belongs to a new queue, also where the one before was killed and its
/// experts were then trained one by one.
pub type Inputs = BTreeMap<String, String>;

/// Of what decides an adapter, without what the first training may fetch: the base, its tokenizer and data sets of the Hub.
pub fn digest_of(inputs: &plan::Inputs) -> String {
    let plan::Inputs { recipe, data, template, code, scorer, base: _, tokenizer: _ } = inputs;
    let here: BTreeMap<_, _> = data.iter().filter(|(_, digest)| !is_revision(digest)).collect();
    digest::of(&json!([recipe, here, template, code, scorer]))
}

impl UnfinishedQueue {
    /// Of the queue that has `to_do` to train or score in `folder`: what a queue that was not worked off began with, if that
    /// includes them all. `home` is the folder of everything that can be made again.
    pub fn find(home: &Path, folder: &Path, to_do: Inputs) -> Self {
        let file = home.join(FOLDER).join(format!("{}.json", digest::of_text(&absolute(folder))));
        let before = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Inputs>(&text).ok());
        let has_all =
            |before: &Inputs| to_do.iter().all(|(expert, inputs)| before.get(expert) == Some(inputs));
        // Nobody would ever train one that was removed.
        let still_there = |mut before: Inputs| {
            before.retain(|expert, _| {
                to_do.contains_key(expert) || folder.join(expert).join(MANIFEST).is_file()
            });
            before
        };
        let experts = before.filter(has_all).map(still_there).unwrap_or(to_do);
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
    use crate::sys::files::write_text;

    fn inputs(text: &str) -> Inputs {
        text.split(' ').map(|expert| (expert.to_owned(), format!("inputs of {expert}"))).collect()
    }

    fn shelf(experts: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for expert in experts.split(' ') {
            write_text(&folder.path().join(expert), MANIFEST, "{}");
        }
        folder
    }

    #[test]
    fn a_queue_is_that_of_before_until_all_of_it_has_ended() {
        let (home, folder) = (tempfile::tempdir().unwrap(), shelf("a b c d"));
        let find = |to_do: &str| UnfinishedQueue::find(home.path(), folder.path(), inputs(to_do));
        let begun = find("a b c");
        begun.write();
        assert_eq!(find("c").experts, inputs("a b c"));
        find("c").remove(&BTreeSet::from(["c"]));
        assert_eq!(find("b").experts, inputs("a b c"), "a selection of it has ended");
        assert_eq!(find("b d").experts, inputs("b d"), "another queue");
        begun.remove(&BTreeSet::from(["a", "b", "c", "d"]));
        assert_eq!(find("c").experts, inputs("c"));
    }

    #[test]
    fn an_expert_that_is_gone_keeps_no_queue() {
        let (home, folder) = (tempfile::tempdir().unwrap(), shelf("b c"));
        let find = |to_do: &str| UnfinishedQueue::find(home.path(), folder.path(), inputs(to_do));
        find("a b c").write();
        let rest = find("c");
        assert_eq!(rest.experts, inputs("b c"));
        rest.remove(&BTreeSet::from(["b", "c"]));
        assert_eq!(find("c").experts, inputs("c"));
    }

    #[test]
    fn an_expert_with_other_inputs_is_of_a_new_queue() {
        let (home, folder) = (tempfile::tempdir().unwrap(), shelf("a b c"));
        UnfinishedQueue::find(home.path(), folder.path(), inputs("a b c")).write();
        let changed = Inputs::from([("a".into(), "other inputs".into())]);
        assert_eq!(UnfinishedQueue::find(home.path(), folder.path(), changed.clone()).experts, changed);
    }

    #[test]
    fn what_the_first_training_fetches_is_not_of_the_digest() {
        let data = |rows: &str, hub: Option<&str>| {
            let of_hub = hub.map(|commit| ("owner/rows".to_owned(), commit.to_owned()));
            [("train.jsonl".to_owned(), rows.to_owned())].into_iter().chain(of_hub).collect()
        };
        let before = plan::Inputs { data: data("sha256:1", None), ..plan::Inputs::default() };
        let fetched = plan::Inputs {
            base: Some("sha256:3".to_owned()),
            data: data("sha256:1", Some("revision:4")),
            ..plan::Inputs::default()
        };
        assert_eq!(digest_of(&before), digest_of(&fetched));
        let changed = plan::Inputs { data: data("sha256:2", None), ..plan::Inputs::default() };
        assert_ne!(digest_of(&before), digest_of(&changed));
    }
}
