//! The configuration of one module: which keys it has and what they must be.
//!
//! Keys that are not listed in `docs/write.md` are left alone, since structures carry notes for other programs.
//! Refuses missing topics and sources, numbers outside their range, unknown types.

use serde_json::{Map, Value};

use super::array::{Array, Dtype, Named, Values, kind, named};
use super::budget::{Budget, within};
use super::error::{Fault, StructureError, fault};
use super::{Attribute, DatasetPlan, EventKind, Limits, LogKind, Module, VariablePlan};

/// Events in a chunk: as the nexus sink and the existing writer have it.
const CHUNK_EVENTS: usize = 1 << 20;
/// Events between two cues.
const CUE_EVENTS: u64 = 100_000_000;
/// Entries in a chunk of a log.
const CHUNK_LOG: usize = 1024;
/// Dimensions of a row: HDF5 holds 32, and the rows themselves are the first.
const DIMENSIONS: usize = 31;

/// The object `config` of a module, and where it is.
pub(super) struct Config<'a> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) at: String,
    pub(super) limits: &'a Limits,
    pub(super) budget: &'a Budget,
}

type Read<T> = Result<T, StructureError>;

impl<'a> Config<'a> {
    fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    /// The first of `keys` that is there and not null.
    fn get(&self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        keys.iter().find_map(|&key| {
            let value = self.map.get(key)?;
            (!value.is_null()).then_some((key, value))
        })
    }

