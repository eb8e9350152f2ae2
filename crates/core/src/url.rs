//! `scheme:place?key=value&…`: the grammar of every endpoint, and how a scheme declares its keys.
//!
//! A scheme is a type that implements [`Scheme`]: its name, its keys with their values, and the form of its
//! place. [`read`] makes a value of it from a URL. Refuses another scheme, an unknown or doubled key, keys
//! that exclude each other and a value that the key does not allow; each message names the URL, the key, the
//! value and what is allowed. Source: `docs/architecture.md`, "Endpoints are URLs".

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::quantity::{self, QuantityError};

/// What switches take.
pub const SWITCH: &str = "1 or 0";

/// A URL that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{url}': {problem}")]
pub struct UrlError {
    /// As typed.
    pub url: String,
    /// What is wrong with it.
    pub problem: UrlProblem,
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum UrlProblem {
    /// No `scheme:` in front.
    #[error("it has no scheme: {meant}")]
    NoScheme { meant: String },
    /// A scheme that nobody knows.
    #[error("unknown scheme '{scheme}'; known are {known}")]
    UnknownScheme { scheme: String, known: String },
    /// A scheme that a later version brings.
    #[error("scheme '{scheme}' is not yet supported by this version; supported are {known}")]
    NotYet { scheme: String, known: String },
    /// What stands between scheme and keys.
    #[error("{why}; write {form}")]
    Place { why: String, form: &'static str },
    /// A key that this scheme does not have.
    #[error("unknown key '{key}' for {scheme}; known are {known}")]
    UnknownKey { scheme: &'static str, key: String, known: String },
    /// The same key twice, or two keys that exclude each other.
    #[error("'{key}' and '{other}' cannot both be given")]
    Conflict { key: String, other: String },
    /// A value that the key does not take.
    #[error("{key}={value} is not allowed; {allowed}")]
    Value { key: String, value: String, allowed: String },
}

/// Why a key did not take its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTaken {
    /// It is not what the key declares.
    Other,
    /// It is no quantity; the sentence says how one is written.
    Form(String),
    /// Another key that was given excludes it.
    Excluded(&'static str),
}

impl From<QuantityError> for NotTaken {
    fn from(e: QuantityError) -> NotTaken {
        NotTaken::Form(e.to_string())
    }
}

/// A scheme: what its URLs say.
pub trait Scheme: Sized + 'static {
    /// In front of the colon, in small letters.
    const NAME: &'static str;
    /// How its URLs are written, with an example.
    const FORM: &'static str;
    /// Its keys.
    const KEYS: &'static [SchemeKey<Self>];

    /// What a URL without keys says.
    ///
    /// # Errors
    /// What is wrong with the place, as a clause without a full stop.
    fn at(place: &str) -> Result<Self, String>;
}

/// A key of a scheme.
pub struct SchemeKey<T> {
    /// As typed.
    pub name: &'static str,
    /// What it takes, with unit and range.
    pub takes: &'static str,
    /// What holds without it, for people; `–`: nothing.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
    set: fn(&mut T, Given<'_>) -> Result<(), NotTaken>,
}

impl<T> SchemeKey<T> {
    /// A key `name` that takes what `takes` says, which `set` writes down.
    pub const fn new(
        name: &'static str,
        takes: &'static str,
        set: fn(&mut T, Given<'_>) -> Result<(), NotTaken>,
    ) -> SchemeKey<T> {
        SchemeKey { name, takes, default: "–", about: "", set }
    }

    /// The same with its default and its meaning, for the reference page.
    pub const fn told(
        name: &'static str,
        takes: &'static str,
        default: &'static str,
        about: &'static str,
        set: fn(&mut T, Given<'_>) -> Result<(), NotTaken>,
    ) -> SchemeKey<T> {
        SchemeKey { name, takes, default, about, set }
    }
}

impl<T> std::fmt::Debug for SchemeKey<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.takes)
    }
}

/// The value of a key; `None` for a key without one.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a>(pub Option<&'a str>);

impl<'a> Given<'a> {
    /// Any text that is not empty.
    ///
    /// # Errors
    /// There is none.
    pub fn text(self) -> Result<&'a str, NotTaken> {
        self.0.filter(|text| !text.is_empty()).ok_or(NotTaken::Other)
    }

    /// What reads as a `V`.
    ///
    /// # Errors
    /// It does not.
    pub fn parse<V: FromStr>(self) -> Result<V, NotTaken> {
        self.text()?.parse().map_err(|_| NotTaken::Other)
    }

    /// A number within a range.
    ///
    /// # Errors
    /// It is none, or outside.
    pub fn within<V: FromStr + PartialOrd>(self, range: RangeInclusive<V>) -> Result<V, NotTaken> {
        inside(self.parse()?, range)
    }

    /// One of several names.
    ///
    /// # Errors
    /// It is another.
    pub fn one_of<V: Copy>(self, names: &[(&str, V)]) -> Result<V, NotTaken> {
        let text = self.text()?;
        names.iter().find(|(name, _)| *name == text).map(|(_, v)| *v).ok_or(NotTaken::Other)
    }

    /// `key`, `key=1`, `key=true`, `key=yes`, `key=on` and their opposites.
    ///
    /// # Errors
    /// Anything else.
    pub fn switch(self) -> Result<bool, NotTaken> {
        match self.0 {
            None | Some("1" | "true" | "yes" | "on") => Ok(true),
            Some("0" | "false" | "no" | "off") => Ok(false),
            Some(_) => Err(NotTaken::Other),
        }
    }

    /// A size in bytes within a range.
    ///
    /// # Errors
    /// It is none, or outside.
    pub fn size(self, range: RangeInclusive<u64>) -> Result<u64, NotTaken> {
        inside(quantity::size(self.text()?)?, range)
    }

    /// A duration within a range; 0 needs no unit.
    ///
    /// # Errors
    /// It is none, or outside.
    pub fn duration(self, range: RangeInclusive<Duration>) -> Result<Duration, NotTaken> {
        let time = match self.text()? {
            "0" => Duration::ZERO,
            text => quantity::duration(text)?,
        };
        inside(time, range)
    }
}

fn inside<V: PartialOrd>(value: V, range: RangeInclusive<V>) -> Result<V, NotTaken> {
    if range.contains(&value) { Ok(value) } else { Err(NotTaken::Other) }
}

/// The scheme of a URL, in small letters, and what follows its colon; `None` if there is no scheme:
/// `run.pcap:x` is a file, `10.0.0.1:9000` an address.
pub fn scheme(url: &str) -> Option<(String, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-');
    let is_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_one && scheme.chars().all(letters)).then(|| (scheme.to_ascii_lowercase(), rest))
}

