//! `evaluation.test_sets`.

use super::json::{Node, is_comment};
use super::setting::Decode;
use crate::source::Span;

/// A further test set, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTestSet {
    pub name: String,
    pub key: Span,
    pub path: String,
    pub span: Span,
}

/// Further test sets, in the manifest's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestSets(pub Vec<NamedTestSet>);

impl Decode for TestSets {
    fn decode(node: &Node) -> Option<Self> {
        if node.is_null() {
            return Some(Self::default());
        }
        let members = node.as_object()?.members.iter().filter(|member| !is_comment(&member.key));
        let sets = members.filter_map(|member| {
            let path = String::decode(&member.node)?;
            Some(NamedTestSet {
                name: member.key.clone(),
                key: member.key_span,
                path,
                span: member.node.span,
            })
        });
        Some(Self(sets.collect()))
    }

    fn show(&self) -> Option<serde_json::Value> {
        let named = |set: &NamedTestSet| (set.name.clone(), serde_json::Value::from(set.path.as_str()));
        Some(self.0.iter().map(named).collect())
    }
}
