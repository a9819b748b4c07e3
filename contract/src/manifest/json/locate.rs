//! From a place in the text back to the JSON pointer of what stands there.

use super::{Node, Value, push_pointer};
use crate::source::Span;

/// The pointer of the value (or key) at `span`, or of the smallest value around it.
pub fn pointer(root: &Node, span: Span) -> String {
    let mut path = Vec::new();
    if !exact(root, span, &mut path) {
        path.clear();
        around(root, span, &mut path);
    }
    let mut pointer = String::new();
    for token in &path {
        push_pointer(&mut pointer, token);
    }
    pointer
}

/// Values that came from the command line stand inside objects of another source, so those are searched too.
fn exact(node: &Node, span: Span, path: &mut Vec<String>) -> bool {
    if node.span == span {
        return true;
    }
    if span.source == 0 && node.span.source == 0 && !node.span.contains(span) {
        return false;
    }
    children(node).any(|(token, key, child)| {
        path.push(token());
        let found = key == Some(span) || exact(child, span, path);
        if !found {
            path.pop();
        }
        found
    })
}

fn around(node: &Node, span: Span, path: &mut Vec<String>) {
    let inner = children(node)
        .find(|(_, key, child)| child.span.contains(span) || key.is_some_and(|key| key.contains(span)));
    if let Some((token, _, child)) = inner {
        path.push(token());
        around(child, span, path);
    }
}

type Child<'a> = (Box<dyn Fn() -> String + 'a>, Option<Span>, &'a Node);

fn children(node: &Node) -> Box<dyn Iterator<Item = Child<'_>> + '_> {
    match &node.value {
        Value::List(items) => Box::new(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| -> Child<'_> { (Box::new(move || index.to_string()), None, item) }),
        ),
        Value::Object(object) => Box::new(object.members.iter().map(|member| -> Child<'_> {
            (Box::new(|| member.key.clone()), Some(member.key_span), &member.node)
        })),
        _ => Box::new(std::iter::empty()),
    }
}
