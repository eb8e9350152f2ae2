//! The configuration of one module: which keys it has and what they must be.
//!
//! Keys that are not listed in `docs/write.md` are left alone, since structures carry notes for other programs.
//! Refuses missing topics and sources, numbers outside their range, unknown types. What da00 has is in `arrays.rs`.

use serde_json::{Map, Value};

use super::NumberType;
use super::array::{Array, ArrayValues, Named, kind, named};
use super::arrays::arrays;
use super::budget::{Budget, within};
use super::error::{StructureError, StructureFault, fault};
use super::names::EMPTY_UNITS;
use super::warnings::Warned;
use super::{Attribute, DatasetPlan, EventKind, LogKind, StreamModule, StructureLimits};

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
    pub(super) limits: &'a StructureLimits,
    pub(super) budget: &'a Budget,
    pub(super) warned: &'a Warned,
}

type Read<T> = Result<T, StructureError>;

impl<'a> Config<'a> {
    pub(super) fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    /// The first of `keys` that is there and not null.
    pub(super) fn get(&self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        keys.iter().find_map(|&key| {
            let value = self.map.get(key)?;
            (!value.is_null()).then_some((key, value))
        })
    }

    /// A text that must be there and not be empty.
    pub(super) fn text(&self, key: &'static str, what: &'static str) -> Read<&'a str> {
        match self.map.get(key) {
            None | Some(Value::Null) => fault(&self.at(key), StructureFault::Missing(what)),
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
            fault(&self.at("topic"), StructureFault::Kind { found, expected })
        }
    }

    pub(super) fn dtype(&self, keys: &[&'static str]) -> Read<Option<Named>> {
        let Some(text) = self.optional_text(keys)? else { return Ok(None) };
        let at = self.get(keys).map_or(String::new(), |(key, _)| self.at(key));
        named(text).map(Some).ok_or_else(|| StructureError { at, fault: unknown_dtype(text) })
    }

    pub(super) fn number(
        &self,
        keys: &[&'static str],
        default: Option<NumberType>,
    ) -> Read<NumberType> {
        match (self.dtype(keys)?, default) {
            (Some(Named::Number(dtype)), _) | (None, Some(dtype)) => Ok(dtype),
            (Some(Named::Text), _) => {
                let at = self.get(keys).map_or(String::new(), |(key, _)| self.at(key));
                fault(
                    &at,
                    StructureFault::Kind { found: "text".into(), expected: "a type of numbers" },
                )
            }
            (None, None) => {
                fault(&self.at(keys[0]), StructureFault::Missing("the type of the numbers"))
            }
        }
    }

    /// A switch, if it is there.
    pub(super) fn switch(&self, key: &'static str) -> Read<Option<bool>> {
        match self.get(&[key]) {
            None => Ok(None),
            Some((_, Value::Bool(on))) => Ok(Some(*on)),
            Some((_, other)) => fault(&self.at(key), kind(other, "true or false")),
        }
    }

    fn count(&self, key: &'static str, what: &'static str) -> Read<Option<u64>> {
        // Multi-dimensional chunks are given as lists; what counts here is how many messages.
        let value = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) if !list.is_empty() => &list[0],
            Some(value) => value,
        };
        // Control systems send some of them as text.
        let spelt = value.as_str().and_then(|text| text.parse().ok()).filter(|&n| n > 0);
        if let Some(n) = spelt {
            self.warned.say(&self.at(key), &format!("is text: the number {n} is taken"));
            return Ok(Some(n));
        }
        match value.as_u64() {
            Some(n @ 1..) => Ok(Some(n)),
            _ => fault(&self.at(key), kind(value, what)),
        }
    }

    /// Rows of a chunk; the widest column that has so many has values of `each` bytes.
    pub(super) fn chunk(&self, each: usize) -> Read<Option<usize>> {
        let Some(rows) = self.count("chunk_size", "a whole number, at least 1")? else {
            return Ok(None);
        };
        let (bytes, what) = (rows.saturating_mul(each as u64), format!("a chunk of {rows}"));
        within(self.limits.chunk, bytes, what, &self.at("chunk_size"))?;
        Ok(Some(rows as usize))
    }

    /// Refuses rows of this shape that are above the limit of one constant.
    fn bounded(&self, shape: &[usize], dtype: NumberType, at: &str) -> Read<()> {
        if shape.len() > DIMENSIONS {
            let what = format!("an array of {} dimensions", shape.len());
            return fault(at, StructureFault::Limit { what, limit: DIMENSIONS });
        }
        let bytes = shape.iter().try_fold(dtype.bytes() as u64, |n, &d| n.checked_mul(d as u64));
        let bytes = bytes.unwrap_or(u64::MAX);
        within(self.limits.constant, bytes, format!("an array of {shape:?}"), at)
    }

    pub(super) fn cues(&self) -> Read<Option<u64>> {
        self.count("cue_interval", "a whole number, at least 1")
    }

    pub(super) fn shape(
        &self,
        keys: &[&'static str],
        dtype: NumberType,
        what: &'static str,
    ) -> Read<Vec<usize>> {
        let Some((key, value)) = self.get(keys) else {
            return fault(&self.at(keys[0]), StructureFault::Missing(what));
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

    /// The objects of a list, each as a configuration of its own.
    pub(super) fn objects(&self, key: &'static str, what: &'static str) -> Read<Vec<Config<'a>>> {
        let list = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(other) => return fault(&self.at(key), kind(other, what)),
        };
        let each = |(i, one): (usize, &'a Value)| {
            let at = format!("{}.{key}[{i}]", self.at);
            match one {
                Value::Object(map) => {
                    let (limits, budget, warned) = (self.limits, self.budget, self.warned);
                    Ok(Config { map, at, limits, budget, warned })
                }
                other => fault(&at, kind(other, what)),
            }
        };
        list.iter().enumerate().map(each).collect()
    }
}

