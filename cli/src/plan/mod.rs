//! From the command line to a plan, and a plan shown.

mod against;
mod cache;
mod first_row;
mod forecast;
mod links;
mod offline;
mod prepare;
mod show;
mod site;
mod slow_encoder;
mod text;
mod time;
mod unused_gpus;

pub use against::against;
pub use cache::steps;
pub use forecast::{bound, correct as correct_forecasts};
pub use links::{leads_out, real_manifest, refuse_links_out};
pub use offline::forbidden_by as download_forbidden_by;
pub use prepare::{Prepared, Reads, is_pointer, prepare, prepare_here, reported, resolved};
pub use show::show;
pub use site::{Here, on_cpu};
