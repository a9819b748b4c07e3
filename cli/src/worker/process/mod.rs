//! Starting, stopping and killing a worker on each operating system. Each file offers the same:
//! `prepare`, `share`, `Worker` (`started`, `wait`), `Group` (`adopt`, `ask`, `kill`, `collect`, `leader_ended`), `on_interrupt`,
//! `cause_of_death`, `ended_by`, `keep_on_at_file_limit`, `allow_open_files` and `replace`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{
    Group, Worker, allow_open_files, cause_of_death, ended_by, keep_on_at_file_limit, on_interrupt, prepare,
    replace, share,
};
#[cfg(windows)]
pub use windows::{
    Group, Worker, allow_open_files, cause_of_death, ended_by, keep_on_at_file_limit, on_interrupt, prepare,
    replace, share,
};