    /// A text that must be there and not be empty.
    pub(super) fn text(&self, key: &'static str, what: &'static str) -> Read<&'a str> {
        match self.map.get(key) {
            None | Some(Value::Null) => fault(&self.at(key), Fault::Missing(what)),
            Some(Value::String(s)) if !s.is_empty() => Ok(s),
            Some(other) => fault(&self.at(key), kind(other, what)),
        }
    }

    pub(super) fn optional_text(&self, keys: &[&'static str]) -> Read<Option<&'a str>> {
        match self.get(keys) {
            None => Ok(None),
            Some((_, Value::String(s))) => Ok(Some(s)),
            Some((key, other)) => fault(&self.at(key), kind(other, "text")),
        }
    }

    /// A name of a Kafka topic: what brokers take.
    pub(super) fn topic(&self) -> Read<String> {
        let topic = self.text("topic", "the name of a Kafka topic")?;
        if super::super::is_topic(topic) {
            Ok(topic.to_owned())
        } else {
            let expected = "the name of a Kafka topic: 1 to 249 letters, digits, '.', '_' and '-'";
            let found = format!("\"{}\"", topic.chars().take(40).collect::<String>());
            fault(&self.at("topic"), Fault::Kind { found, expected })
        }
    }

    pub(super) fn dtype(&self, keys: &[&'static str]) -> Read<Option<Named>> {
        let Some(text) = self.optional_text(keys)? else { return Ok(None) };
        let at = self.get(keys).map_or(String::new(), |(key, _)| self.at(key));
        named(text).map(Some).ok_or_else(|| StructureError { at, fault: unknown_dtype(text) })
    }

    fn number(&self, keys: &[&'static str], default: Option<Dtype>) -> Read<Dtype> {
        match (self.dtype(keys)?, default) {
            (Some(Named::Number(dtype)), _) | (None, Some(dtype)) => Ok(dtype),
            (Some(Named::Text), _) => {
                let at = self.get(keys).map_or(String::new(), |(key, _)| self.at(key));
                fault(&at, Fault::Kind { found: "text".into(), expected: "a type of numbers" })
            }
            (None, None) => fault(&self.at(keys[0]), Fault::Missing("the type of the numbers")),
        }
    }

    fn count(&self, key: &'static str, what: &'static str) -> Read<Option<u64>> {
        // Multi-dimensional chunks are given as lists; what counts here is how many messages.
        let value = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) if !list.is_empty() => &list[0],
            Some(value) => value,
        };
        match value.as_u64() {
            Some(n @ 1..) => Ok(Some(n)),
            _ => fault(&self.at(key), kind(value, what)),
        }
    }

    /// Rows of a chunk; the widest column that has so many has values of `each` bytes.
    fn chunk(&self, each: usize) -> Read<Option<usize>> {
        let Some(rows) = self.count("chunk_size", "a whole number, at least 1")? else {
            return Ok(None);
        };
        let (bytes, what) = (rows.saturating_mul(each as u64), format!("a chunk of {rows}"));
        within(self.limits.chunk, bytes, what, &self.at("chunk_size"))?;
        Ok(Some(rows as usize))
    }

    /// Refuses rows of this shape that are above the limit of one constant.
    fn bounded(&self, shape: &[usize], dtype: Dtype, at: &str) -> Read<()> {
        if shape.len() > DIMENSIONS {
            let what = format!("an array of {} dimensions", shape.len());
            return fault(at, Fault::Limit { what, limit: DIMENSIONS });
        }
        let bytes = shape.iter().try_fold(dtype.bytes() as u64, |n, &d| n.checked_mul(d as u64));
        let bytes = bytes.unwrap_or(u64::MAX);
        within(self.limits.constant, bytes, format!("an array of {shape:?}"), at)
    }

    fn cues(&self) -> Read<Option<u64>> {
        self.count("cue_interval", "a whole number, at least 1")
    }

    fn shape(&self, keys: &[&'static str], dtype: Dtype, what: &'static str) -> Read<Vec<usize>> {
        let Some((key, value)) = self.get(keys) else {
            return fault(&self.at(keys[0]), Fault::Missing(what));
        };
        let at = self.at(key);
        let Value::Array(list) = value else { return fault(&at, kind(value, what)) };
        let length = |one: &Value| match one.as_u64() {
            Some(n @ 1..) => Ok(n as usize),
            _ => fault(&at, kind(one, "a length, at least 1")),
        };
        let shape: Vec<usize> = list.iter().map(length).collect::<Read<_>>()?;
        self.bounded(&shape, dtype, &at)?;
        Ok(shape)
    }

    fn variable(&self) -> Read<VariablePlan> {
        let name = self.text("name", "the name of a variable in the message")?;
        let dtype = self.number(&["data_type", "dtype", "type"], None)?;
        let shape =
            self.shape(&["shape"], dtype, "the shape of the variable, a list of lengths")?;
        let axes = match self.map.get("axes") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => {
                let text = |one: &Value| match one {
                    Value::String(s) => Ok(s.clone()),
                    other => fault(&self.at("axes"), kind(other, "the name of a dimension")),
                };
                list.iter().map(text).collect::<Read<_>>()?
            }
            Some(other) => return fault(&self.at("axes"), kind(other, "a list of names")),
        };
        let attributes = described(self)?;
        Ok(VariablePlan { name: name.to_owned(), dtype, shape, axes, attributes })
    }

    /// The objects of a list, each as a configuration of its own.
    fn objects(&self, key: &'static str, what: &'static str) -> Read<Vec<Config<'a>>> {
        let list = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return fault(&self.at(key), kind(other, what)),
        };
        let each = |(i, one): (usize, &'a Value)| {
            let at = format!("{}.{key}[{i}]", self.at);
            match one {
                Value::Object(map) => {
                    Ok(Config { map, at, limits: self.limits, budget: self.budget })
                }
                other => fault(&at, kind(other, what)),
            }
        };
        list.iter().enumerate().map(each).collect()
    }
}

/// A type that nobody knows; of a long text only its beginning is said.
pub(super) fn unknown_dtype(text: &str) -> Fault {
    Fault::Dtype(text.chars().take(40).collect())
}

/// A module with what it makes beside its columns: constants and attributes of the enclosing group.
pub(super) struct Made {
    pub(super) module: Module,
    /// Names are relative to the group, with where each stands.
    pub(super) constants: Vec<(DatasetPlan, String)>,
    pub(super) attributes: Vec<Attribute>,
}

fn plain(module: Module) -> Made {
    Made { module, constants: Vec::new(), attributes: Vec::new() }
}

fn text_attribute(name: &str, value: &str) -> Attribute {
    Attribute { name: name.to_owned(), value: Array::of_text(value) }
}

fn names_attribute(name: &str, values: Vec<String>) -> Attribute {
    let value = Array { shape: vec![values.len()], values: Values::Text(values) };
    Attribute { name: name.to_owned(), value }
}

