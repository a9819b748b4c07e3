//! `base_models[].chat_template_kwargs`.

use std::collections::BTreeMap;

use super::json::{Node, Value, is_comment};
use super::setting::Decode;
use crate::plan::TemplateValue;
use crate::source::Span;

/// A variable of the chat template, as the manifest sets it.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateVariable {
    pub name: String,
    pub key: Span,
    pub value: TemplateValue,
    pub span: Span,
}

/// In the manifest's order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TemplateKwargs(pub Vec<TemplateVariable>);

impl TemplateKwargs {
    pub fn values(&self) -> BTreeMap<String, TemplateValue> {
        self.0.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect()
    }
}

impl Decode for TemplateKwargs {
    fn decode(node: &Node) -> Option<Self> {
        if node.is_null() {
            return Some(Self::default());
        }
        let members = node.as_object()?.members.iter().filter(|member| !is_comment(&member.key));
        let variables = members.filter_map(|member| {
            let value = TemplateValue::decode(&member.node)?;
            let (name, key, span) = (member.key.clone(), member.key_span, member.node.span);
            Some(TemplateVariable { name, key, value, span })
        });
        Some(Self(variables.collect()))
    }

    fn show(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.values()).ok()
    }
}

impl Decode for TemplateValue {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Bool(flag) => Some(Self::Flag(*flag)),
            Value::Text(text) => Some(Self::Text(text.clone())),
            #[allow(clippy::cast_possible_truncation)] // The kind has been checked: a whole number in range.
            Value::Number(number) => Some(Self::Integer(*number as i64)),
            _ => None,
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self).ok()
    }
}
