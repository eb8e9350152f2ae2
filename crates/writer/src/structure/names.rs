//! Names, and the attributes that have them.
//!
//! Refuses names that HDF5 or a log cannot hold, more attributes than there may be, and an `NX_class` that is no text.
//! Warns of two of one name, of which the last holds, of units that say nothing, and of vectors that are called text. Source: `docs/formats/nexus.md` section 7.

use fullcount_core::text::is_control;
use serde_json::{Map, Value};

use super::NumberType;
use super::array::{Array, kind, named};
use super::budget::Budget;
use super::config::unknown_dtype;
use super::error::{StructureError, StructureFault, fault};
use super::odd;
use super::warnings::Warned;
use super::{Attribute, StructureLimits};

type Read<T> = Result<T, StructureError>;

/// True for a name that is one part of a path.
pub(super) fn is_name(name: &str) -> bool {
    let strange = |c: char| c == '/' || is_control(c);
    (1..=255).contains(&name.len()) && !name.contains(strange) && !matches!(name, "." | "..")
}

/// The name of an object.
pub(super) fn name_of<'v>(map: &'v Map<String, Value>, at: &str) -> Read<&'v str> {
    let at = format!("{at}.name");
    match map.get("name") {
        None | Some(Value::Null) => fault(&at, StructureFault::Missing("a name")),
        Some(Value::String(name)) if is_name(name) => Ok(name),
        Some(Value::String(name)) => {
            fault(&at, StructureFault::Name(name.chars().take(60).collect()))
        }
        Some(other) => fault(&at, kind(other, "a name")),
    }
}

/// The values of a dataset or an attribute, and the key that they stand under.
pub(super) fn values_of(map: &Map<String, Value>) -> (&'static str, Option<&Value>) {
    match (map.get("values"), map.get("value")) {
        (None, Some(value)) => ("value", Some(value)),
        (values, _) => ("values", values),
    }
}

/// True for units that are no units: they are left out, with a warning. Those that are an empty text are written so, with one.
fn is_without_units(name: &str, value: Option<&Value>, warned: &Warned, at: &str) -> bool {
    let nothing = match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    };
    if name != "units" {
        return false;
    }
    if nothing {
        warned.say(at, "units without a text are left out");
    } else if value.and_then(Value::as_str) == Some("") {
        warned.say(at, EMPTY_UNITS);
    }
    nothing
}

/// What is said of units that are an empty text.
pub(super) const EMPTY_UNITS: &str = "units are empty and written so: without dimension";

/// Adds an attribute. Of two of one name the last holds, in the place of the first.
pub(super) fn put(all: &mut Vec<Attribute>, attribute: Attribute, warned: &Warned, at: &str) {
    match all.iter_mut().find(|a| a.name == attribute.name) {
        None => all.push(attribute),
        Some(earlier) => {
            let name = &attribute.name;
            warned
                .say(at, &format!("the attribute \"{name}\" is there twice: this one is written"));
            *earlier = attribute;
        }
    }
}

/// Attributes: an object of name: value, or a list of {name, values, dtype}; never mixed.
pub(super) fn attributes(
    map: &Map<String, Value>,
    limits: &StructureLimits,
    budget: &Budget,
    warned: &Warned,
    at: &str,
) -> Read<Vec<Attribute>> {
    let at = format!("{at}.attributes");
    let mut all: Vec<Attribute> = Vec::new();
    let given = map.get("attributes");
    let many = match given {
        Some(Value::Object(pairs)) => pairs.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    };
    if many > limits.attributes {
        let what = format!("{many} attributes");
        return fault(&at, StructureFault::Limit { what, limit: limits.attributes });
    }
    match given {
        None | Some(Value::Null) => {}
        Some(Value::Object(pairs)) => {
            for (name, value) in pairs {
                if !is_name(name) {
                    return fault(&at, StructureFault::Name(name.chars().take(60).collect()));
                }
                let at = format!("{at}.{name}");
                if is_without_units(name, Some(value), warned, &at) {
                    continue;
                }
                let value = Array::read(value, None, NumberType::I64, budget, &at)?;
                budget.attribute(name, &at)?;
                all.push(Attribute { name: name.clone(), value });
            }
        }
        Some(Value::Array(list)) => {
            for (i, one) in list.iter().enumerate() {
                let at = format!("{at}[{i}]");
                let Value::Object(one) = one else {
                    return fault(&at, kind(one, "an object with name, values and dtype"));
                };
                let name = name_of(one, &at)?;
                let (key, value) = values_of(one);
                let here = format!("{at}.{key}");
                if is_without_units(name, value, warned, &here) {
                    continue;
                }
                let Some(value) = value else {
                    return fault(&here, StructureFault::Missing("the value of the attribute"));
                };
                let dtype = match one.get("dtype").or_else(|| one.get("type")) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(text)) => match named(text) {
                        Some(dtype) => Some(dtype),
                        None => return fault(&format!("{at}.dtype"), unknown_dtype(text)),
                    },
                    Some(other) => return fault(&format!("{at}.dtype"), kind(other, "a type")),
                };
                let numbers = odd::computed(name, value, dtype);
                if numbers.is_some() {
                    warned.say(&here, "numbers that are called text are written as numbers");
                }
                let value = Array::read(value, numbers.or(dtype), NumberType::I64, budget, &here)?;
                budget.attribute(name, &at)?;
                put(&mut all, Attribute { name: name.to_owned(), value }, warned, &at);
            }
        }
        Some(other) => return fault(&at, kind(other, "an object, or a list of objects")),
    }
    if let Some(class) = all.iter_mut().find(|a| a.name == "NX_class")
        && class.value.text().is_none()
    {
        return fault(
            &at,
            StructureFault::Kind { found: "no text".into(), expected: "NX_class as one text" },
        );
    }
    Ok(all)
}
