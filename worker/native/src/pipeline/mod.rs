//! The whole way from sources to a split of the cache.

mod compare;
mod ingest;
mod read;
mod recipe;
mod select;
mod tokenize;

pub use compare::{Compared, Copies, Place, Row, compare};
pub use ingest::{Ingested, ingest};
pub use recipe::{Batches, Coder, Faults, Ledger, Oracle, OracleIds, Overlong, Recipe, Source};
pub use select::{Packing, Selection, select, write_split};
pub use tokenize::{Dropped, Preview, preview};
