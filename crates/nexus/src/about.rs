//! Description of a run by its users: number, proposal, users, sample; and its place in the file.
//!
//! Refuses texts that are empty, too long, or hold control characters: readers print them. Names and types are those of
//! NXentry, NXuser and NXsample; Mantid looks for `run_number`. Source: NeXus base classes 2024.

use fullcount_core::text::is_control;
use fullcount_io::section;
use hdf5_metno::{Group, Result};
use serde::{Deserialize, Serialize};

use super::error::NexusError;
use super::layout::{group, scalar, text, text_attribute};

/// Most bytes of a text of one line: a title, a name.
const LINE: usize = 256;
/// Most bytes of a description.
const DESCRIPTION: usize = 4096;
/// Most users of a run.
const USERS: usize = 64;
/// Characters of a refused value that are shown.
const SHOWN: usize = 40;
/// What NXsample allows as a type.
const SAMPLE_TYPES: [&str; 10] = [
    "sample",
    "sample+can",
    "can",
    "sample+buffer",
    "buffer",
    "calibration sample",
    "normalisation sample",
    "simulated data",
    "none",
    "sample environment",
];

/// Description of a run. All of it is optional.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// `/entry/entry_identifier` and, as a number, `/entry/run_number`; 0 to 2³¹ − 1.
    pub run_number: Option<u32>,
    /// `/entry/experiment_identifier`.
    pub proposal: Option<String>,
    /// `/entry/user_1` and so on.
    pub users: Vec<User>,
    /// `/entry/sample`.
    pub sample: Sample,
}

/// A person who takes part, an NXuser; `[[output.nexus.users]]`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Name.
    pub name: String,
    /// Affiliation.
    pub affiliation: Option<String>,
    /// Electronic mail.
    pub email: Option<String>,
    /// Identifier at the facility.
    #[serde(default, deserialize_with = "section::some")]
    pub facility_user_id: Option<String>,
    /// Role, for example `local_contact`.
    pub role: Option<String>,
}

/// The sample, an NXsample; `[output.nexus.sample]`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sample {
    /// Name.
    pub name: Option<String>,
    /// Formula, by the rules of NXsample: `C6 H12 O6`.
    pub chemical_formula: Option<String>,
    /// Description, up to 4096 bytes.
    pub description: Option<String>,
    /// One of the types that NXsample knows.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Temperature, kelvin, 0 or more.
    pub temperature_k: Option<f64>,
    /// Mass, gram, 0 or more.
    pub mass_g: Option<f64>,
}

impl Sample {
    /// True if nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        *self == Sample::default()
    }
}

impl About {
    /// # Errors
    /// The key, its value and what is allowed.
    pub(super) fn validate(&self) -> std::result::Result<(), NexusError> {
        if let Some(number) = self.run_number.filter(|&n| i32::try_from(n).is_err()) {
            return Err(refused("run_number", number.to_string(), "0 to 2147483647"));
        }
        optional("proposal", &self.proposal)?;
        if self.users.len() > USERS {
            return Err(refused("users", format!("{} users", self.users.len()), "at most 64"));
        }
        for (user, number) in self.users.iter().zip(1..) {
            let key = |field: &str| format!("users, number {number}, {field}");
            line(&key("name"), &user.name)?;
            optional(&key("affiliation"), &user.affiliation)?;
            optional(&key("email"), &user.email)?;
            optional(&key("facility_user_id"), &user.facility_user_id)?;
            optional(&key("role"), &user.role)?;
        }
        self.sample.validate()
    }

    /// Adds the given fields to the NXentry and its NXsample.
    pub(super) fn write(&self, entry: &Group, sample: &Group) -> Result<()> {
        if let Some(number) = self.run_number {
            text(entry, "entry_identifier", &number.to_string())?;
            scalar(entry, "run_number", &i32::try_from(number).unwrap_or(i32::MAX))?;
        }
        said(entry, "experiment_identifier", &self.proposal)?;
        for (user, number) in self.users.iter().zip(1..) {
            let place = group(entry, &format!("user_{number}"), "NXuser")?;
            text(&place, "name", &user.name)?;
            said(&place, "affiliation", &user.affiliation)?;
            said(&place, "email", &user.email)?;
            said(&place, "facility_user_id", &user.facility_user_id)?;
            said(&place, "role", &user.role)?;
        }
        self.sample.write(sample)
    }
}

impl Sample {
    fn validate(&self) -> std::result::Result<(), NexusError> {
        optional("sample.name", &self.name)?;
        optional("sample.chemical_formula", &self.chemical_formula)?;
        if let Some(words) = &self.description {
            bounded("sample.description", words, DESCRIPTION, DESCRIBED)?;
        }
        if let Some(kind) = self.kind.as_deref().filter(|kind| !SAMPLE_TYPES.contains(kind)) {
            let allowed = "sample, sample+can, can, sample+buffer, buffer, calibration sample, \
                           normalisation sample, simulated data, none, sample environment";
            return Err(refused("sample.type", shown(kind), allowed));
        }
        for (key, number) in
            [("sample.temperature_k", self.temperature_k), ("sample.mass_g", self.mass_g)]
        {
            if let Some(number) = number.filter(|n| !n.is_finite() || *n < 0.0) {
                return Err(refused(key, number.to_string(), "a finite number, 0 or more"));
            }
        }
        Ok(())
    }

