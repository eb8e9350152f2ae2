//! NumPy headers, as in `.npy` files: type, order of dimensions, shape.
//!
//! Refuses objects, types without size, negative dimensions and sizes that no memory holds. Sources: NumPy, "NPY format";
//! `docs/formats/spead.md`, section 4.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::ValueError;
use super::literal::Literal;

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumpyKind {
    /// `b1`.
    Bool,
    /// `i1` to `i8`.
    Signed,
    /// `u1` to `u8`.
    Unsigned,
    /// `f2`, `f4`, `f8`.
    Float,
    /// `c8`, `c16`.
    Complex,
    /// `SN`: bytes, filled up with 0.
    Bytes,
    /// `UN`: characters of 4 bytes, filled up with 0.
    Text,
    /// `VN`: bytes without a meaning.
    Raw,
    /// `M8[unit]`: a point in time.
    Time,
    /// `m8[unit]`: a time span.
    Span,
}

impl NumpyKind {
    fn letter(self) -> char {
        match self {
            NumpyKind::Bool => 'b',
            NumpyKind::Signed => 'i',
            NumpyKind::Unsigned => 'u',
            NumpyKind::Float => 'f',
            NumpyKind::Complex => 'c',
            NumpyKind::Bytes => 'S',
            NumpyKind::Text => 'U',
            NumpyKind::Raw => 'V',
            NumpyKind::Time => 'M',
            NumpyKind::Span => 'm',
        }
    }
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumpyType {
    /// One value.
    Plain {
        /// What it is.
        kind: NumpyKind,
        /// Of one element.
        bytes: usize,
        /// Most significant byte first.
        big_endian: bool,
        /// Of times: `[ns]`.
        unit: String,
    },
    /// A structure.
    Record(Vec<NumpyField>),
}

/// A field of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyField {
    /// Its name; padding has none.
    pub name: String,
    /// Its type.
    pub of: NumpyType,
    /// Its own dimensions.
    pub shape: Vec<usize>,
}

/// Type, order, shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyHeader {
    /// Of an element.
    pub of: NumpyType,
    /// First index fastest.
    pub fortran_order: bool,
    /// Of the array.
    pub shape: Vec<usize>,
}

/// Longest header that is read, bytes: a literal takes some 20 times its text while it is looked at.
const LONGEST: usize = 1 << 20;

/// Elements of a shape.
pub(super) fn count(shape: &[usize]) -> Result<usize, ValueError> {
    // However long the other dimensions are: their product may be beyond all memory.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    product.filter(|n| *n <= isize::MAX as usize).ok_or(ValueError::TooLarge)
}

fn header(what: impl Into<String>) -> ValueError {
    ValueError::Header(what.into())
}

impl NumpyType {
    /// A plain type without unit.
    pub fn plain(kind: NumpyKind, bytes: usize, big_endian: bool) -> NumpyType {
        NumpyType::Plain { kind, bytes, big_endian, unit: String::new() }
    }

    /// Reads `<u2`, `|S3`, `<M8[ns]`.
    ///
    /// # Errors
    /// If there is no such type here.
    pub fn parse(text: &str) -> Result<NumpyType, ValueError> {
        let refused = || ValueError::Type(text.chars().take(64).collect());
        let (order, rest) = match text.as_bytes().first() {
            Some(b'<' | b'>' | b'=' | b'|') => text.split_at(1),
            _ => ("=", text),
        };
        let big_endian = match order {
            ">" => true,
            "=" => cfg!(target_endian = "big"),
            _ => false,
        };
        let letter = rest.chars().next().ok_or_else(refused)?;
        let tail = rest.get(letter.len_utf8()..).unwrap_or("");
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        let (size, unit) = tail.split_at(digits);
        let size: usize = size.parse().map_err(|_| refused())?;
        let (kind, good, bytes) = match letter {
            'b' => (NumpyKind::Bool, size == 1, 1),
            'i' => (NumpyKind::Signed, [1, 2, 4, 8].contains(&size), size),
            'u' => (NumpyKind::Unsigned, [1, 2, 4, 8].contains(&size), size),
            'f' => (NumpyKind::Float, [2, 4, 8].contains(&size), size),
            'c' => (NumpyKind::Complex, [8, 16].contains(&size), size),
            'S' | 'a' => (NumpyKind::Bytes, (1..1 << 31).contains(&size), size),
            'U' => (NumpyKind::Text, (1..1 << 29).contains(&size), size.saturating_mul(4)),
            'V' => (NumpyKind::Raw, (1..1 << 31).contains(&size), size),
            'M' => (NumpyKind::Time, size == 8, 8),
            'm' => (NumpyKind::Span, size == 8, 8),
            _ => return Err(refused()),
        };
        let timed = matches!(kind, NumpyKind::Time | NumpyKind::Span);
        let unit_good = match unit {
            "" => true,
            unit => timed && unit.len() < 16 && unit.starts_with('[') && unit.ends_with(']'),
        };
        match good && unit_good {
            true => Ok(NumpyType::Plain { kind, bytes, big_endian, unit: unit.to_owned() }),
            false => Err(refused()),
        }
    }