/// A type that nobody knows; of a long text only its beginning is said.
pub(super) fn unknown_dtype(text: &str) -> StructureFault {
    StructureFault::Dtype(text.chars().take(40).collect())
}

/// A module with what it makes beside its columns: constants and attributes of the enclosing group.
pub(super) struct Made {
    pub(super) module: StreamModule,
    /// Names are relative to the group, with where each stands.
    pub(super) constants: Vec<(DatasetPlan, String)>,
    pub(super) attributes: Vec<Attribute>,
}

fn plain(module: StreamModule) -> Made {
    Made { module, constants: Vec::new(), attributes: Vec::new() }
}

pub(super) fn text_attribute(name: &str, value: &str) -> Attribute {
    Attribute { name: name.to_owned(), value: Array::of_text(value) }
}

pub(super) fn names_attribute(name: &str, values: Vec<String>) -> Attribute {
    let value = Array { shape: vec![values.len()], values: ArrayValues::Text(values) };
    Attribute { name: name.to_owned(), value }
}

/// The stream module `name`; `None` if there is no such.
pub(super) fn module(name: &str, config: &Config<'_>) -> Read<Option<Made>> {
    let types = &["dtype", "type", "data_type"];
    let units = || {
        let keys = &["value_units", "units", "unit"];
        let found = config.optional_text(keys)?;
        if let (Some(""), Some((key, _))) = (found, config.get(keys)) {
            config.warned.say(&config.at(key), EMPTY_UNITS);
        }
        Ok::<_, StructureError>(found.map(str::to_owned))
    };
    // Beside the values every stream but one of events has times of 8 bytes.
    let time = NumberType::I64.bytes();
    Ok(Some(match name {
        "ev44" | "ev43" | "ev42" => plain(StreamModule::Events {
            kind: match name {
                "ev44" => EventKind::Ev44,
                "ev43" => EventKind::Ev43,
                _ => EventKind::Ev42,
            },
            chunk: config.chunk(NumberType::I32.bytes())?.unwrap_or(CHUNK_EVENTS),
            cue_interval: config.cues()?.unwrap_or(CUE_EVENTS),
            pixels: None,
        }),
        "f144" | "f142" | "ns10" => {
            let dtype = config.number(types, Some(NumberType::F64))?;
            let array = match config.count("array_size", "a whole number, at least 1")? {
                Some(n) => {
                    let n = usize::try_from(n).unwrap_or(usize::MAX);
                    config.bounded(&[n], dtype, &config.at("array_size"))?;
                    // An entry of the cache is one number.
                    Some(n).filter(|&n| n > 1 && name != "ns10")
                }
                None => None,
            };
            plain(StreamModule::Log {
                kind: match name {
                    "f144" => LogKind::F144,
                    "ns10" => LogKind::Ns10,
                    _ => LogKind::F142,
                },
                dtype,
                array,
                units: units()?,
                chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG),
                cue_interval: config.cues()?,
            })
        }
        "da00" => arrays(config)?,
        "hs01" | "hs00" => histogram(config, name == "hs00")?,
        "al00" => plain(StreamModule::Alarms),
        "ep01" | "ep00" => plain(StreamModule::Connections { old: name == "ep00" }),
        "se00" | "senv" => plain(StreamModule::Samples {
            old: name == "senv",
            dtype: config.number(types, Some(NumberType::I64))?,
            units: units()?,
            chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG),
        }),
        "tdct" => plain(StreamModule::Chopper { chunk: config.chunk(time)?.unwrap_or(CHUNK_LOG) }),
        "ad00" | "ADAr" => {
            let dtype = config.number(types, Some(NumberType::F64))?;
            let what = "the shape of an image, [rows, columns]";
            plain(StreamModule::Images {
                old: name == "ADAr",
                dtype,
                shape: config.shape(&["array_size", "shape"], dtype, what)?,
                units: units()?,
                chunk: config.chunk(1)?,
                cue_interval: config.cues()?,
            })
        }
        _ => return Ok(None),
    }))
}

