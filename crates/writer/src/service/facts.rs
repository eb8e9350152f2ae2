//! What is said of a run at its end: the metadata of its start as they came, and what the writer knows beside them.
//!
//! Control systems find their own keys again in wrdn: nothing of theirs is replaced. A key of ours that they have too is
//! below [`OURS`]. Metadata that are no JSON object are one text, below [`THEIRS`]; longer ones than [`MOST`] stay in the
//! file alone, since a message of a topic has its limit. Source: `docs/write.md`, "A run".

use serde_json::{Map, Value};

/// Where ours are that the start's metadata have too.
const OURS: &str = "fullcount";
/// Where metadata are that are no object.
const THEIRS: &str = "metadata";
/// How many bytes of metadata were left out.
const LEFT_OUT: &str = "metadata_bytes_left_out";
/// Bytes of metadata that are said again: a topic takes messages of 1 MB unless it is told otherwise.
const MOST: usize = 512 << 10;

/// The JSON text of both.
pub(super) fn with_metadata(metadata: Option<&str>, ours: &Value) -> String {
    let mut ours = ours.as_object().cloned().unwrap_or_default();
    let text = metadata.unwrap_or("").trim();
    if text.len() > MOST {
        ours.insert(LEFT_OUT.to_owned(), text.len().into());
        return Value::Object(ours).to_string();
    }
    if text.is_empty() {
        return Value::Object(ours).to_string();
    }
    let Ok(theirs) = serde_json::from_str::<Map<String, Value>>(text) else {
        let theirs = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        let key = free(&ours, THEIRS);
        ours.insert(key, theirs);
        return Value::Object(ours).to_string();
    };
    let (mut beside, mut below) = (Map::new(), Map::new());
    for (key, value) in ours {
        let place = if theirs.contains_key(&key) { &mut below } else { &mut beside };
        place.insert(key, value);
    }
    if !below.is_empty() {
        let taken = |key: &String| theirs.contains_key(key) || beside.contains_key(key);
        let key = numbered(OURS, taken);
        beside.insert(key, Value::Object(below));
    }
    if beside.is_empty() {
        return text.to_owned();
    }
    // Their text itself, not what was read of it: a number may have more digits than a number here.
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or("");
    let added = Value::Object(beside).to_string();
    let comma = if theirs.is_empty() { "" } else { "," };
    format!("{{{inside}{comma}{}", added.strip_prefix('{').unwrap_or("}"))
}

fn free(map: &Map<String, Value>, key: &str) -> String {
    numbered(key, |key| map.contains_key(key))
}

/// `key`, or with the first number that makes it another one than all that are `taken`.
fn numbered(key: &str, taken: impl Fn(&String) -> bool) -> String {
    let names = (2_u32..).map(|n| format!("{key}_{n}"));
    std::iter::once(key.to_owned()).chain(names).find(|key| !taken(key)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn both(metadata: &str) -> Value {
        let ours = json!({"path": "/data/a.nxs", "events": {"/entry/e": 3}});
        serde_json::from_str(&with_metadata(Some(metadata), &ours)).unwrap()
    }

    #[test]
    fn theirs_stay_and_ours_stand_beside() {
        let all = both(r#" {"sample": "water", "run": 7} "#);
        let wanted =
            json!({"sample": "water", "run": 7, "path": "/data/a.nxs", "events": {"/entry/e": 3}});
        assert_eq!(all, wanted);
        let ours = json!({"path": "/data/a.nxs", "events": {"/entry/e": 3}});
        for nothing in ["", "{}", "  "] {
            assert_eq!(both(nothing), ours, "{nothing:?}");
        }
        assert_eq!(with_metadata(None, &ours), ours.to_string());
    }

    #[test]
    fn a_key_of_both_is_theirs_and_ours_is_below_another() {
        let all = both(r#"{"path": "/proposal", "x": 1}"#);
        assert_eq!((&all["path"], &all["x"]), (&"/proposal".into(), &1.into()));
        assert_eq!(all["fullcount"], json!({"path": "/data/a.nxs"}));
        assert_eq!(all["events"], json!({"/entry/e": 3}));
        // Even that one is taken.
        let all = both(r#"{"path": 1, "events": 2, "fullcount": 3}"#);
        assert_eq!(
            (&all["path"], &all["events"], &all["fullcount"]),
            (&1.into(), &2.into(), &3.into())
        );
        assert_eq!(all["fullcount_2"]["path"], "/data/a.nxs");
        assert_eq!(all["fullcount_2"]["events"], json!({"/entry/e": 3}));
    }

    #[test]
    fn what_is_no_object_is_kept_as_it_is() {
        assert_eq!(both("free text")["metadata"], "free text");
        assert_eq!(both("[1, 2]")["metadata"], json!([1, 2]));
        assert_eq!(both(r#"{"a": "#)["metadata"], "{\"a\":");
        let deep = "[".repeat(100_000);
        assert_eq!(both(&deep)["metadata"], deep);
        assert_eq!(both("{\"a\": }")["path"], "/data/a.nxs");
    }

    #[test]
    fn numbers_keep_their_digits_and_long_texts_stay_in_the_file() {
        let ours = json!({"path": "p"});
        let text = r#"{"pi": 3.14159265358979323846264338, "n": 123456789012345678901234567890}"#;
        let said = with_metadata(Some(text), &ours);
        assert_eq!(said, format!("{},\"path\":\"p\"}}", text.strip_suffix('}').unwrap()));
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MOST));
        let said: Value = serde_json::from_str(&with_metadata(Some(&long), &ours)).unwrap();
        assert_eq!(said, json!({"path": "p", "metadata_bytes_left_out": long.len()}));
    }
}