    fn of_literal(literal: &Literal) -> Result<NumpyType, ValueError> {
        match literal {
            Literal::Text(text) => NumpyType::parse(text),
            Literal::List(fields) if !fields.is_empty() => {
                let fields: Result<Vec<_>, _> = fields.iter().map(NumpyField::of_literal).collect();
                Ok(NumpyType::Record(fields?))
            }
            _ => Err(header("descr is neither a type nor a list of fields")),
        }
    }

    /// Bytes of an element.
    ///
    /// # Errors
    /// If no memory holds it.
    pub fn size(&self) -> Result<usize, ValueError> {
        match self {
            NumpyType::Plain { bytes, .. } => Ok(*bytes),
            NumpyType::Record(fields) => fields.iter().try_fold(0usize, |sum, field| {
                let bytes = field.of.size()?.checked_mul(count(&field.shape)?);
                let sum = bytes.and_then(|bytes| sum.checked_add(bytes));
                sum.filter(|n| *n <= isize::MAX as usize).ok_or(ValueError::TooLarge)
            }),
        }
    }
}

/// A dimension or a tuple of them.
fn shape_of(literal: &Literal) -> Result<Vec<usize>, ValueError> {
    let one = |literal: &Literal| match literal {
        Literal::Number(n) => usize::try_from(*n).map_err(|_| header(format!("dimension {n}"))),
        _ => Err(header("a dimension that is no integer")),
    };
    match literal {
        Literal::Tuple(dimensions) if dimensions.len() <= 32 => {
            dimensions.iter().map(one).collect()
        }
        Literal::Tuple(_) => Err(header("more than 32 dimensions")),
        other => Ok(vec![one(other)?]),
    }
}

impl NumpyField {
    fn of_literal(literal: &Literal) -> Result<NumpyField, ValueError> {
        let parts = match literal {
            Literal::Tuple(parts) if (2..=3).contains(&parts.len()) => parts,
            _ => return Err(header("a field that is no tuple of name, type and shape")),
        };
        let name = match &parts[0] {
            Literal::Text(name) => name.clone(),
            Literal::Tuple(names) => match &names[..] {
                // Title and name.
                [Literal::Text(_), Literal::Text(name)] => name.clone(),
                _ => return Err(header("a field without a name")),
            },
            _ => return Err(header("a field without a name")),
        };
        let shape = parts.get(2).map_or(Ok(vec![]), shape_of)?;
        Ok(NumpyField { name, of: NumpyType::of_literal(&parts[1])?, shape })
    }
}

impl NumpyHeader {
    /// An array of a plain type in C order.
    pub fn new(of: NumpyType, shape: Vec<usize>) -> NumpyHeader {
        NumpyHeader { of, fortran_order: false, shape }
    }

    /// Reads `{'descr': ..., 'fortran_order': ..., 'shape': ...}`.
    ///
    /// # Errors
    /// If it is no literal, has other keys, is above 1 MiB, or says what is not supported.
    pub fn parse(text: &str) -> Result<NumpyHeader, ValueError> {
        if text.len() > LONGEST {
            return Err(header(format!("{} B, above {LONGEST} B", text.len())));
        }
        let Literal::Dict(entries) = Literal::parse(text)? else {
            return Err(header("no dictionary"));
        };
        let get = |key: &str| {
            let mut found =
                entries.iter().filter(|(k, _)| matches!(k, Literal::Text(t) if t == key));
            found.next_back().map(|(_, value)| value).ok_or_else(|| header(format!("no {key}")))
        };
        if entries.len() != 3 {
            return Err(header(format!(
                "{} keys instead of descr, fortran_order, shape",
                entries.len()
            )));
        }
        let Literal::Bool(fortran_order) = *get("fortran_order")? else {
            return Err(header("fortran_order is neither True nor False"));
        };
        let shape = match get("shape")? {
            shape @ Literal::Tuple(_) => shape_of(shape)?,
            _ => return Err(header("shape is no tuple")),
        };
        let of = NumpyType::of_literal(get("descr")?)?;
        let made = NumpyHeader { of, fortran_order, shape };
        made.bytes()?;
        Ok(made)
    }

