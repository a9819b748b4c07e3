//! The interface between the `expert-cli` binary and its worker.

pub mod adapters;
pub mod budget;
pub mod diagnostic;
pub mod digest;
pub mod event;
pub mod exit;
pub mod families;
pub mod foreign;
pub mod gbnf;
pub mod ledger;
pub mod manifest;
pub mod paths;
pub mod plan;
pub mod python;
pub mod read;
pub mod reference;
pub mod resolve;
pub mod results;
pub mod routing;
pub mod rules;
pub mod schema;
pub mod secret;
pub mod serving;
pub mod source;
pub mod words;
pub mod wrap;