    fn write(&self, sample: &Group) -> Result<()> {
        said(sample, "name", &self.name)?;
        said(sample, "chemical_formula", &self.chemical_formula)?;
        said(sample, "description", &self.description)?;
        said(sample, "type", &self.kind)?;
        for (name, number, unit) in
            [("temperature", self.temperature_k, "K"), ("mass", self.mass_g, "g")]
        {
            if let Some(number) = number {
                scalar(sample, name, &number)?;
                let made = sample.dataset(name)?;
                text_attribute(&made, "units", unit)?;
            }
        }
        Ok(())
    }
}

fn said(at: &Group, name: &str, words: &Option<String>) -> Result<()> {
    words.as_ref().map_or(Ok(()), |words| text(at, name, words))
}

const ONE_LINE: &str = "1 to 256 bytes of text without control characters";
const DESCRIBED: &str = "1 to 4096 bytes of text without control characters";

/// A text of one line, by the rules for all of them.
///
/// # Errors
/// The key, its value and what is allowed.
pub(super) fn line(key: &str, words: &str) -> std::result::Result<(), NexusError> {
    bounded(key, words, LINE, ONE_LINE)
}

fn optional(key: &str, words: &Option<String>) -> std::result::Result<(), NexusError> {
    words.as_ref().map_or(Ok(()), |words| line(key, words))
}

fn bounded(
    key: &str,
    words: &str,
    most: usize,
    allowed: &'static str,
) -> std::result::Result<(), NexusError> {
    if words.is_empty() || words.len() > most || words.contains(is_control) {
        return Err(refused(key, shown(words), allowed));
    }
    Ok(())
}

/// A value for messages: refused characters are made visible, and a long one is shortened.
fn shown(words: &str) -> String {
    let begin: String = words.chars().take(SHOWN).collect();
    match words.len() > begin.len() {
        true => format!("{begin:?}… ({} bytes)", words.len()),
        false => format!("{begin:?}"),
    }
}

fn refused(key: &str, value: String, allowed: &'static str) -> NexusError {
    NexusError::Option { key: key.to_owned().into(), value, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut About)) -> String {
        let mut about = About {
            run_number: Some(42),
            proposal: Some("20260042".into()),
            users: vec![User { name: "Ada Lovelace".into(), ..User::default() }],
            sample: Sample { kind: Some("sample+can".into()), ..Sample::default() },
        };
        assert!(about.validate().is_ok());
        change(&mut about);
        about.validate().unwrap_err().to_string()
    }

    #[test]
    fn each_refusal_names_key_value_and_what_is_allowed() {
        let large = refusal(|a| a.run_number = Some(1 << 31));
        assert_eq!(large, "output.nexus.run_number: 2147483648 is not allowed: 0 to 2147483647");
        let nul = refusal(|a| a.proposal = Some("a\0b".into()));
        assert_eq!(
            nul,
            "output.nexus.proposal: \"a\\0b\" is not allowed: 1 to 256 bytes of text without control characters"
        );
        for turned in ["V\u{202e}dor", "a\u{2028}b", "\u{2066}a"] {
            let said = refusal(|a| a.sample.name = Some(turned.into()));
            assert!(said.contains(&format!("sample.name: {turned:?} is")), "{said}");
            assert!(!said.contains(turned), "escaped: {said}");
        }
        let paragraph = refusal(|a| a.sample.description = Some("a\u{2029}b".into()));
        assert!(paragraph.contains("description: \"a\\u{2029}b\""), "{paragraph}");
        let second = refusal(|a| a.users.push(User::default()));
        assert!(second.starts_with("output.nexus.users, number 2, name: \"\" is"), "{second}");
        let mail = refusal(|a| a.users[0].email = Some("a\nb".into()));
        assert!(mail.contains("number 1, email: \"a\\nb\""), "{mail}");
        assert!(refusal(|a| a.users = vec![a.users[0].clone(); 65]).contains("65 users"));
        let long = refusal(|a| a.sample.name = Some("é".repeat(129)));
        assert!(long.contains("sample.name: \"é") && long.contains("… (258 bytes)"), "{long}");
        assert!(long.len() < 250, "not the whole of it: {long}");
        assert!(refusal(|a| a.sample.description = Some("x".repeat(4097))).contains("1 to 4096"));
        let kind = refusal(|a| a.sample.kind = Some("soup".into()));
        assert!(kind.contains("sample.type: \"soup\"") && kind.contains("sample+can"), "{kind}");
        assert!(refusal(|a| a.sample.temperature_k = Some(-1.0)).contains("temperature_k: -1"));
        assert!(refusal(|a| a.sample.mass_g = Some(f64::NAN)).contains("mass_g: NaN"));
    }
}
