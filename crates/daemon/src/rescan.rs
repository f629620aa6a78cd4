//! Looking again at files and devices, which may have another size than when they were opened.
//!
//! Whoever notices a change tells it to the engine by itself ([`volume::Volume::listen`]); here it is told to people.

use crate::exports::Opened;

/// Looks at every volume, and says what is new.
pub(crate) fn lines(opened: &[Opened]) -> Vec<String> {
    let lines: Vec<String> = opened.iter().filter_map(line).collect();
    if lines.is_empty() { vec!["every volume has the size that it had".to_owned()] } else { lines }
}

fn line(entry: &Opened) -> Option<String> {
    let (name, was) = (&entry.name, entry.volume.geometry().bytes());
    if let Err(error) = entry.volume.rescan() {
        return Some(format!("the volume {name:?} keeps its {was} bytes: {error}"));
    }
    let is = entry.volume.geometry().bytes();
    (was != is).then(|| format!("the volume {name:?} has {is} bytes now, it had {was}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use volume::{Features, Geometry, Limits, OpenError, QueueContext, Volume, VolumeQueue};

    use super::*;

    /// A volume whose next size is known beforehand; none can be known if it is zero.
    #[derive(Debug)]
    struct Elastic {
        blocks: AtomicU64,
        next: u64,
    }

    impl Volume for Elastic {
        fn geometry(&self) -> Geometry {
            let blocks = self.blocks.load(Ordering::Relaxed);
            Geometry { blocks, block_size: 512, physical_block_size: 512 }
        }
        fn limits(&self) -> Limits {
            Limits::default()
        }
        fn features(&self) -> Features {
            Features::empty()
        }
        fn rescan(&self) -> Result<(), OpenError> {
            if self.next == 0 {
                return Err(OpenError::new("it is gone"));
            }
            self.blocks.store(self.next, Ordering::Relaxed);
            Ok(())
        }
        fn open_queue(&self, _context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
            Err(OpenError::new("it has only a size"))
        }
    }

    fn said(sizes: &[u64]) -> Vec<String> {
        let open = |&next: &u64| Opened::plain("disk", Arc::new(Elastic { blocks: AtomicU64::new(2), next }));
        lines(&sizes.iter().map(open).collect::<Vec<_>>())
    }

    #[test]
    fn what_has_changed_and_what_could_not_be_seen_is_said() {
        assert_eq!(said(&[2]), ["every volume has the size that it had"]);
        let expected = [
            "the volume \"disk\" has 1536 bytes now, it had 1024",
            "the volume \"disk\" keeps its 1024 bytes: it is gone",
        ];
        assert_eq!(said(&[3, 2, 0]), expected);
    }
}