    /// Bytes of the array.
    ///
    /// # Errors
    /// If no memory holds it.
    pub fn bytes(&self) -> Result<usize, ValueError> {
        let bytes = self.of.size()?.checked_mul(count(&self.shape)?);
        bytes.filter(|n| *n <= isize::MAX as usize).ok_or(ValueError::TooLarge)
    }
}

/// Turns the byte order of every big-endian number in elements of this type.
fn turn(of: &NumpyType, bytes: &mut [u8]) {
    match of {
        NumpyType::Plain { kind, bytes: size, big_endian: true, .. } => {
            let word = match kind {
                NumpyKind::Bytes | NumpyKind::Raw => return,
                NumpyKind::Complex => size / 2,
                NumpyKind::Text => 4,
                _ => *size,
            };
            bytes.chunks_exact_mut(word.max(1)).for_each(<[u8]>::reverse);
        }
        NumpyType::Plain { .. } => {}
        NumpyType::Record(fields) => {
            let Ok(each) = of.size() else { return };
            for element in bytes.chunks_exact_mut(each.max(1)) {
                let mut at = 0;
                for field in fields {
                    let Ok(size) = field.of.size() else { return };
                    let end = at + size * field.shape.iter().product::<usize>();
                    turn(&field.of, &mut element[at..end]);
                    at = end;
                }
            }
        }
    }
}

impl NumpyType {
    /// It holds a number with its most significant byte first.
    fn has_big(&self) -> bool {
        match self {
            NumpyType::Plain { kind, bytes, big_endian, .. } => {
                *big_endian && *bytes > 1 && !matches!(kind, NumpyKind::Bytes | NumpyKind::Raw)
            }
            NumpyType::Record(fields) => fields.iter().any(|field| field.of.has_big()),
        }
    }
}

