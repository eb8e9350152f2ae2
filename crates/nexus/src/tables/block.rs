//! Rows to be written to a file: owned columns that are written and cleared together.

use fullcount_core::number::NumberType;
use fullcount_core::tables::{Table, Values};

/// Rows of a table that are not in the file yet.
#[derive(Debug)]
pub(super) struct Block {
    columns: Vec<Owned>,
    rows: usize,
}

/// Makes the owned values of a column, of any type that columns of tables have.
macro_rules! owned {
    ($($type:ident $number:ty),+) => {
        /// Values of a column.
        #[derive(Debug)]
        enum Owned { $($type(Vec<$number>)),+ }

        impl Owned {
            fn new(kind: NumberType) -> Owned {
                match kind {
                    $(NumberType::$type => Owned::$type(Vec::new()),)+
                    other => unreachable!("no table has a column of {}", other.name()),
                }
            }

            /// Takes values `from..to`; columns of another type have none of ours.
            fn extend(&mut self, values: &Values<'_>, from: usize, to: usize) {
                match (self, values) {
                    $((Owned::$type(v), Values::$type(more)) => v.extend_from_slice(&more[from..to]),)+
                    (_, _) => unreachable!("Table::columns and Table::values are held together by a test"),
                }
            }

            fn clear(&mut self) {
                match self { $(Owned::$type(v) => v.clear(),)+ }
            }

            fn values(&self) -> Values<'_> {
                match self { $(Owned::$type(v) => Values::$type(v),)+ }
            }
        }
    };
}
owned! { U8 u8, U16 u16, U32 u32, U64 u64, I64 i64, F64 f64 }

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
