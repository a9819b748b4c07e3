//! The grammar of answers is a file that can be read, without a mistake.

use std::fs::File;
use std::io::Read;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::gbnf::{self, Mistake};
use crate::manifest::{Decoding, GrammarChoice, Manifest};
use crate::paths::{data_path, without_mark};
use crate::plan::{Grammar, GrammarKind};

const MOST_BYTES: u64 = 256 << 10;
const JSON: &str = "json";

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let decoding = &manifest.root.training.decoding;
    if decoding.grammar() == GrammarChoice::Missing {
        let (span, message) = match decoding.grammar_type.as_deref() {
            Some(kind) => (
                decoding.grammar_type.span,
                format!("`grammar_type` has no effect: there is no built-in grammar `{kind}`"),
            ),
            None => {
                (decoding.use_grammar.span, "`use_grammar` has no effect: no grammar is named".to_owned())
            }
        };
        let problem = Problem::new(Code::GrammarMissing, span, message);
        problems.push(problem.hint(
            "name a file in GBNF (.gbnf) or a JSON Schema (.json) as `grammar_file`, or choose the `grammar_type` json, sql or cypher",
        ));
    }
    match read(manifest) {
        // The path check says whether the file is there.
        Err(problem) if is_here(manifest) => problems.push(problem),
        _ => {}
    }
}

fn is_here(manifest: &Manifest) -> bool {
    let GrammarChoice::File(file) = manifest.root.training.decoding.grammar() else { return true };
    data_path(file, &manifest.folder).is_file()
}

/// The grammar that the manifest names.
pub fn read(manifest: &Manifest) -> Result<Option<Grammar>, Problem> {
    let decoding = &manifest.root.training.decoding;
    let name = match decoding.grammar() {
        GrammarChoice::Free | GrammarChoice::Missing => return Ok(None),
        GrammarChoice::Json => {
            let text = "{}".to_owned();
            return Ok(Some(Grammar { kind: GrammarKind::JsonSchema, name: JSON.to_owned(), text }));
        }
        GrammarChoice::Query(kind) => {
            let word = kind.as_str().to_owned();
            return Ok(Some(Grammar { kind, name: word.clone(), text: word }));
        }
        GrammarChoice::File(name) => name.replace('\\', "/"),
    };
    let kind = match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("gbnf") => GrammarKind::Gbnf,
        Some("json") => GrammarKind::JsonSchema,
        _ => {
            let message = format!("`{name}` is neither a grammar (.gbnf) nor a JSON Schema (.json)");
            return Err(refused(
                decoding,
                message,
                "write it in GBNF, or describe a JSON answer by a JSON Schema",
            ));
        }
    };
    let text = text(manifest, decoding, &name)?;
    let found = if kind == GrammarKind::Gbnf { gbnf::check(&text) } else { schema(&text) };
    found.map_err(|mistake| broken(decoding, &name, kind, &mistake))?;
    Ok(Some(Grammar { kind, name, text }))
}

fn refused(decoding: &Decoding, message: String, hint: &str) -> Problem {
    Problem::new(Code::GrammarFile, decoding.grammar_file.span, message).hint(hint)
}

fn text(manifest: &Manifest, decoding: &Decoding, name: &str) -> Result<String, Problem> {
    let path = data_path(name, &manifest.folder);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let message = format!("the grammar `{name}` cannot be read: {error}");
        return Err(refused(
            decoding,
            message,
            "put the file in the expert's folder, or remove `grammar_file`",
        ));
    }
    if bytes.len() as u64 > MOST_BYTES {
        let message = format!("the grammar `{name}` is larger than 256 KiB");
        return Err(refused(
            decoding,
            message,
            "write a shorter one: each token of an answer is held against it",
        ));
    }
    String::from_utf8(bytes).map(without_mark).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let message = format!("the grammar `{name}` is not UTF-8: byte {} is wrong", place + 1);
        refused(decoding, message, "save the file as UTF-8")
    })
}

fn broken(decoding: &Decoding, name: &str, kind: GrammarKind, mistake: &Mistake) -> Problem {
    let Mistake { line, column, message } = mistake;
    let message = format!("{name}, line {line}, column {column}: {message}");
    let hint = if kind == GrammarKind::Gbnf {
        "correct the grammar; docs/scorers.md shows the notation"
    } else {
        "correct the JSON Schema"
    };
    Problem::new(Code::GrammarBroken, decoding.grammar_file.span, message).hint(hint)
}

fn schema(text: &str) -> Result<(), Mistake> {
    let document: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Mistake { line: error.line(), column: error.column(), message }
    })?;
    if document.is_object() {
        return Ok(());
    }
    Err(Mistake { line: 1, column: 1, message: "a JSON Schema is an object".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::schema;

    #[test]
    fn a_schema_is_an_object_of_json() {
        assert_eq!(schema("{\"type\": \"object\"}"), Ok(()));
        for (text, line, column, message) in [
            ("{\n  \"type\": object}", 2, 11, "expected value"),
            ("", 1, 0, "EOF"),
            ("[]", 1, 1, "is an object"),
            (&"[".repeat(100_000), 1, 128, "recursion limit"),
        ] {
            let found = schema(text).unwrap_err();
            assert!(found.message.contains(message), "{found:?}");
            assert_eq!((found.line, found.column), (line, column), "{found:?}");
        }
    }
}
