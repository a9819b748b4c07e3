//! A run's folder: its records, its lock and its adapter.

pub mod adapter;
mod events;
mod folder;
pub mod measured;
pub mod names;
mod own;
mod record;
mod search;
pub mod speed;
mod stop;

pub use events::{advanced_since, first_event, is_readable as events_are_readable, recorded, recorded_lines};
pub use folder::{RunFolder, State, state};
pub use names::FINAL;
pub use own::{is_own, refuse_foreign};
pub use record::{
    Arithmetic, Begun, CONFIG, EXPERT, Finished, WEIGHTS, checkpoint_damage, checkpoint_step, checkpoints,
    damages, has_whole_checkpoint, is_checkpoint, newest_checkpoint, read_evaluation, read_plan,
};
pub use search::{SEARCH, is_search};
pub use stop::ask_to_stop;