/// The stream module `name`; `None` if there is no such.
pub(super) fn module(name: &str, config: &Config<'_>) -> Read<Option<Made>> {
    let types = &["dtype", "type", "data_type"];
    let units = || {
        let found = config.optional_text(&["value_units", "units", "unit"])?;
        Ok::<_, StructureError>(found.map(str::to_owned))
    };
    // Beside the values every stream but one of events has times of 8 bytes.
    let time = Dtype::I64.bytes();
    Ok(Some(match name {
        "ev44" | "ev42" => plain(Module::Events {
            kind: if name == "ev44" { EventKind::Ev44 } else { EventKind::Ev42 },
            chunk: config.chunk(Dtype::I32.bytes())?.unwrap_or(CHUNK_EVENTS),
            cue_interval: config.cues()?.unwrap_or(CUE_EVENTS),
            pixels: None,
        }),
        "f144" | "f142" => {
            let dtype = config.number(types, Some(Dtype::F64))?;
            let array = match config.count("array_size", "a whole number, at least 1")? {
                Some(n) => {
                    let n = usize::try_from(n).unwrap_or(usize::MAX);
                    config.bounded(&[n], dtype, &config.at("array_size"))?;
                    Some(n).filter(|&n| n > 1)
                }
                None => None,
            };
            plain(Module::Log {
                kind: if name == "f144" { LogKind::F144 } else { LogKind::F142 },
                dtype,
                array,
                units: units()?,
                chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG),
                cue_interval: config.cues()?,
            })
        }
        "da00" => arrays(config)?,
        "hs01" => histogram(config)?,
        "al00" => plain(Module::Alarms),
        "ep01" => plain(Module::Connections),
        "se00" => plain(Module::Samples {
            dtype: config.number(types, Some(Dtype::I64))?,
            units: units()?,
            chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG),
        }),
        "tdct" => plain(Module::Chopper { chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG) }),
        "ad00" => {
            let dtype = config.number(types, Some(Dtype::F64))?;
            let what = "the shape of an image, [rows, columns]";
            plain(Module::Images {
                dtype,
                shape: config.shape(&["array_size", "shape"], dtype, what)?,
                chunk: config.chunk(1)?,
                cue_interval: config.cues()?,
            })
        }
        _ => return Ok(None),
    }))
}

