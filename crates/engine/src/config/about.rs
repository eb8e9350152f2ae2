//! `[[output.nexus.users]]` and `[output.nexus.sample]`: what a run is about.
//!
//! Source: `docs/configuration.md`. Lengths and ranges are checked where the file is made.

use serde::{Deserialize, Serialize};

use super::plain;

/// `[[output.nexus.users]]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// Name.
    pub name: String,
    /// Affiliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affiliation: Option<String>,
    /// Electronic mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Identifier at the facility.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "plain::some")]
    pub facility_user_id: Option<String>,
    /// Role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// `[output.nexus.sample]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleConfig {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chemical_formula: Option<String>,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// One of the types of NXsample.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Temperature, kelvin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_k: Option<f64>,
    /// Mass, gram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mass_g: Option<f64>,
}

impl SampleConfig {
    /// True if nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == SampleConfig::default()
    }
}
