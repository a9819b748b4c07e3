//! `base`: fetches or converts the base model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BaseResult {
    pub ok: bool,
    pub folder: Option<String>,
}
