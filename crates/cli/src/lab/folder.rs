//! Where the lab keeps its runs.

use std::path::{Path, PathBuf};

/// Where runs are kept unless said otherwise.
pub(super) const USUAL_RUNS: &str = "lab-runs";

/// A run's folder by itself or by its name below the usual place.
pub(super) fn folder_of(given: &Path) -> PathBuf {
    let below = Path::new(USUAL_RUNS).join(given);
    if !given.exists() && below.exists() { below } else { given.to_path_buf() }
}
