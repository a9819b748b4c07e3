//! The parsed tree, with the position of every value.

use crate::source::Span;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Object),
    /// Something that is not JSON and has been reported.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object {
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

impl Object {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.member(key).map(|member| &member.node)
    }

    pub fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.key == key)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.members.iter_mut().find(|member| member.key == key).map(|member| &mut member.node)
    }
}

impl Node {
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(object) = &self.value { Some(object) } else { None }
    }

    pub fn as_list(&self) -> Option<&[Node]> {
        if let Value::List(items) = &self.value { Some(items) } else { None }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// How a message names this value's type.
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
            Value::Unreadable => "unreadable",
        }
    }

    /// The same document without places.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null | Value::Unreadable => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Number(number) => number_json(*number),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Object(object) => {
                object.members.iter().map(|member| (member.key.clone(), member.node.to_json())).collect()
            }
        }
    }
}

/// Whole numbers are shown without a fraction.
pub fn number_json(number: f64) -> serde_json::Value {
    if number.fract() == 0.0 && number.abs() < 9.0e15 { (number as i64).into() } else { number.into() }
}

/// A comment in any object.
pub fn is_comment(key: &str) -> bool {
    key.starts_with('_')
}

/// RFC 6901: `~` and `/` are escaped.
pub fn push_pointer(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}
