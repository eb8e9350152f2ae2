//! The configuration of da00: variables, of which each message is a row, and constants, which are written once.
//!
//! A constant has its values in the structure, or they come with the data: then its dataset is there from the beginning and is
//! empty until the first message that has it. Refuses variables without type and shape, and such constants of several
//! dimensions without a shape, since no dataset can be made while others read the file. Warns of constants without values, and of no variables.
//! Source: `docs/formats/flatbuffers.md` section 3.4, `docs/formats/nexus.md` section 7.

use serde_json::Value;

use super::NumberType;
use super::array::{Array, ArrayValues, Named, kind};
use super::budget::Budget;
use super::config::{Config, Made, described, names_attribute, text_attribute};
use super::error::{StructureError, StructureFault, fault};
use super::names::put;
use super::{Attribute, DatasetPlan, LatePlan, StreamModule, VariablePlan};

type Read<T> = Result<T, StructureError>;

impl Config<'_> {
    /// Names of dimensions.
    fn axes(&self) -> Read<Vec<String>> {
        match self.map.get("axes").or_else(|| self.map.get("dims")) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let text = |one: &Value| match one {
                    Value::String(s) => Ok(s.clone()),
                    other => fault(&self.at("axes"), kind(other, "the name of a dimension")),
                };
                list.iter().map(text).collect()
            }
            Some(other) => fault(&self.at("axes"), kind(other, "a list of names")),
        }
    }

    fn variable(&self) -> Read<VariablePlan> {
        let name = self.text("name", "the name of a variable in the message")?;
        let dtype = self.number(TYPES, None)?;
        let shape =
            self.shape(&["shape"], dtype, "the shape of the variable, a list of lengths")?;
        let (axes, attributes) = (self.axes()?, described(self)?);
        Ok(VariablePlan { name: name.to_owned(), dtype, shape, axes, attributes })
    }

    /// A constant whose values come with the data.
    fn late(&self, name: String) -> Read<LatePlan> {
        let dtype = self.number(TYPES, Some(NumberType::F64))?;
        let what = "the shape of the constant, a list of lengths: its values come with the data, and while others \
                    read the file no dataset can be added to it";
        let shape = match self.get(&["shape"]) {
            Some(_) => Some(self.shape(&["shape"], dtype, what)?),
            None if self.axes()?.len() > 1 => {
                return fault(&self.at("shape"), StructureFault::Missing(what));
            }
            None => None,
        };
        let shape = shape.filter(|shape| !shape.is_empty());
        self.warned.say(&self.at("data"), "is missing: the values are those of the first message");
        Ok(LatePlan { name, dtype, shape, attributes: described(self)? })
    }
}

/// Keys of a type.
const TYPES: &[&str] = &["data_type", "dtype", "type"];

/// The module da00.
pub(super) fn arrays(config: &Config<'_>) -> Read<Made> {
    let what = "objects with name, data_type and shape: while others read the file, no dataset can be added to it";
    let variables: Vec<VariablePlan> =
        config.objects("variables", what)?.iter().map(Config::variable).collect::<Read<_>>()?;
    if variables.is_empty() {
        // As the existing writer: the times say that there was something.
        let said = "names none: of each message only its time is written";
        config.warned.say(&config.at("variables"), said);
    }
    let (mut constants, mut late) = (Vec::new(), Vec::new());
    if let Some(title) = config.optional_text(&["title"])? {
        let value = Array::of_text(title);
        let plan = DatasetPlan { path: "title".into(), value, attributes: Vec::new() };
        constants.push((plan, config.at("title")));
    }
    for one in config.objects("constants", "objects with name, data_type and data")? {
        let name = one.text("name", "the name of a constant")?.to_owned();
        let Some((key, value)) = one.get(&["data", "values"]) else {
            late.push(one.late(name)?);
            continue;
        };
        let dtype = one.dtype(TYPES)?;
        let value = constant(value, dtype, config.budget, &one.at(key))?;
        let attributes = described(&one)?;
        constants.push((DatasetPlan { path: name, value, attributes }, one.at.clone()));
    }
    let mut attributes = Vec::new();
    for one in config.objects("attributes", "objects with name and data")? {
        let name = one.text("name", "the name of an attribute")?.to_owned();
        let Some((key, value)) = one.get(&["data", "values"]) else {
            return fault(&one.at("data"), StructureFault::Missing("the value of the attribute"));
        };
        let dtype = one.dtype(TYPES)?;
        let value = Array::read(value, dtype, NumberType::I64, config.budget, &one.at(key))?;
        put(&mut attributes, Attribute { name, value }, config.warned, &one.at);
    }
    signal_and_axes(&mut attributes, &variables);
    let (chunk, cue_interval) = (config.chunk(1)?, config.cues()?);
    Ok(Made {
        module: StreamModule::Arrays { variables, late, chunk, cue_interval },
        constants,
        attributes,
    })
}

/// Names the signal, if the structure does not, and gives it time as its first dimension: one row a message.
fn signal_and_axes(attributes: &mut Vec<Attribute>, variables: &[VariablePlan]) {
    let named = attributes.iter().find(|a| a.name == "signal").and_then(|a| a.value.text());
    let first = variables.first().map(|variable| &variable.name[..]);
    let Some(signal) = named.or(first).map(str::to_owned) else { return };
    if named.is_none() {
        attributes.push(text_attribute("signal", &signal));
    }
    let Some(signal) = variables.iter().find(|v| v.name == signal) else { return };
    let time = || vec!["time".to_owned()];
    match attributes.iter_mut().find(|a| a.name == "axes") {
        Some(Attribute { value: Array { shape, values: ArrayValues::Text(axes) }, .. }) => {
            if axes.first().is_none_or(|first| first != "time") {
                axes.insert(0, "time".to_owned());
                *shape = vec![axes.len()];
            }
        }
        Some(_) => {}
        None => {
            let unnamed = signal.axes.len() != signal.shape.len();
            let rest = if unnamed {
                vec![".".to_owned(); signal.shape.len()]
            } else {
                signal.axes.clone()
            };
            attributes.push(names_attribute("axes", [time(), rest].concat()));
        }
    }
}

/// Values of a constant: a list, or {first, last, size} for evenly spaced ones.
fn constant(value: &Value, dtype: Option<Named>, budget: &Budget, at: &str) -> Read<Array> {
    let Value::Object(map) = value else {
        return Array::read(value, dtype, NumberType::I64, budget, at);
    };
    let number = |key: &str| map.get(key).and_then(Value::as_f64);
    let size = map.get("size").and_then(Value::as_u64);
    let (Some(first), Some(last), Some(size @ 2..)) = (number("first"), number("last"), size)
    else {
        return fault(
            at,
            kind(value, "a list, or an object with first, last and size (at least 2)"),
        );
    };
    match dtype.unwrap_or(Named::Number(NumberType::F64)) {
        Named::Number(dtype) => Array::spaced((first, last, size), dtype, budget, at),
        Named::Text => {
            let expected = "a type of numbers, for first, last and size";
            fault(at, StructureFault::Kind { found: "text".into(), expected })
        }
    }
}
