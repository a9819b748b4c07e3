//! Every input of `tests/corpus`: those that once broke something, and those from which fuzzing starts.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use expert_fuzz::{TARGETS, check};

/// An input that hangs a parser fails the test by name in place of hanging it. The slowest takes far below a second.
const PATIENCE: Duration = Duration::from_mins(2);

fn inputs(target: &str) -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
    let mut folders = vec![tests.join("corpus").join(target)];
    if target == "manifest" {
        folders.extend(["valid", "invalid"].map(|name| tests.join("manifests").join(name)));
    }
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut paths: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

fn replay(target: &'static str, path: &Path) {
    let input = std::fs::read(path).unwrap();
    let (done, ended) = channel();
    let work = std::thread::spawn(move || {
        check(target, &input);
        done.send(()).unwrap();
    });
    let hangs = ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
    assert!(!hangs, "{target} does not come to an end on {}", path.display());
    assert!(work.join().is_ok(), "{target} fails on {}", path.display());
}

// One test: memory is counted over all threads.
#[test]
fn every_input_of_the_corpus() {
    for target in &TARGETS {
        let inputs = inputs(target.name);
        assert!(inputs.len() >= 5, "{} has {} inputs", target.name, inputs.len());
        for path in inputs {
            replay(target.name, &path);
        }
    }
}
