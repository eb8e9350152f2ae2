//! Which crate may use which: one table, compared with `cargo metadata`. Dev-dependencies are free.
//!
//! Refuses a crate that uses one that stands behind it, or is not in the table, and a table whose text is not that of
//! `docs/architecture.md`. Source: docs/architecture.md, "The house".

use std::process::Command;

use serde_json::Value;

use super::Host;
use crate::place;
use crate::tally::Tally;

/// A crate uses only those in front of it.
const ORDER: &str = "instructions  core  log  spead  stcp  child  broker  testing  io  detect  messages  sim  spool  nexus  kafka  web  export  writer  engine  lab  fullcount";

/// Compares the table with what is.
pub fn check(_: &Host) -> Tally {
    let wrong = match metadata() {
        Ok(metadata) => wrong(&metadata),
        Err(why) => vec![why],
    };
    let page = std::fs::read_to_string(place::root().join("docs/architecture.md"));
    let mut tally = match page.unwrap_or_default().contains(ORDER) {
        true => Tally::pass(),
        false => Tally::fail(format!("docs/architecture.md has not this line: {ORDER}")),
    };
    tally += if wrong.is_empty() { Tally::pass() } else { Tally::fail(wrong.join("; ")) };
    tally
}

fn metadata() -> Result<Value, String> {
    let words = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let out = Command::new("cargo").args(words).current_dir(place::root()).output();
    let out = out.map_err(|e| format!("cargo metadata: {e}"))?;
    serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

/// The program's own crates, `fullcount-io` as `io`; others as they are called.
fn short(name: &str) -> &str {
    name.strip_prefix("fullcount-").unwrap_or(name)
}

fn wrong(metadata: &Value) -> Vec<String> {
    let order: Vec<&str> = ORDER.split_whitespace().collect();
    let place = |name: &str| order.iter().position(|n| *n == short(name));
    let empty = Vec::new();
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap_or(&empty) {
        let name = package["name"].as_str().unwrap_or_default();
        let path = package["manifest_path"].as_str().unwrap_or_default();
        if !path.contains("/crates/") {
            continue;
        }
        let Some(own) = place(name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        for used in list(&package["dependencies"]) {
            let ours = used["path"].is_string() && used["kind"] != "dev";
            let to = used["name"].as_str().unwrap_or_default();
            if ours && place(to).is_none_or(|at| at >= own) {
                wrong.push(format!("{name} uses {to}, which does not stand in front of it"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_arrow_that_points_back_is_found() {
        let package = |name: &str, uses: &str, kind: Option<&str>| {
            json!({"name": name, "manifest_path": "/x/crates/y/Cargo.toml",
                   "dependencies": [{"name": uses, "path": "/x", "kind": kind}]})
        };
        let of = |package: Value| wrong(&json!({"packages": [package]})).len();
        assert_eq!(of(package("fullcount-io", "fullcount-core", None)), 0);
        assert_eq!(of(package("fullcount-core", "fullcount-io", None)), 1);
        assert_eq!(of(package("fullcount-core", "fullcount-io", Some("dev"))), 0);
        assert_eq!(of(package("fullcount-new", "fullcount-core", None)), 1);
    }
}
