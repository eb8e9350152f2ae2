//! A table in a Parquet file: plain required columns, units and meanings as JSON in the file's key-value metadata.
//!
//! Rows are written in groups; the file can be read once it is closed. Refuses what the library refuses.

use std::fs::File;
use std::sync::Arc;

use fullcount_core::number::NumberType;
use fullcount_core::tables::{Column, Table, Values};
use fullcount_core::wall::WallClock;
use parquet::basic::Type as Physical;
use parquet::basic::{Compression as Codec, Encoding, GzipLevel, LogicalType, Repetition};
use parquet::data_type::{DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::block::Block;
use super::options::{TableOptions, joined};
use crate::Compression;

/// Rows of a group: those of the widest table are 36 MiB.
pub(super) const GROUP_ROWS: usize = 1 << 17;

/// An open file.
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<File>,
    wall: Option<Arc<WallClock>>,
    /// Memory for columns whose type is stored as a wider one.
    narrow: Vec<i32>,
    wide: Vec<i64>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetFile").finish_non_exhaustive()
    }
}

impl ParquetFile {
    /// Begins the file.
    pub fn create(file: File, table: Table, options: &TableOptions) -> Result<ParquetFile> {
        let fields = table.columns().iter().map(field).collect::<Result<Vec<TypePtr>>>()?;
        let schema = Type::group_type_builder(table.name()).with_fields(fields).build()?;
        let codec = match options.compression {
            Compression::None => Codec::UNCOMPRESSED,
            Compression::Gzip(level) => Codec::GZIP(GzipLevel::try_new(level.into())?),
        };
        let mut facts = super::sink::facts(options);
        // Where the host's clock says it, it is known at the end.
        if options.wall.is_none() {
            facts.push(("epoch_ns", options.epoch.0.to_string()));
        }
        facts.push(("columns", columns(table)));
        let facts = facts.into_iter().map(|(name, text)| KeyValue::new(name.to_owned(), text));
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("fullcount ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(codec)
            .set_key_value_metadata(Some(facts.collect()));
        for column in table.columns() {
            // Times and numbers grow: differences are small, and no dictionary holds them.
            if matches!(column.kind, NumberType::I64 | NumberType::U64) {
                let path = ColumnPath::from(column.name);
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(ParquetFile { wall: options.wall.clone(), writer, narrow: Vec::new(), wide: Vec::new() })
    }

    /// Writes a group of rows.
    pub fn append(&mut self, block: &Block) -> Result<()> {
        let ParquetFile { writer, narrow, wide, .. } = self;
        let mut group = writer.next_row_group()?;
        let mut all = block.values();
        while let (Some(values), Some(mut column)) = (all.next(), group.next_column()?) {
            // Unsigned numbers are stored in the bits of signed ones, as the type of the column says.
            match values {
                Values::U8(v) => set(narrow, v.iter().map(|&n| i32::from(n))),
                Values::U16(v) => set(narrow, v.iter().map(|&n| i32::from(n))),
                Values::U32(v) => set(narrow, v.iter().map(|&n| n as i32)),
                Values::U64(v) => set(wide, v.iter().map(|&n| n as i64)),
                Values::I64(_) | Values::F64(_) => {}
            }
            match values {
                Values::U8(_) | Values::U16(_) | Values::U32(_) => {
                    column.typed::<Int32Type>().write_batch(narrow, None, None)?
                }
                Values::U64(_) => column.typed::<Int64Type>().write_batch(wide, None, None)?,
                Values::I64(v) => column.typed::<Int64Type>().write_batch(v, None, None)?,
                Values::F64(v) => column.typed::<DoubleType>().write_batch(v, None, None)?,
            };
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the closing entries; rows in the file.
    pub fn close(mut self) -> Result<u64> {
        if let Some(wall) = &self.wall {
            let zero = joined(Some(wall)).unwrap_or(0);
            let fact = KeyValue::new("epoch_ns".to_owned(), zero.to_string());
            self.writer.append_key_value_metadata(fact);
        }
        let metadata = self.writer.close()?;
        Ok(metadata.file_metadata().num_rows() as u64)
    }
}

fn set<T>(to: &mut Vec<T>, values: impl Iterator<Item = T>) {
    to.clear();
    to.extend(values);
}

fn field(column: &Column) -> Result<TypePtr> {
    let physical = match (column.kind, column.kind.bytes()) {
        (NumberType::F32, _) => Physical::FLOAT,
        (NumberType::F64, _) => Physical::DOUBLE,
        (_, 8) => Physical::INT64,
        _ => Physical::INT32,
    };
    let unsigned = column.kind.name().starts_with('u');
    let logical = unsigned.then(|| LogicalType::integer(8 * column.kind.bytes() as i8, false));
    let field = Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical);
    Ok(Arc::new(field.build()?))
}

/// Units and meanings as JSON.
fn columns(table: Table) -> String {
    let one = |column: &Column| {
        let facts = serde_json::json!({"units": column.unit, "long_name": column.meaning});
        (column.name.to_owned(), facts)
    };
    serde_json::Value::Object(table.columns().iter().map(one).collect()).to_string()
}
