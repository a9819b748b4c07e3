//! A module of the worker that does one thing and leaves, such as writing a report.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use expert_contract::exit::Exit;

use super::locate::Found;
use super::process;
use crate::env;
use crate::failure::{Failure, reason};

/// Standard output of `python -m MODULE ARGUMENTS`, or its error in its own words.
pub fn run_module(python: &Found, module: &str, arguments: &[impl AsRef<OsStr>]) -> Result<String, Failure> {
    let output = start(python, module, arguments).output().map_err(|error| not_started(python, &error))?;
