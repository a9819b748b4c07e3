//! What a template may cost: a base comes from a stranger, and its template with it.
//!
//! These bounds refuse in words what would print or compute without end. Text that is doubled with `~` or `+` they do not
//! see: the worker's watch on its own memory ends that.

use std::cell::Cell;

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat;

/// Instructions for one rendering: some hundred per message are usual.
const FUEL: u64 = 10_000_000;
/// Bytes that one rendering may print, and that one filter or method may return: rows are at most 16 MiB.
const MOST_BYTES: usize = 64 << 20;
/// Columns that text may be indented or padded by.
const MOST_COLUMNS: usize = 1000;

/// Filters whose result may be much longer than what they are given, and the names under which they stay reachable.
const GROWING: [(&str, &str); 4] =
    [("replace", "__replace"), ("indent", "__indent"), ("join", "__join"), ("format", "__format")];

thread_local! {
    /// Bytes printed by the rendering that this thread is in.
    static PRINTED: Cell<usize> = const { Cell::new(0) };
}

/// Puts the bounds into an environment.
pub fn apply(environment: &mut Environment<'static>) {
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(|state: &mut State, value, name, arguments| {
        let all: Vec<Value> = std::iter::once(value).chain(arguments).cloned().collect();
        check(name, &all)?;
        pycompat::unknown_method_callback(state, value, name, arguments)
    });
    environment.add_filter("__replace", filters::replace);
    environment.add_filter("__indent", filters::indent);
    environment.add_filter("__join", filters::join);
    environment.add_filter("__format", filters::format);
    for (name, original) in GROWING {
        environment.add_filter(name, move |state: &mut State, arguments: Rest<ValueOrKwargs>| {
            let arguments: Vec<Value> = arguments.into_values();
            check(name, &arguments)?;
            state.apply_filter(original, &arguments)
        });
    }
}

pub fn begin() {
    PRINTED.set(0);
}

/// Counts what is about to be printed.
pub fn print(bytes: usize) -> Result<(), Error> {
    let printed = PRINTED.get().saturating_add(bytes);
    PRINTED.set(printed);
    at_most(Some(printed))
}

/// Columns as an option gives them.
pub fn columns(wanted: Option<usize>) -> Result<Option<usize>, Error> {
    match wanted {
        Some(columns) if columns > MOST_COLUMNS => Err(too_wide()),
        other => Ok(other),
    }
}

/// Refuses a call whose result would be out of all proportion. A string method's first argument is the string.
fn check(name: &str, arguments: &[Value]) -> Result<(), Error> {
    let text = |at: usize| arguments.get(at).and_then(Value::as_str);
    match name {
        "replace" => match (text(0), text(1), text(2)) {
            (Some(text), Some(old), Some(new)) if new.len() > old.len() => {
                let found = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() };
                at_most(found.checked_mul(new.len()))
            }
            _ => Ok(()),
        },
        "join" => {
            // The method joins by its string, the filter by its argument.
            let [one, two, ..] = arguments else { return Ok(()) };
            let (separator, items) = one.as_str().map_or((two.as_str(), one), |text| (Some(text), two));
            let count = items.len().or_else(|| text(0).map(str::len)).unwrap_or_default();
            at_most(count.checked_mul(separator.map_or(0, str::len)))
        }
        "indent" | "format" => {
            let widths =
                arguments.iter().skip(1).flat_map(|it| [Some(it.clone()), it.get_attr("width").ok()]);
            for width in widths.flatten() {
                columns(width.as_usize())?;
            }
            if name == "format" && text(0).is_some_and(has_wide_field) {
                return Err(too_wide());
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a format asks for a width or a precision above the most.
fn has_wide_field(format: &str) -> bool {
    let mut numbers = format.split(|character: char| !character.is_ascii_digit());
    numbers
        .any(|digits| !digits.is_empty() && !digits.parse().is_ok_and(|width: usize| width <= MOST_COLUMNS))
}

fn at_most(bytes: Option<usize>) -> Result<(), Error> {
    if bytes.is_some_and(|bytes| bytes <= MOST_BYTES) {
        return Ok(());
    }
    let message = format!("it makes more than {} MiB of text of one row", MOST_BYTES >> 20);
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

fn too_wide() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("it pads text to more than {MOST_COLUMNS} columns"))
}