impl NumpyHeader {
    /// The array's bytes with the last index fastest; `None`: they are fewer than the header says.
    pub fn c_order<'a>(&self, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let bytes = bytes.get(..self.bytes().ok()?)?;
        if !self.fortran_order || self.shape.len() < 2 || bytes.is_empty() {
            return Some(Cow::Borrowed(bytes));
        }
        let size = self.of.size().ok()?;
        let places = super::decode::fortran_places(&self.shape);
        let turned = places.iter().flat_map(|place| &bytes[place * size..][..size]);
        Some(Cow::Owned(turned.copied().collect()))
    }

    /// The same with the least significant byte of each number first.
    pub fn little_endian<'a>(&self, bytes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let mut bytes = self.c_order(bytes)?;
        if self.of.has_big() {
            turn(&self.of, bytes.to_mut());
        }
        Some(bytes)
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    for c in text.chars() {
        match c {
            '\\' | '\'' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            // Python reads no text with a line's end or a zero in it.
            c if c.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_str("'")
}

fn write_shape(f: &mut fmt::Formatter<'_>, shape: &[usize]) -> fmt::Result {
    match shape {
        [one] => write!(f, "({one},)"),
        many => {
            let words: Vec<String> = many.iter().map(usize::to_string).collect();
            write!(f, "({})", words.join(", "))
        }
    }
}

impl fmt::Display for NumpyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumpyType::Plain { kind, bytes, big_endian, unit } => {
                let ordered = match kind {
                    NumpyKind::Bytes | NumpyKind::Raw => false,
                    NumpyKind::Text => true,
                    _ => *bytes > 1,
                };
                let order = match (ordered, big_endian) {
                    (false, _) => '|',
                    (true, false) => '<',
                    (true, true) => '>',
                };
                let size = if *kind == NumpyKind::Text { bytes / 4 } else { *bytes };
                write!(f, "'{order}{}{size}{unit}'", kind.letter())
            }
            NumpyType::Record(fields) => {
                f.write_str("[")?;
                for (n, field) in fields.iter().enumerate() {
                    f.write_str(if n == 0 { "(" } else { ", (" })?;
                    write_text(f, &field.name)?;
                    write!(f, ", {}", field.of)?;
                    if !field.shape.is_empty() {
                        f.write_str(", ")?;
                        write_shape(f, &field.shape)?;
                    }
                    f.write_str(")")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl fmt::Display for NumpyHeader {
    /// As NumPy writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fortran = if self.fortran_order { "True" } else { "False" };
        write!(f, "{{'descr': {}, 'fortran_order': {fortran}, 'shape': ", self.of)?;
        write_shape(f, &self.shape)?;
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_document_come_back_as_they_were() {
        for text in [
            "{'descr': '<u2', 'fortran_order': False, 'shape': (4,)}",
            "{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3, 4)}",
            "{'descr': '<u4', 'fortran_order': False, 'shape': ()}",
            "{'descr': [('a', '<i2'), ('b', '>f8'), ('c', '|S3')], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': [('t', '<u8'), ('iq', [('re', '<f4'), ('im', '<f4')]), ('v', '>i2', (2, 2))], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<U5', 'fortran_order': False, 'shape': (0, 7)}",
        ] {
            assert_eq!(NumpyHeader::parse(text).unwrap().to_string(), text);
        }
        let other = "{'shape': (1048576,), 'fortran_order': False, 'descr': '>u4'}";
        assert_eq!(NumpyHeader::parse(other).unwrap().bytes(), Ok(4 << 20));
    }

    #[test]
    fn names_with_any_ascii_character_are_written_as_python_reads_them() {
        let name: String = (0u8..128).map(char::from).collect();
        let of = NumpyType::plain(NumpyKind::Unsigned, 2, false);
        let field = NumpyField { name, of, shape: vec![] };
        let header = NumpyHeader::new(NumpyType::Record(vec![field]), vec![3]);
        let text = header.to_string();
        assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text}");
        assert!(text.contains(r"\x00\x01") && text.contains(r"\t\n\x0b\x0c\r\x0e"), "{text}");
        assert!(
            text.contains(r"\'") && text.contains(r"[\\]") && text.contains(r"~\x7f'"),
            "{text}"
        );
        assert_eq!(NumpyHeader::parse(&text).unwrap(), header);
    }

    #[test]
    fn arrays_become_little_endian_and_c_ordered() {
        let of = |text: &str| NumpyHeader::parse(text).unwrap();
        let fortran = of("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3)}");
        let bytes: Vec<u8> = [1u16, 4, 2, 5, 3, 6].iter().flat_map(|n| n.to_be_bytes()).collect();
        let little: Vec<u8> = (1..=6u16).flat_map(u16::to_le_bytes).collect();
        assert_eq!(fortran.little_endian(&bytes).unwrap(), little);
        assert!(fortran.c_order(&bytes[1..]).is_none());
        let record = of(
            "{'descr': [('a', '>i2'), ('s', '|S2'), ('c', '>c8', (1,))], 'fortran_order': False, 'shape': (1,)}",
        );
        let bytes = [0, 1, b'x', b'y', 1, 2, 3, 4, 5, 6, 7, 8];
        let turned = [1, 0, b'x', b'y', 4, 3, 2, 1, 8, 7, 6, 5];
        assert_eq!(record.little_endian(&bytes).unwrap(), &turned[..]);
        let plain = of("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}");
        assert!(matches!(plain.little_endian(&[1, 0, 2, 0, 9]), Some(Cow::Borrowed([1, 0, 2, 0]))));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let of = |text: &str| NumpyHeader::parse(text).unwrap_err();
        let with = |descr: &str, shape: &str| {
            of(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"))
        };
        assert!(matches!(of("x"), ValueError::Literal(_)));
        for descr in ["'|O8'", "'|S0'", "'<i3'", "'<f16'", "'<u2[ns]'", "''", "'é2'"] {
            assert!(matches!(with(descr, "()"), ValueError::Type(_)), "{descr}");
        }
        for (descr, shape) in [
            ("'<u2'", "4"),
            ("'<u2'", "(-1,)"),
            ("'<u2'", "('a',)"),
            ("[]", "()"),
            ("[('a',)]", "()"),
        ] {
            assert!(matches!(with(descr, shape), ValueError::Header(_)), "{descr} {shape}");
        }
        let huge = "(9223372036854775807, 9223372036854775807)";
        assert_eq!(with("'<u2'", huge), ValueError::TooLarge);
        assert!(matches!(of("{'descr': '<u2', 'shape': ()}"), ValueError::Header(_)));
    }
}
