//! The worker's hot path.
