//! The name of what is served, between cores, connections and the catalogue.

use volume::VolumeId;

/// Names what is served, of whatever kind: a slot of the cores' tables, and which use of it. All kinds share the slots, so that what crosses cores (fences,
/// epochs, ends) need not say of which kind it speaks.
pub type ServedId = VolumeId;