fn arrays(config: &Config<'_>) -> Read<Made> {
    let what = "objects with name, data_type and shape: while others read the file, no dataset can be added to it";
    let variables: Vec<VariablePlan> =
        config.objects("variables", what)?.iter().map(Config::variable).collect::<Read<_>>()?;
    if variables.is_empty() {
        return fault(&config.at("variables"), Fault::Missing(what));
    }
    let mut constants = Vec::new();
    if let Some(title) = config.optional_text(&["title"])? {
        let value = Array::of_text(title);
        let plan = DatasetPlan { path: "title".into(), value, attributes: Vec::new() };
        constants.push((plan, config.at("title")));
    }
    for one in config.objects("constants", "objects with name, data_type and data")? {
        let name = one.text("name", "the name of a constant")?.to_owned();
        let Some((key, value)) = one.get(&["data", "values"]) else {
            return fault(&one.at("data"), Fault::Missing("the values of the constant"));
        };
        let dtype = one.dtype(&["data_type", "dtype", "type"])?;
        let value = constant(value, dtype, config.budget, &one.at(key))?;
        let attributes = described(&one)?;
        constants.push((DatasetPlan { path: name, value, attributes }, one.at.clone()));
    }
    let mut attributes = Vec::new();
    for one in config.objects("attributes", "objects with name and data")? {
        let name = one.text("name", "the name of an attribute")?.to_owned();
        let Some((key, value)) = one.get(&["data", "values"]) else {
            return fault(&one.at("data"), Fault::Missing("the value of the attribute"));
        };
        let dtype = one.dtype(&["data_type", "dtype", "type"])?;
        let value = Array::read(value, dtype, Dtype::I64, config.budget, &one.at(key))?;
        attributes.push(Attribute { name, value });
    }
    let named = attributes.iter().find(|a| a.name == "signal").and_then(|a| a.value.text());
    let signal = named.unwrap_or(&variables[0].name).to_owned();
    if named.is_none() {
        attributes.push(text_attribute("signal", &signal));
    }
    if let Some(signal) = variables.iter().find(|v| v.name == signal) {
        // One row a message: time is the first dimension of every variable.
        let time = || vec!["time".to_owned()];
        match attributes.iter_mut().find(|a| a.name == "axes") {
            Some(Attribute { value: Array { shape, values: Values::Text(axes) }, .. }) => {
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
    let module =
        Module::Arrays { variables, chunk: config.chunk(1)?, cue_interval: config.cues()? };
    Ok(Made { module, constants, attributes })
}

/// Values of a constant: a list, or {first, last, size} for evenly spaced ones.
fn constant(value: &Value, dtype: Option<Named>, budget: &Budget, at: &str) -> Read<Array> {
    let Value::Object(map) = value else {
        return Array::read(value, dtype, Dtype::I64, budget, at);
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
    match dtype.unwrap_or(Named::Number(Dtype::F64)) {
        Named::Number(dtype) => Array::spaced((first, last, size), dtype, budget, at),
        Named::Text => {
            let expected = "a type of numbers, for first, last and size";
            fault(at, Fault::Kind { found: "text".into(), expected })
        }
    }
}

/// Unit, label and source as attributes.
fn described(config: &Config<'_>) -> Read<Vec<Attribute>> {
    let mut attributes = Vec::new();
    let pairs: [(&str, &[&'static str]); 3] =
        [("units", &["unit", "units"]), ("long_name", &["label"]), ("source", &["source"])];
    for (name, keys) in pairs {
        if let Some(text) = config.optional_text(keys)? {
            attributes.push(text_attribute(name, text));
        }
    }
    Ok(attributes)
}

fn histogram(config: &Config<'_>) -> Read<Made> {
    let dtype = config.number(&["data_type", "dtype", "type"], Some(Dtype::F64))?;
    let errors = match config.get(&["error_type"]) {
        Some(_) => Some(config.number(&["error_type"], None)?),
        None => None,
    };
    // scippnexus makes variances of the errors, which integers cannot have: the whole file would not load.
    let whole = !matches!(dtype, Dtype::F32 | Dtype::F64);
    let dtype = if errors.is_some() && whole { Dtype::F64 } else { dtype };
    let what = "the dimensions: objects with size, label, unit, edges and dataset_name";
    let (mut shape, mut axes, mut constants) = (Vec::new(), vec!["time".to_owned()], Vec::new());
    for (i, one) in config.objects("shape", what)?.iter().enumerate() {
        let Some(size) = one.count("size", "a number of bins, at least 1")? else {
            return fault(&one.at("size"), Fault::Missing("the number of bins"));
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        config.bounded(&[size], dtype, &one.at("size"))?;
        shape.push(size);
        let name = one.optional_text(&["dataset_name", "label"])?;
        let Some((key, edges)) = one.get(&["edges"]) else {
            axes.push(".".to_owned());
            continue;
        };
        let name = name.map_or_else(|| format!("axis_{i}"), str::to_owned);
        let double = Some(Named::Number(Dtype::F64));
        let value = Array::read(edges, double, Dtype::F64, config.budget, &one.at(key))?;
        if value.shape != [size + 1] && value.shape != [size] {
            let found = format!("a list of {:?}", value.shape);
            let expected = "size + 1 bin edges, or size bin centres";
            return fault(&one.at(key), Fault::Kind { found, expected });
        }
        let attributes = described(one)?;
        constants.push((DatasetPlan { path: name.clone(), value, attributes }, one.at.clone()));
        axes.push(name);
    }
    if shape.is_empty() {
        return fault(&config.at("shape"), Fault::Missing(what));
    }
    let widest = errors.map_or(dtype, |e| if e.bytes() > dtype.bytes() { e } else { dtype });
    config.bounded(&shape, widest, &config.at("shape"))?;
    let attributes = vec![text_attribute("signal", "signal"), names_attribute("axes", axes)];
    let module = Module::Histogram { dtype, errors, shape, chunk: config.chunk(1)? };
    Ok(Made { module, constants, attributes })
}
