//! The configuration as it holds now, without secrets: what `CONFIG_GET` tells, and what a reload compares a new one with.
//!
//! Keys that take a restart stay as they are until then, so that a second reload still names them. Refuses nothing: all of it was
//! checked. Source: `docs/operations.md`, "Reload".

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

/// Shared by who tells it and who changes it; nothing on the path of data looks at it.
#[derive(Debug, Clone, Default)]
pub struct CurrentConfig(Arc<RwLock<Value>>);

/// Where the value of a key is, by the key with dots.
type Leaves = BTreeMap<String, (Vec<String>, Value)>;

impl CurrentConfig {
    /// This one.
    pub fn new(all: Value) -> CurrentConfig {
        CurrentConfig(Arc::new(RwLock::new(all)))
    }

    /// All of it.
    pub fn all(&self) -> Value {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The section or value at a key with dots; names of options may have dots themselves.
    pub fn get(&self, key: &str) -> Option<Value> {
        find(&self.0.read().unwrap_or_else(PoisonError::into_inner), key).cloned()
    }

    /// Keys whose values differ, defaults included.
    pub fn differ(&self, new: &CurrentConfig) -> Vec<String> {
        let (old, new) = (leaves(&self.all()), leaves(&new.all()));
        let value = |all: &Leaves, key: &String| all.get(key).map(|(_, value)| value.clone());
        let mut all: Vec<String> = old.keys().chain(new.keys()).cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|key| value(&old, key) != value(&new, key));
        all
    }

    /// Takes the values of the keys that `holds` says yes to.
    pub fn take(&self, new: &CurrentConfig, holds: impl Fn(&str) -> bool) {
        let new = leaves(&new.all());
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let same_place = |key: &String, path| new.get(key).is_some_and(|(at, _)| at == path);
        for (key, (path, _)) in leaves(&all).iter().filter(|(key, _)| holds(key)) {
            if !same_place(key, path) {
                remove(&mut all, path);
            }
        }
        for (_, (path, value)) in new.into_iter().filter(|(key, _)| holds(key)) {
            put(&mut all, &path, value);
        }
    }
}

fn find<'a>(at: &'a Value, key: &str) -> Option<&'a Value> {
    let inner = |(dot, _): (usize, &str)| find(at.get(&key[..dot])?, &key[dot + 1..]);
    at.get(key).or_else(|| key.match_indices('.').find_map(inner))
}

fn leaves(all: &Value) -> Leaves {
    fn flat(path: &[String], at: &Value, all: &mut Leaves) {
        match at {
            Value::Object(inner) => {
                for (name, value) in inner {
                    flat(&[path, std::slice::from_ref(name)].concat(), value, all);
                }
            }
            value => drop(all.insert(path.join("."), (path.to_vec(), value.clone()))),
        }
    }
    let mut found = Leaves::new();
    flat(&[], all, &mut found);
    found
}

fn remove(at: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(inner) = at.as_object_mut() else { return };
    match inner.get_mut(first) {
        Some(value) if !rest.is_empty() => remove(value, rest),
        _ => drop(inner.remove(first)),
    }
}

fn put(at: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return *at = value };
    if !at.is_object() {
        *at = Value::Object(serde_json::Map::new());
    }
    if let Some(inner) = at.as_object_mut() {
        put(inner.entry(first.clone()).or_insert(Value::Null), rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_found_also_where_names_have_dots() {
        let options = json!({"linger.ms": 5, "linger": {"us": 7, "ms.deep": 1}, "acks": "all"});
        let now = CurrentConfig::new(json!({"output": {"kafka": {"options": options}}, "a": [1]}));
        for (key, value) in [
            ("output.kafka.options.linger.ms", Some(json!(5))),
            ("output.kafka.options.linger.us", Some(json!(7))),
            ("output.kafka.options.linger.ms.deep", Some(json!(1))),
            ("output.kafka.options.acks", Some(json!("all"))),
            ("output.kafka.options.linger", Some(json!({"us": 7, "ms.deep": 1}))),
            ("a", Some(json!([1]))),
            ("a.0", None),
            ("", None),
            (".", None),
            ("output..kafka", None),
            ("output.kafka.options.linger.ms.", None),
        ] {
            assert_eq!(now.get(key), value, "{key}");
        }
        assert_eq!(now.get(&".".repeat(9000)), None);
    }

    #[test]
    fn only_keys_that_were_taken_are_other_ones_afterwards() {
        let now = CurrentConfig::new(json!({"log": {"level": "info", "file": "a"}, "e": {"q": 1}}));
        let new =
            CurrentConfig::new(json!({"log": {"level": "debug"}, "e": {"q": 2}, "o": {"x.y": 1}}));
        let all = ["e.q", "log.file", "log.level", "o.x.y"];
        assert_eq!(now.differ(&new), all);
        let shared = now.clone();
        now.take(&new, |key| key.starts_with("log."));
        assert_eq!(now.differ(&new), ["e.q", "o.x.y"], "named again until the restart");
        assert_eq!(shared.all(), json!({"log": {"level": "debug"}, "e": {"q": 1}}));
        now.take(&new, |_| true);
        assert_eq!(now.get("o.x.y"), Some(json!(1)));
        // The same value written as a table is no change.
        let nested = CurrentConfig::new(
            json!({"log": {"level": "debug"}, "e": {"q": 2}, "o": {"x": {"y": 1}}}),
        );
        assert!(now.differ(&nested).is_empty() && now.differ(&new).is_empty());
    }
}
