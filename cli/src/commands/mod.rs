//! One file per command. Each has `Args` and `run`; only the dispatcher (`cli.rs`) uses them.

pub mod bench;
pub mod clean;
pub mod completions;
pub mod datasets;
pub mod doctor;
pub mod evaluate;
pub mod export;
pub mod generate;
pub mod import;
pub mod init;
pub mod install;
pub mod keygen;
pub mod matrix;
pub mod package;
pub mod plan;
pub mod pretokenize;
pub mod report;
pub mod route;
pub mod runs;
pub mod schema;
pub mod serve;
pub mod train;
pub mod validate;
pub mod verify;
pub mod work;
