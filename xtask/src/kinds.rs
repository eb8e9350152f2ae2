//! The kinds that the program has: asked of the program itself (`fullcount catalogue --kinds --json`).
//!
//! Refuses an answer that is not its schema. Source: `docs/architecture.md`, "Seams".

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::Job;
use crate::place;

/// A decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoder {
    /// As in `detector.kind`.
    pub name: String,
    /// Text of a geometry file that fits its packets; `None`: it needs none.
    pub geometry: Option<String>,
    /// Packets that it understands.
    pub packets: Vec<Vec<u8>>,
}

/// The program as the tests have built it; built now if it is not there.
///
/// A build of this package alone may choose other features of a C library than that of the workspace, and build it anew: so
/// what is there is taken, and the fuzz targets check that it knows the same kinds as they do.
///
/// # Errors
///
/// The build's own end.
pub fn program() -> Result<PathBuf, String> {
    let binary = place::target().join("debug/fullcount");
    if !binary.is_file() {
        let end = Job::cargo(&["build", "--package", "fullcount"]).run();
        if !end.ok {
            return Err(format!("cargo build: {}", end.phrase));
        }
    }
    Ok(binary)
}

/// The decoders that `binary` has, in its order: the first is the one that it takes unless told otherwise.
///
/// # Errors
///
/// It does not run, or says something else.
pub fn decoders(binary: &Path) -> Result<Vec<Decoder>, String> {
    let output = Command::new(binary).args(["catalogue", "--kinds", "--json"]).output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    read(&text).ok_or_else(|| format!("{} catalogue --kinds --json: {text:.200}", binary.display()))
}

fn read(text: &str) -> Option<Vec<Decoder>> {
    let json: Value = serde_json::from_str(text.trim()).ok()?;
    if json["schema"] != "fullcount/kinds/1" {
        return None;
    }
    json["detectors"].as_array()?.iter().map(decoder).collect()
}

fn decoder(kind: &Value) -> Option<Decoder> {
    let name = kind["name"].as_str()?.to_owned();
    let geometry = kind["sample"]["geometry"].as_str().map(str::to_owned);
    let packets = match kind["sample"]["packets"].as_array() {
        Some(packets) => packets.iter().map(|text| bytes(text.as_str()?)).collect::<Option<_>>()?,
        None => Vec::new(),
    };
    Some(Decoder { name, geometry, packets })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_read_and_another_one_is_not() {
        let text = r#"{"schema": "fullcount/kinds/1", "detectors": [
            {"name": "a", "sample": {"geometry": "g", "packets": ["00ff", ""]}},
            {"name": "b", "sample": null}]}"#;
        let all = read(text).unwrap();
        assert_eq!((all[0].name.as_str(), all[0].geometry.as_deref()), ("a", Some("g")));
        assert_eq!(all[0].packets, [vec![0, 255], vec![]]);
        assert_eq!(all[1], Decoder { name: "b".into(), geometry: None, packets: vec![] });
        for other in ["", "{}", r#"{"schema": "fullcount/catalogue/1"}"#, &text.replace("ff", "f")]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
