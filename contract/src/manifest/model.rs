//! A manifest that can be resolved, and the options it is read with.

use std::path::PathBuf;

use super::base::BaseModel;
use super::config::Config;
use super::document::Document;
use super::root::Root;
use super::sets::Set;
use crate::diagnostic::{Diagnostic, Problem};

/// More bases than one expert is trained for.
pub const MAX_BASES: usize = 100;

/// Command line options for reading a manifest.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Missing files and bases are errors, not warnings.
    pub strict: bool,
    /// Folders outside the expert's folder that may hold data.
    pub allowed: Vec<PathBuf>,
    /// No path of the manifest is used, so each may lead anywhere.
    pub anywhere: bool,
    /// Nothing is trained: what only a training reads is at most a warning.
    pub trains_nothing: bool,
    pub sets: Vec<Set>,
    /// Which bases the manifest is read for.
    pub bases: Bases,
    /// A Hub id or a folder to train for where the manifest has no base as `bases` names it.
    pub other_base: Option<String>,
}

/// What is wrong with a base only matters where that base is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Bases {
    #[default]
    Every,
    First,
    /// As `--model` names it.
    Named(String),
}

/// A manifest that can be resolved: nothing in it is an error.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub path: PathBuf,
    /// The expert's folder, against which paths resolve.
    pub folder: PathBuf,
    pub document: Document,
    pub root: Root,
    /// `training.config` with the version 1.0 shorthand below it.
    pub config: Config,
    /// The base models of either version.
    pub bases: Vec<BaseModel>,
    /// Where `bases` is the one of [`Options::other_base`], in place of the manifest's.
    pub other_base: Option<OtherBase>,
}

/// What a base that is not the manifest's is to the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherBase {
    New,
    /// A base of the manifest, by its name there, in another folder.
    CopyOf(String),
}

impl Manifest {
    /// What the expert is for. The key is metadata: a value of another type than text is ignored.
    pub fn description(&self) -> Option<&str> {
        let text = self.document.root.as_ref()?.as_object()?.member("description")?.node.as_text()?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// Problems found later (for example by a rule that needs the device) as diagnostics of this manifest.
    pub fn locate(&self, problems: Vec<Problem>) -> Vec<Diagnostic> {
        self.document.locate(problems)
    }
}
