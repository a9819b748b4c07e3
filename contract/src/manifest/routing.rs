//! `routing`: words by which a router may know the expert's prompts.

use super::section::section;
use crate::ledger::{Class, Kind, TEXTS, Unknown};

section! {
    /// Hints for `route` and for the model `auto` of a shelf, beside the training rows that the router learns from.
    Routing = ROUTING at "routing" {
        unknown: Unknown::Keep,
    }
    honoured {
        keywords ["keywords"]: Vec<String> = Vec::new(), TEXTS,
            "A prompt with one of these words or phrases is somewhat likelier to be the expert's.";
        exclude_keywords ["exclude_keywords"]: Vec<String> = Vec::new(), TEXTS,
            "A prompt with one of these words or phrases is somewhat less likely to be the expert's.";
    }
    kept {
        ["router_hint"]: Kind::Any, Class::Metadata, "An expression for another runtime's router.";
        ["priority"]: Kind::Any, Class::Metadata, "The expert's rank in another runtime's router.";
    }
}
