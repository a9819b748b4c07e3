//! What `base` reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `base`: fetches or converts the base model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BaseResult {
    pub ok: bool,
    pub folder: Option<String>,
}
