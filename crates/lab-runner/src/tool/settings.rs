//! Settings of a point as values: what is wrong with one says which it was and what to write.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use names::ByteSize;

use lab_model::scenario::options;

/// fio's list has it, but it is the kernel's: whoever attaches the device sets it.
const READAHEAD: &str = "readahead";
/// What stands before the name of an option of the second section.
pub(super) const LOG: &str = "log_";

/// Asks for a sample of offsets.
pub(super) const OFFSETS: &str = "sample_offsets";
/// Asks for data to be verified during the load.
pub(super) const DATA: &str = "sample_data";
/// What the runner adds, on whichever machine the load runs; no scenario can name them.
pub(crate) const ADDED: [&str; 2] = [OFFSETS, DATA];

/// The settings of one assignment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a>(pub(super) &'a BTreeMap<String, String>);

impl<'a> Settings<'a> {
    /// As written, if it is there.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    /// As written, or the default.
    pub(super) fn text(self, name: &str, default: &'a str) -> &'a str {
        self.get(name).unwrap_or(default)
    }

    /// A whole number of at least 1, or the default.
    pub(super) fn count(self, name: &str, default: u64) -> Result<u64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number: u64 = text.parse().with_context(|| {
            format!("setting {name} = {text:?} is not a whole number: correct it in the scenario")
        })?;
        if number == 0 {
            bail!("setting {name} = 0 would do nothing: write 1 or more in the scenario");
        }
        Ok(number)
    }

    /// Bytes, or the default.
    pub(super) fn bytes(self, name: &str, default: u64) -> Result<u64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let ByteSize(bytes) = text.parse().with_context(|| format!("setting {name} = {text:?}"))?;
        if bytes == 0 {
            bail!("setting {name} = 0 would do nothing: write a size such as 4k in the scenario");
        }
        Ok(bytes)
    }

    /// A share in per cent, or the default.
    pub(super) fn percent(self, name: &str, default: u64) -> Result<u64> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| *number <= 100);
        number.with_context(|| {
            format!(
                "setting {name} = {text:?} is not a share: write a whole number from 0 to 100 in the scenario"
            )
        })
    }

    /// One of `words`; the first when it is absent.
    pub(super) fn word(self, name: &str, words: &[&'static str]) -> Result<&'static str> {
        let default = words.first().copied().unwrap_or_default();
        let text = self.text(name, default);
        words.iter().copied().find(|word| *word == text).with_context(|| {
            format!("setting {name} = {text:?} is unknown: write one of {} in the scenario", words.join(", "))
        })
    }

    /// Whether there is a second section.
    pub(super) fn has_log(self) -> bool {
        self.0.keys().any(|name| name.starts_with(LOG))
    }

    /// Options for the tool by its own names, without those in `except`.
    pub(super) fn verbatim(self, except: &[&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| {
            let of_the_lab = options::LAB.iter().any(|known| known.name == name);
            let ours =
                of_the_lab || name.starts_with(LOG) || name == READAHEAD || ADDED.contains(&name.as_str());
            (!ours && !except.contains(&name.as_str())).then_some((name.as_str(), value.as_str()))
        })
    }

    /// Refuses options that `program` does not have but that would change what is measured.
    pub(super) fn refuse(self, program: &str, names: &[&str]) -> Result<()> {
        let found = self
            .0
            .keys()
            .find(|name| names.contains(&name.as_str()) || (name.starts_with(LOG) && names.contains(&LOG)));
        match found {
            Some(name) => bail!(
                "{program} has nothing for setting {name} = {:?}: leave it out, or take an initiator that fio drives \
                 (libiscsi-nbd, libiscsi-fuse, site)",
                self.text(name, "")
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_wrong_is_named() {
        let map = given(&[("bs", "4q"), ("iodepth", "0"), ("rwmixread", "101"), ("direction", "up")]);
        let settings = Settings(&map);
        let said = |error: anyhow::Error| format!("{error:#}");
        assert!(said(settings.bytes("bs", 1).unwrap_err()).contains("bs = \"4q\""));
        assert!(said(settings.count("iodepth", 1).unwrap_err()).contains("iodepth = 0"));
        assert!(said(settings.percent("rwmixread", 50).unwrap_err()).contains("from 0 to 100"));
        assert!(said(settings.word("direction", &["uni", "bidi"]).unwrap_err()).contains("uni, bidi"));
        assert!(said(settings.refuse("iscsi-perf", &["bs"]).unwrap_err()).contains("bs = \"4q\""));
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let map = BTreeMap::new();
        let settings = Settings(&map);
        assert_eq!(settings.bytes("bs", 4096).unwrap(), 4096);
        assert_eq!(settings.word("direction", &["uni", "bidi"]).unwrap(), "uni");
        assert!(!settings.has_log());
    }

    #[test]
    fn options_of_the_lab_never_reach_a_tool() {
        let map = given(&[("bs", "4k"), ("link", "1Gbit"), ("log_rw", "write"), ("norandommap", "1")]);
        let passed: Vec<_> = Settings(&map).verbatim(&["bs"]).collect();
        assert_eq!(passed, [("norandommap", "1")]);
        assert!(Settings(&map).has_log());
    }
}
