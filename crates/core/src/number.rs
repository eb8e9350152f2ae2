//! Types of numbers in columns, datasets and messages, and code that is compiled for each of them.

/// A type of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum NumberType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// The value of an expression in which `$t` is the type of number that `$of` names.
#[macro_export]
macro_rules! with_number {
    ($of:expr, $t:ident => $then:expr) => {
        $crate::with_number!(@ $of, $t => $then,
            I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64)
    };
    (@ $of:expr, $t:ident => $then:expr, $($name:ident $number:ty),+) => {
        match $of { $($crate::number::NumberType::$name => { type $t = $number; $then })+ }
    };
}

impl NumberType {
    /// Name, as the structure of a NeXus file gives it.
    pub fn name(self) -> &'static str {
        match self {
            NumberType::I8 => "int8",
            NumberType::U8 => "uint8",
            NumberType::I16 => "int16",
            NumberType::U16 => "uint16",
            NumberType::I32 => "int32",
            NumberType::U32 => "uint32",
            NumberType::I64 => "int64",
            NumberType::U64 => "uint64",
            NumberType::F32 => "float",
            NumberType::F64 => "double",
        }
    }

    /// Bytes of one value.
    pub const fn bytes(self) -> usize {
        with_number!(self, T => size_of::<T>())
    }
}
