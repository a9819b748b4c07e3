//! What the router of a shelf learns from, and what it answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::manifest::Routing;
use crate::plan::Source;

/// The manifest's hints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keywords {
    pub keywords: Vec<String>,
    pub exclude_keywords: Vec<String>,
}

impl From<&Routing> for Keywords {
    fn from(routing: &Routing) -> Self {
        Self {
            keywords: routing.keywords.value.clone(),
            exclude_keywords: routing.exclude_keywords.value.clone(),
        }
    }
}

/// An expert that the router can choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoutedExpert {
    pub name: String,
    /// The router learns from the prompts of these.
    pub train: Vec<Source>,
    /// Its accuracy is measured on these.
    pub test: Vec<Source>,
    pub field_mapping: BTreeMap<String, String>,
    /// Source name -> absolute file. Hub datasets are not listed.
    pub data: BTreeMap<String, String>,
    /// Of each file in `data`.
    pub digests: BTreeMap<String, String>,
    pub hints: Keywords,
}

/// The experts of a shelf, and the file of the router that was learnt from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shelf {
    pub experts: Vec<RoutedExpert>,
    /// Written when the router is learnt. Its name depends on everything that the router is learnt from.
    pub file: String,
}

impl Shelf {
    /// `folder` holds the learnt routers.
    pub fn new(folder: &std::path::Path, experts: Vec<RoutedExpert>) -> Self {
        let name = digest::of(&experts.iter().map(named_by).collect::<Vec<_>>());
        let file = folder.join(format!("{}.safetensors", &name[..32]));
        Self { experts, file: file.to_string_lossy().into_owned() }
    }
}

/// The same rows in another folder make the same router.
fn named_by(expert: &RoutedExpert) -> RoutedExpert {
    RoutedExpert { data: BTreeMap::new(), ..expert.clone() }
}

/// Prompts to route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    pub shelf: Shelf,
    pub prompts: Vec<String>,
}

/// `route`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteResult {
    pub ok: bool,
    /// One for each prompt, in their order.
    pub routes: Vec<ChosenExpert>,
    pub router: RouterRecord,
    /// Whether the router was learnt now; else it was read from its file.
    pub learnt: bool,
    /// What the user should know, in sentences.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChosenExpert {
    /// Null where the prompt is for none of the experts.
    pub expert: Option<String>,
    /// The probability that this is right, by the router.
    pub confidence: f64,
}

/// A learnt router, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouterRecord {
    /// Of each expert's own test rows.
    pub experts: Vec<RoutedShare>,
    /// Everyday prompts for which it chose none of the experts.
    pub none: RoutedShare,
    /// Pairs of experts with the same prompts among their training rows, which the router confuses.
    pub overlaps: Vec<PromptOverlap>,
}

/// How many prompts the router sent where they belong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoutedShare {
    pub name: String,
    pub rows: u64,
    pub right: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptOverlap {
    pub experts: (String, String),
    /// Of the prompts of the expert that has fewer.
    pub share: f64,
}
