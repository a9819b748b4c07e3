//! From a position in the text back to the JSON pointer of the value there.

use super::node::{Node, Value, push_pointer};
use crate::source::Span;

/// The pointer of the value (or key) at `span`, or of the smallest value around it.
pub fn pointer(root: &Node, span: Span) -> String {
    let mut path = Vec::new();
    let training = root.as_object().and_then(|root| root.get("training"));
    // `--set` may have changed a part of what several bases override, too: its place is the one in `training`.
    if span.is_argument() && training.is_some_and(|training| exact(training, span, &mut path)) {
        path.push("training".to_owned());
    } else if !exact(root, span, &mut path) {
        path.clear();
        around(root, span, &mut path);
    }
    let mut pointer = String::new();
    for token in path.iter().rev() {
        push_pointer(&mut pointer, token);
    }
    pointer
}

/// Whether the node is at `span` or holds what is; the path grows from the inside out.
fn exact(node: &Node, span: Span, path: &mut Vec<String>) -> bool {
    if node.span == span {
        return true;
    }
    if !may_hold(node, span) {
        return false;
    }
    let token = match &node.value {
        Value::List(items) => {
            items.iter().position(|item| exact(item, span, path)).map(|index| index.to_string())
        }
        Value::Object(object) => {
            let found = object
                .members
                .iter()
                .find(|member| member.key_span == span || exact(&member.node, span, path));
            found.map(|member| member.key.clone())
        }
        _ => None,
    };
    path.extend(token.clone());
    token.is_some()
}

/// Values from the command line are inside objects of the file, so their positions do not follow the nesting.
fn may_hold(node: &Node, span: Span) -> bool {
    span.is_argument() || node.span.is_argument() || node.span.contains(span)
}

/// The path of the smallest value that holds `span`.
fn around(node: &Node, span: Span, path: &mut Vec<String>) {
    let inner = match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .find(|(_, item)| item.span.contains(span))
            .map(|(index, item)| (index.to_string(), item)),
        Value::Object(object) => object
            .members
            .iter()
            .find(|member| member.node.span.contains(span) || member.key_span.contains(span))
            .map(|member| (member.key.clone(), &member.node)),
        _ => None,
    };
    if let Some((token, child)) = inner {
        around(child, span, path);
        path.push(token);
    }
}