/// Place and keys.
pub fn split(rest: &str) -> (&str, &str) {
    rest.split_once('?').unwrap_or((rest, ""))
}

/// Reads a URL of the scheme `T`.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn read<T: Scheme>(url: &str) -> Result<T, UrlError> {
    read_parts(url).map_err(|problem| UrlError { url: url.to_owned(), problem })
}

fn read_parts<T: Scheme>(url: &str) -> Result<T, UrlProblem> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    if !scheme.eq_ignore_ascii_case(T::NAME) {
        return Err(UrlProblem::Place {
            why: format!("it does not begin with {}:", T::NAME),
            form: T::FORM,
        });
    }
    let (place, query) = split(rest);
    let mut value = T::at(place).map_err(|why| UrlProblem::Place { why, form: T::FORM })?;
    let mut given: Vec<&str> = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, text) = match part.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (part, None),
        };
        let Some(key) = T::KEYS.iter().find(|key| key.name == name) else {
            let known: Vec<&str> = T::KEYS.iter().map(|key| key.name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let key = name.to_owned();
            return Err(UrlProblem::UnknownKey { scheme: T::NAME, key, known });
        };
        let conflict =
            |other: &str| UrlProblem::Conflict { key: name.to_owned(), other: other.to_owned() };
        if given.contains(&name) {
            return Err(conflict(name));
        }
        given.push(name);
        let refused = |allowed: String| {
            let value = text.unwrap_or_default().to_owned();
            UrlProblem::Value { key: name.to_owned(), value, allowed }
        };
        (key.set)(&mut value, Given(text)).map_err(|why| match why {
            NotTaken::Other => refused(key.takes.to_owned()),
            NotTaken::Form(form) => refused(form),
            NotTaken::Excluded(other) => conflict(other),
        })?;
    }
    Ok(value)
}

