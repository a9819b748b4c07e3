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

/// `products/<format>.json` in the folder of what can be made again: how a CPU forms products in a 16-bit format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProductSpeed {
    pub processor: String,
    /// The instructions that torch and oneDNN may use.
    pub instructions: String,
    pub torch: String,
    /// The time of a product in the format, by that of one in fp32.
    pub times_fp32: f64,
    pub in_fp32: bool,
}