/// Unit, label and source as attributes.
pub(super) fn described(config: &Config<'_>) -> Read<Vec<Attribute>> {
    let mut attributes = Vec::new();
    let pairs: [(&str, &[&'static str]); 3] =
        [("units", &["unit", "units"]), ("long_name", &["label"]), ("source", &["source"])];
    for (name, keys) in pairs {
        if let Some(text) = config.optional_text(keys)? {
            if name == "units" && text.is_empty() {
                config.warned.say(&config.at(keys[0]), EMPTY_UNITS);
            }
            attributes.push(text_attribute(name, text));
        }
    }
    Ok(attributes)
}

fn histogram(config: &Config<'_>, old: bool) -> Read<Made> {
    let dtype = config.number(&["data_type", "dtype", "type"], Some(NumberType::F64))?;
    let errors = match config.get(&["error_type"]) {
        Some(_) => Some(config.number(&["error_type"], None)?),
        None => None,
    };
    // scippnexus makes variances of the errors, which integers cannot have: the whole file would not load.
    let whole = !matches!(dtype, NumberType::F32 | NumberType::F64);
    let dtype = if errors.is_some() && whole { NumberType::F64 } else { dtype };
    let what = "the dimensions: objects with size, label, unit, edges and dataset_name";
    let (mut shape, mut axes, mut constants) = (Vec::new(), vec!["time".to_owned()], Vec::new());
    for (i, one) in config.objects("shape", what)?.iter().enumerate() {
        let Some(size) = one.count("size", "a number of bins, at least 1")? else {
            return fault(&one.at("size"), StructureFault::Missing("the number of bins"));
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
        let double = Some(Named::Number(NumberType::F64));
        let value = Array::read(edges, double, NumberType::F64, config.budget, &one.at(key))?;
        if value.shape != [size + 1] && value.shape != [size] {
            let found = format!("a list of {:?}", value.shape);
            let expected = "size + 1 bin edges, or size bin centres";
            return fault(&one.at(key), StructureFault::Kind { found, expected });
        }
        let attributes = described(one)?;
        constants.push((DatasetPlan { path: name.clone(), value, attributes }, one.at.clone()));
        axes.push(name);
    }
    if shape.is_empty() {
        return fault(&config.at("shape"), StructureFault::Missing(what));
    }
    let widest = errors.map_or(dtype, |e| if e.bytes() > dtype.bytes() { e } else { dtype });
    config.bounded(&shape, widest, &config.at("shape"))?;
    let attributes = vec![text_attribute("signal", "signal"), names_attribute("axes", axes)];
    let module = StreamModule::Histogram { old, dtype, errors, shape, chunk: config.chunk(1)? };
    Ok(Made { module, constants, attributes })
}