/// `//` and an optional `/` at the end, taken off a place.
///
/// # Errors
/// There is no `//`.
pub fn authority<T: Scheme>(place: &str) -> Result<&str, String> {
    let rest = place.strip_prefix("//");
    let rest = rest.ok_or_else(|| format!("'//' is missing after '{}:'", T::NAME))?;
    Ok(rest.strip_suffix('/').unwrap_or(rest))
}

/// A port of `range`, in digits alone.
///
/// # Errors
/// It is none, or outside.
pub fn port(text: &str, range: RangeInclusive<u16>) -> Result<u16, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && range.contains(port));
    let (first, last) = range.into_inner();
    port.ok_or_else(|| format!("port '{text}' is not a number from {first} to {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Default)]
    struct Lamp {
        name: String,
        watts: u32,
        on: bool,
        dim: Duration,
    }

    impl Scheme for Lamp {
        const NAME: &'static str = "lamp";
        const FORM: &'static str = "lamp://NAME, for example lamp://desk?watts=5";
        const KEYS: &'static [SchemeKey<Lamp>] = &[
            SchemeKey::new("watts", "1 to 9 W", |l, v| v.within(1..=9).map(|n| l.watts = n)),
            SchemeKey::new("on", SWITCH, |l, v| v.switch().map(|on| l.on = on)),
            SchemeKey::new("dim", "0 to 1s", |l, v| match l.on {
                true => Err(NotTaken::Excluded("on")),
                false => v.duration(Duration::ZERO..=Duration::from_secs(1)).map(|t| l.dim = t),
            }),
        ];

        fn at(place: &str) -> Result<Lamp, String> {
            let name = authority::<Lamp>(place)?.to_owned();
            Ok(Lamp { name, ..Lamp::default() })
        }
    }

    #[test]
    fn a_scheme_declares_its_keys_and_gets_a_value() {
        let desk = read::<Lamp>("LAMP://desk/?watts=5&&on").unwrap();
        assert_eq!(desk, Lamp { name: "desk".into(), watts: 5, on: true, dim: Duration::ZERO });
        assert_eq!(read::<Lamp>("lamp://a?dim=2ms").unwrap().dim, Duration::from_millis(2));
    }

    #[test]
    fn what_is_refused_is_named_with_what_is_allowed() {
        for (url, told) in [
            ("lamp:desk", "'lamp:desk': '//' is missing after 'lamp:'; write lamp://NAME, for"),
            ("desk", "'desk': it does not begin with lamp:; write lamp://NAME"),
            ("lamp://a?watts=10", "'lamp://a?watts=10': watts=10 is not allowed; 1 to 9 W"),
            ("lamp://a?watts", "watts= is not allowed; 1 to 9 W"),
            ("lamp://a?on=2", "on=2 is not allowed; 1 or 0"),
            ("lamp://a?off", "unknown key 'off' for lamp; known are watts, on, dim"),
            ("lamp://a?on&on=0", "'on' and 'on' cannot both be given"),
            ("lamp://a?on&dim=1ms", "'dim' and 'on' cannot both be given"),
            ("lamp://a?dim=1", "dim=1 is not allowed; '1' is not a duration: write"),
            ("lamp://a?dim=2s", "dim=2s is not allowed; 0 to 1s"),
        ] {
            let e = read::<Lamp>(url).unwrap_err().to_string();
            assert!(e.contains(told), "{e}");
        }
    }

    #[test]
    fn schemes_are_told_from_files_and_addresses() {
        assert_eq!(scheme("SPEAD+udp://x:1"), Some(("spead+udp".into(), "//x:1")));
        for none in ["", ":", "run.pcap:x", "10.0.0.1:9000", "[::1]:5", "1a:b"] {
            assert_eq!(scheme(none), None, "{none}");
        }
        assert_eq!(port("9", 1..=65535), Ok(9));
        for wrong in ["", "+9", "0", "65536", "x"] {
            assert!(port(wrong, 1..=65535).unwrap_err().contains("1"), "{wrong}");
        }
    }
}
