//! A failed command: an exit code for the shell, a message for the user.

use std::io;
use std::path::Path;

use expert_contract::diagnostic::{Code, Diagnostic, Severity};
use expert_contract::exit::Exit;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub struct Failure {
    pub exit: Exit,
    /// Stable and machine-readable: `worker-missing`, `output-used`.
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
    /// The diagnostics of a manifest; already shown, and part of the document under `--json`.
    pub diagnostics: Vec<Diagnostic>,
    /// What the command has all the same, an object; its fields are in the document under `--json`.
    pub result: Option<Box<Value>>,
}

impl Failure {
    pub fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: message.into(),
            hint: None,
            diagnostics: Vec::new(),
            result: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_result(mut self, result: Value) -> Self {
        self.result = Some(Box::new(result));
        self
    }

    pub fn bad_input(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, code, message)
    }

    pub fn missing(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Missing, code, message)
    }

    /// Several refusals in one message, with the code of the first. A hint that not all of them have is below its own message.
    pub fn refuse_all(refusals: &[Self]) -> Result<(), Self> {
        let Some(first) = refusals.first() else { return Ok(()) };
        let is_shared = refusals.iter().all(|it| it.hint == first.hint);
        let told = |it: &Self| match &it.hint {
            Some(hint) if !is_shared => format!("{}\n  {hint}", it.message),
            _ => it.message.clone(),
        };
        let message = refusals.iter().map(told).collect::<Vec<_>>().join("\n");
        let hint = first.hint.clone().filter(|_| is_shared);
        Err(Self { message, hint, ..first.clone() })
    }

    pub fn manifest(path: &Path, diagnostics: Vec<Diagnostic>) -> Self {
        let errors: Vec<_> = diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
        let plural = if errors.len() == 1 { "error" } else { "errors" };
        // The manifest is the first source; options of the command line follow.
        let is_of_file = |it: &&&Diagnostic| it.span.source == 0;
        let message = match errors.iter().filter(is_of_file).count() {
            _ if errors.iter().any(|it| it.code == Code::FileUnreadable) => {
                format!("{} cannot be read", path.display())
            }
            0 if !errors.is_empty() => format!("the command line has {} {plural}", errors.len()),
            count if count == errors.len() => format!("{} has {count} {plural}", path.display()),
            _ => format!("{} and the command line have {} errors", path.display(), errors.len()),
        };
        Self { diagnostics, ..Self::bad_input("bad-manifest", message) }
    }

    /// The code of the failure: a manifest's first error, or the failure's code.
    pub fn cause(&self) -> &str {
        let first = self.diagnostics.iter().find(|it| it.severity == Severity::Error);
        first.map_or(&self.code, |diagnostic| diagnostic.code.as_str())
    }

    /// `document`, an object, with this failure as every JSON document has one.
    pub fn added_to(&self, mut document: Value) -> Value {
        document["exit"] = json!(self.exit.code());
        document["error"] = json!({"code": self.code, "message": self.message, "hint": self.hint});
        document["diagnostics"] = json!(self.diagnostics);
        document
    }

    /// `doing` reads after "cannot": "write plan.json". For commands that take the folder with `-o`.
    pub fn writing(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::storing(doing, path, error, Some("-o"))
    }

    /// What is where no option says: the manifest, its lock, a run that is there.
    pub fn changing(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::storing(doing, path, error, None)
    }

    pub fn temporary(error: &io::Error) -> Self {
        Self::changing("write to the temporary folder", &std::env::temp_dir(), error)
            .hint("set TMPDIR to a folder that can be written and has space")
    }

    /// Of `writing`, for commands that take the folder with this option, or with none.
    pub fn storing(doing: &str, path: &Path, error: &io::Error, option: Option<&str>) -> Self {
        let other =
            |words: &str| option.map(|option| format!(", or {words} with {option}")).unwrap_or_default();
        let failure = Self::new(
            Exit::Storage,
            "storage",
            format!("cannot {doing} {}: {}", path.display(), reason(error)),
        );
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint(format!("free some space{}", other("choose another folder")))
            }
            io::ErrorKind::FileTooLarge => {
                failure.hint("raise the limit of file sizes (`ulimit -f` shows it), or use a file system that holds larger files")
            }
            _ => failure.hint(format!("make the folder writable{}", other("choose another"))),
        }
    }

    /// A result that standard output did not take.
    pub fn unwritten(error: &io::Error) -> Self {
        Self::new(Exit::Storage, "storage", format!("cannot write the result: {}", reason(error)))
            .hint("free some space, or send the output elsewhere, and run the command again")
    }

    pub fn reading(doing: &str, path: &Path, error: &io::Error) -> Self {
        let failure =
            Self::bad_input("unreadable", format!("cannot {doing} {}: {}", path.display(), reason(error)));
        match error.kind() {
            io::ErrorKind::NotFound => {
                failure.hint("check the path; a relative one starts at the current folder")
            }
            io::ErrorKind::PermissionDenied => failure.hint("make it readable for your user"),
            _ => failure.hint("check the path, and that its storage can be read"),
        }
    }
}

/// The system's message without Rust's "(os error 2)".
pub fn reason(error: &io::Error) -> String {
    let whole = error.to_string();
    // fs_err puts what it did and the path before, which our message names already.
    let of_system = error.get_ref().and_then(|_| whole.rsplit_once("`: ")).map(|(_, last)| last.to_owned());
    let text = of_system.unwrap_or(whole);
    text.find(" (os error").map_or(text.clone(), |end| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_of_a_full_disk_is_an_option_of_the_command() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let hint = |failure: Failure| failure.hint.unwrap_or_default();
        let installed = hint(Failure::storing("write", Path::new("registry"), &full, Some("--registry")));
        assert_eq!(installed, "free some space, or choose another folder with --registry");
        let trained = hint(Failure::writing("write", Path::new("out"), &full));
        assert_eq!(trained, "free some space, or choose another folder with -o");
    }

    #[test]
    fn refusals_in_one_message_keep_their_hints() {
        let refusal = |message: &str, hint: &str| Failure::bad_input("a", message).hint(hint);
        assert!(Failure::refuse_all(&[]).is_ok());
        let alike = Failure::refuse_all(&[refusal("one", "do"), refusal("two", "do")]).unwrap_err();
        assert_eq!((alike.message.as_str(), alike.hint.as_deref()), ("one\ntwo", Some("do")));
        let unlike = Failure::refuse_all(&[refusal("one", "do"), refusal("two", "leave")]).unwrap_err();
        assert_eq!((unlike.message.as_str(), unlike.hint), ("one\n  do\ntwo\n  leave", None));
    }

    #[test]
    fn a_file_that_cannot_be_read_comes_with_advice() {
        for (kind, advice) in [
            (io::ErrorKind::NotFound, "check the path"),
            (io::ErrorKind::PermissionDenied, "readable"),
            (io::ErrorKind::Other, "storage"),
        ] {
            let failure = Failure::reading("read", Path::new("nothere"), &io::Error::from(kind));
            assert!(failure.hint.unwrap_or_default().contains(advice), "{kind}");
        }
    }
}
