//! What is wrong with a structure, and where in the JSON.

/// A structure that cannot be written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("nexus_structure{at}: {fault}")]
pub struct StructureError {
    /// Where: `.children[0].config.topic`.
    pub at: String,
    /// What.
    pub fault: StructureFault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum StructureFault {
    /// Not JSON at all.
    #[error("is not JSON: {0}")]
    Json(String),
    /// Too much of it.
    #[error("{what} is above the limit, {limit}")]
    Limit { what: String, limit: usize },
    /// More memory than one thing, or one job, may take.
    #[error("{what} takes {bytes} bytes, above the limit of {limit} bytes ({})", mebibytes(*limit))]
    Memory { what: String, bytes: u64, limit: u64 },
    /// Something needed is not there.
    #[error("is missing: {0}")]
    Missing(&'static str),
    /// Something of another kind than needed.
    #[error("is {found}; expected {expected}")]
    Kind { found: String, expected: &'static str },
    /// A module that nobody here knows.
    #[error(
        "unknown module \"{0}\"; known are ev44, ev43, ev42, f144, f142, ns10, da00, hs01, hs00, al00, ep01, ep00, se00, senv, tdct, ad00, ADAr, mdat, dataset and link"
    )]
    Module(String),
    /// A name that HDF5 or NeXus cannot hold.
    #[error("\"{}\" is no name: 1 to 255 bytes without / and control characters, and not . or ..", .0.escape_debug())]
    Name(String),
    /// Two things of one name.
    #[error("\"{path}\" is there already ({first})")]
    Twice { path: String, first: String },
    /// A link to nothing, or to a group that it stands in.
    #[error("\"{source_path}\" {why}")]
    Link { source_path: String, why: &'static str },
    /// A number type that nobody knows.
    #[error(
        "unknown type \"{0}\"; known are int8 to int64, uint8 to uint64, float, double and string"
    )]
    Dtype(String),
    /// A value that its type cannot hold.
    #[error("value {value} is no {dtype}")]
    Value { value: String, dtype: &'static str },
    /// Lists of different lengths beside each other.
    #[error(
        "lists beside each other have {first} and {other} entries; an array needs equally long ones"
    )]
    Ragged { first: usize, other: usize },
}

pub(super) fn fault<T>(at: &str, fault: StructureFault) -> Result<T, StructureError> {
    Err(StructureError { at: at.to_owned(), fault })
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.6} MiB", bytes as f64 / (1 << 20) as f64).replace(".000000", "")
}
