//! Where a figure comes from: every series carries a label, and nothing without one is shown.
//!
//! Published numbers were not measured here; a shaped link is not a 25GbE link; an imported log is somebody else's
//! run. The label travels from the scenario through `result.json` into every legend, and the JSON Schema of a result
//! refuses a point without it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of truth a series is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Evidence {
    /// The thing itself was measured.
    Real,
    /// A smaller version of the thing was measured.
    Scaled {
        /// What was made smaller and by how much, such as `"link 25 Gbit/s to 2.5 Gbit/s: 0.1"`.
        factor: String,
    },
    /// Something else stood in for the thing.
    Emulated {
        /// What stood for what, such as `"veth and tbf 1 Gbit/s in place of 25GbE"`.
        stands_for: String,
    },
    /// Computed by a model or the simulator.
    Simulated {
        /// Which model.
        model: String,
    },
    /// Somebody else's measurement, read from their files.
    Imported {
        /// The tool whose file it was, and the file's name.
        from: String,
    },
}

impl Evidence {
    /// The one-word label of legends and headers.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Scaled { .. } => "scaled",
            Self::Emulated { .. } => "emulated",
            Self::Simulated { .. } => "simulated",
            Self::Imported { .. } => "imported",
        }
    }

    /// What the label alone does not say.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Real => None,
            Self::Scaled { factor } => Some(factor),
            Self::Emulated { stands_for } => Some(stands_for),
            Self::Simulated { model } => Some(model),
            Self::Imported { from } => Some(from),
        }
    }

    /// Whether two series may stand side by side without an explicit permission: what was measured on the thing itself
    /// is not compared with what stood in for it.
    pub const fn comparable(&self, other: &Self) -> bool {
        self.is_stand_in() == other.is_stand_in()
    }

    const fn is_stand_in(&self) -> bool {
        matches!(self, Self::Emulated { .. } | Self::Simulated { .. })
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail() {
            Some(detail) => write!(f, "{} ({detail})", self.label()),
            None => f.write_str(self.label()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_needs_its_detail() {
        let whole: Evidence = serde_json::from_str(r#"{"kind":"scaled","factor":"link 0.1"}"#).unwrap();
        assert_eq!(whole.to_string(), "scaled (link 0.1)");
        assert!(serde_json::from_str::<Evidence>(r#"{"kind":"scaled"}"#).is_err());
        assert!(serde_json::from_str::<Evidence>(r#"{"kind":"emulated"}"#).is_err());
        assert!(serde_json::from_str::<Evidence>(r#"{"kind":"offload"}"#).is_err());
    }

    #[test]
    fn a_stand_in_is_not_compared_with_the_thing() {
        let emulated = Evidence::Emulated { stands_for: "veth in place of 25GbE".to_owned() };
        assert!(!Evidence::Real.comparable(&emulated));
        assert!(emulated.comparable(&emulated.clone()));
        assert!(Evidence::Real.comparable(&Evidence::Scaled { factor: "0.1".to_owned() }));
    }
}
