//! Rows on their way to a file: owned columns that are written and forgotten together.

use fullcount_core::tables::{ColumnType, Table, Values};

/// Rows of a table that are not in the file yet.
#[derive(Debug)]
pub(super) struct Block {
    columns: Vec<Owned>,
    rows: usize,
}

/// Values of a column.
#[derive(Debug)]
enum Owned {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Owned {
    fn new(kind: ColumnType) -> Owned {
        match kind {
            ColumnType::U8 => Owned::U8(Vec::new()),
            ColumnType::U16 => Owned::U16(Vec::new()),
            ColumnType::U32 => Owned::U32(Vec::new()),
            ColumnType::U64 => Owned::U64(Vec::new()),
            ColumnType::I64 => Owned::I64(Vec::new()),
            ColumnType::F64 => Owned::F64(Vec::new()),
        }
    }

    /// Takes values `from..to`; columns of another type have none of ours.
    fn extend(&mut self, values: &Values<'_>, from: usize, to: usize) {
        match (self, values) {
            (Owned::U8(v), Values::U8(more)) => v.extend_from_slice(&more[from..to]),
            (Owned::U16(v), Values::U16(more)) => v.extend_from_slice(&more[from..to]),
            (Owned::U32(v), Values::U32(more)) => v.extend_from_slice(&more[from..to]),
            (Owned::U64(v), Values::U64(more)) => v.extend_from_slice(&more[from..to]),
            (Owned::I64(v), Values::I64(more)) => v.extend_from_slice(&more[from..to]),
            (Owned::F64(v), Values::F64(more)) => v.extend_from_slice(&more[from..to]),
            (_, _) => unreachable!("Table::columns and Table::values are held together by a test"),
        }
    }

    fn clear(&mut self) {
        match self {
            Owned::U8(v) => v.clear(),
            Owned::U16(v) => v.clear(),
            Owned::U32(v) => v.clear(),
            Owned::U64(v) => v.clear(),
            Owned::I64(v) => v.clear(),
            Owned::F64(v) => v.clear(),
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Owned::U8(v) => Values::U8(v),
            Owned::U16(v) => Values::U16(v),
            Owned::U32(v) => Values::U32(v),
            Owned::U64(v) => Values::U64(v),
            Owned::I64(v) => Values::I64(v),
            Owned::F64(v) => Values::F64(v),
        }
    }
}

impl Block {
    /// Without rows.
    pub fn new(table: Table) -> Block {
        let columns = table.columns().iter().map(|column| Owned::new(column.kind)).collect();
        Block { columns, rows: 0 }
    }

    /// Rows in it.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows `from..to` of a batch.
    pub fn extend(&mut self, values: &[Values<'_>], from: usize, to: usize) {
        for (column, values) in self.columns.iter_mut().zip(values) {
            column.extend(values, from, to);
        }
        self.rows += to - from;
    }

    /// Its columns.
    pub fn values(&self) -> impl Iterator<Item = Values<'_>> {
        self.columns.iter().map(Owned::values)
    }

    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Owned::clear);
        self.rows = 0;
    }
}
