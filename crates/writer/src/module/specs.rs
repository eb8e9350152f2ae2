//! The columns that each kind of stream has, and what stands beside them.
//!
//! Names and types are those of the existing file writer. Source: `docs/formats/nexus.md` sections 1, 3 and 7.

use fullcount_core::number::NumberType;
use hdf5_metno::{Group, Result};

use super::super::column::{CellType, ColumnSpec, chunk_rows};
use super::super::structure::{Attribute, LatePlan, LogKind, StreamModule, VariablePlan};
use super::Style;
use fullcount_nexus::EventIdType;
use fullcount_nexus::events;
use fullcount_nexus::layout::text_attribute;

/// Entries of a chunk of cues.
const CHUNK_CUES: usize = 1024;
/// Rows of a chunk of alarms' words, 200 bytes each: every log has them, and most say little.
const CHUNK_WORDS: usize = 32;
/// Rows of a chunk of states of alarms and connections.
const CHUNK_STATES: usize = 128;

fn cues() -> [ColumnSpec; 2] {
    [
        ColumnSpec::new("cue_index", NumberType::I64, CHUNK_CUES),
        ColumnSpec::new("cue_timestamp_zero", NumberType::I64, CHUNK_CUES).times("start"),
    ]
}

/// Units of a value; an empty text where the structure says none, as the existing writer has it.
fn with_units(spec: ColumnSpec, units: &Option<String>) -> ColumnSpec {
    spec.with("units", units.clone().unwrap_or_default())
}

fn time(chunk: usize) -> ColumnSpec {
    ColumnSpec::new("time", NumberType::I64, chunk).times("start")
}

/// The columns of a module.
pub(crate) fn specs(module: &StreamModule, style: Style) -> Vec<ColumnSpec> {
    match module {
        StreamModule::Events { chunk, .. } => {
            let (pulses, id) = (events::CHUNK_PULSES, EventIdType::default());
            events::specs(*chunk, pulses, id, style.start_attribute).into()
        }
        StreamModule::Log { kind, dtype, array, units, chunk, cue_interval } => {
            let row: Vec<usize> = array.iter().copied().collect();
            let rows = chunk_rows(*dtype, &row, Some(*chunk));
            let value = ColumnSpec::new("value", *dtype, rows).rows(&row);
            let mut all = vec![with_units(value, units), time(*chunk)];
            if *kind == LogKind::F142 {
                all.extend([
                    ColumnSpec::new("alarm_severity", NumberType::I16, *chunk),
                    ColumnSpec::new("alarm_status", NumberType::I16, *chunk),
                    ColumnSpec::new("alarm_time", NumberType::I64, *chunk).times("start"),
                ]);
            }
            if cue_interval.is_some() {
                all.extend(cues());
            }
            all
        }
        StreamModule::Arrays { variables, late, chunk, cue_interval } => {
            arrays(variables, late, *chunk, cue_interval.is_some())
        }
        StreamModule::Histogram { dtype, errors, shape, chunk, .. } => {
            let counts = |name: &str, dtype: NumberType| {
                let rows = chunk_rows(dtype, shape, *chunk);
                ColumnSpec::new(name, dtype, rows).rows(shape).with("units", "counts")
            };
            let mut all = vec![counts("signal", *dtype)];
            all.extend(errors.map(|dtype| counts("signal_errors", dtype)));
            all.push(time(CHUNK_CUES));
            all
        }
        StreamModule::Alarms => {
            vec![
                ColumnSpec::new("alarm_message", CellType::Text, CHUNK_WORDS),
                ColumnSpec::new("alarm_severity", NumberType::I16, CHUNK_STATES),
                ColumnSpec::new("alarm_time", NumberType::I64, CHUNK_STATES).times("start"),
            ]
        }
        StreamModule::Connections { .. } => vec![
            ColumnSpec::new("connection_status", NumberType::I16, CHUNK_STATES),
            ColumnSpec::new("connection_status_time", NumberType::I64, CHUNK_STATES).times("start"),
        ],
        StreamModule::Samples { dtype, units, chunk, .. } => {
            let mut all =
                vec![with_units(ColumnSpec::new("value", *dtype, *chunk), units), time(*chunk)];
            all.extend(cues());
            all
        }
        StreamModule::Chopper { chunk } => {
            let mut all = vec![ColumnSpec::new("time", NumberType::U64, *chunk).times("start")];
            all.extend(cues());
            all
        }
        StreamModule::Images { dtype, shape, units, chunk, cue_interval, .. } => {
            let rows = chunk_rows(*dtype, shape, *chunk);
            let value = with_units(ColumnSpec::new("value", *dtype, rows).rows(shape), units);
            let mut all = vec![value, time(CHUNK_CUES)];
            if cue_interval.is_some() {
                all.extend(cues());
            }
            all
        }
    }
}

/// The columns of da00.
fn arrays(
    variables: &[VariablePlan],
    late: &[LatePlan],
    chunk: Option<usize>,
    with_cues: bool,
) -> Vec<ColumnSpec> {
    let mut all: Vec<ColumnSpec> = variables
        .iter()
        .map(|v| {
            let rows = chunk_rows(v.dtype, &v.shape, chunk);
            let spec = ColumnSpec::new(&v.name, v.dtype, rows).rows(&v.shape);
            v.attributes.iter().fold(spec, described)
        })
        .collect();
    all.extend(late.iter().map(|constant| {
        let rows = chunk_rows(constant.dtype, constant.row(), Some(CHUNK_CUES));
        let spec = ColumnSpec::new(&constant.name, constant.dtype, rows).rows(constant.row());
        constant.attributes.iter().fold(spec, described)
    }));
    all.push(time(CHUNK_CUES));
    if with_cues {
        all.extend(cues());
    }
    all
}

fn described(spec: ColumnSpec, attribute: &Attribute) -> ColumnSpec {
    let name = match attribute.name.as_str() {
        "units" => "units",
        "long_name" => "long_name",
        _ => "source",
    };
    match attribute.value.text() {
        Some(text) => spec.with(name, text),
        None => spec,
    }
}

/// What a module has beside its columns.
pub(crate) fn make_totals(group: &Group, module: &StreamModule) -> Result<()> {
    match module {
        StreamModule::Events { .. } => events::make_total(group),
        StreamModule::Log { array: None, units, .. } => {
            for name in ["minimum_value", "maximum_value", "average_value"] {
                let dataset = group.new_dataset::<f64>().create(name)?;
                dataset.write_scalar(&f64::NAN)?;
                let units = units.as_deref().unwrap_or_default();
                text_attribute(&dataset, "units", units)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
