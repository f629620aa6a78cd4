//! The daemon's configuration file.

use daemon::Config;
use names::VolumeUrl;

/// The file's text.
///
/// # Panics
/// When a configuration that was accepted has names that clash or places that cannot be written down again: that is what
/// the fuzzer looks for.
pub fn file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(config) = toml::from_str::<Config>(text) else { return };
    for volume in &config.volumes {
        assert_eq!(volume.url.to_string().parse::<VolumeUrl>().as_ref(), Ok(&volume.url), "{text}");
    }
    for portal in &config.portals {
        assert_eq!(portal.listen.to_string().parse().as_ref(), Ok(&portal.listen), "{text}");
    }
    match config.check() {
        Ok(()) => accepted(&config),
        Err(error) => assert!(!format!("{error:#}").is_empty()),
    }
}

/// What [`Config::check`] promises.
fn accepted(config: &Config) {
    let mut places: Vec<_> = config.volumes.iter().map(|volume| (volume.target(), volume.lun)).collect();
    places.sort_unstable();
    assert!(
        places.windows(2).all(|pair| pair.first() != pair.last()),
        "two volumes in one place: {places:?}"
    );
    for volume in &config.volumes {
        assert!(daemon::check_name(&volume.name).is_ok() && daemon::check_name(volume.target()).is_ok());
        let iqn = format!("{}{}", daemon::IQN_PREFIX, volume.target());
        assert!(iqn.parse::<names::Iqn>().is_ok(), "{iqn}");
        let nqn = format!("{}{}", daemon::NQN_PREFIX, volume.target());
        assert!(nqn.parse::<names::Nqn>().is_ok(), "{nqn}");
    }
    for entry in &config.access {
        let named = entry.volume.as_ref();
        assert!(named.is_none_or(|name| config.volumes.iter().any(|volume| volume.name == *name)));
    }
}
