//! From the command line to a plan, and a plan shown.

mod links;
mod prepare;
mod show;
mod site;
mod slow_encoder;
mod text;

pub use links::{leads_out, refuse_links_out};
pub use prepare::{ASKED, Prepared, prepare, resolved};
pub use show::show;
pub use site::on_cpu;
