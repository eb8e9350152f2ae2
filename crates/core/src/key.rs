//! Keys of a configuration as data: flags, `--set`, the reference page and the check of paths follow from them.
//!
//! Source: `docs/configuration.md`.

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Text, even if it looks like a number: a title, a size, a duration.
    Text,
    /// A path. In a configuration file it begins at the file's folder.
    Path,
    /// A number, `true` or `false`, a list or a table.
    Value,
}

/// Paths and values of the keys that one word sets; else what is wrong with it.
pub type SplitWord = fn(&str) -> Result<Vec<(&'static str, String)>, String>;

/// How a flag's words become values.
#[derive(Debug, Clone, Copy)]
pub enum Words {
    /// The word is the value, as the key takes it.
    As,
    /// The flag has no word: `true` for each kind whose file a flag names, and where none does for the first kind that has the flag.
    Replace,
    /// May be repeated: each word is `{ name = WORD }` of a list.
    Names,
    /// An address in one word that sets several keys: their paths and values.
    Split(SplitWord),
}

/// A separate flag for a key.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Without its dashes: `nexus`.
    pub name: &'static str,
    /// What its value is called in `--help`: `FILE`.
    pub value: &'static str,
    /// Its help.
    pub help: &'static str,
    /// How its words become values.
    pub words: Words,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Whole path: `output.nexus.path`.
    pub path: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Its flag; without one `--set` sets it.
    pub flag: Option<Flag>,
    /// Its default as it is written in the file; `–`: none, `required`.
    pub default: &'static str,
    /// Allowed values, with units, for people.
    pub allowed: &'static str,
    /// What it means.
    pub about: &'static str,
}

impl Key {
    /// A key of that sort, without a flag.
    pub const fn new(
        takes: Takes,
        path: &'static str,
        default: &'static str,
        allowed: &'static str,
        about: &'static str,
    ) -> Key {
        Key { path, takes, flag: None, default, allowed, about }
    }

    /// The same with a flag whose word is the value.
    pub const fn flag(self, name: &'static str, value: &'static str, help: &'static str) -> Key {
        self.with(Flag { name, value, help, words: Words::As })
    }

    /// The same with a flag.
    pub const fn with(self, flag: Flag) -> Key {
        Key { flag: Some(flag), ..self }
    }

    /// True if a flag or `--set` gives text even if it looks like a number.
    pub fn is_text(&self) -> bool {
        matches!(self.takes, Takes::Text | Takes::Path)
    }

    /// Its name in its section: `path`.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// A row of the reference: a key as people read of it, for sections that read their keys by themselves.
#[derive(Debug, Clone, Copy)]
pub struct KeyRow {
    /// Whole path: `detector.window`.
    pub path: &'static str,
    /// Its flags as code: `` `--threads` ``; empty: `--set` alone sets it.
    pub flag: &'static str,
    /// Its default as Markdown; `–`: none, `required`.
    pub default: &'static str,
    /// Allowed values with units, as Markdown.
    pub allowed: &'static str,
    /// What it means, as Markdown.
    pub about: &'static str,
}

/// Declares keys as a constant, one after the other: what it takes, path, default, allowed values, meaning, and its flag as
/// [`Key::flag`] or [`Key::with`] say it.
#[macro_export]
macro_rules! keys {
    ($(#[$doc:meta])* $vis:vis const $name:ident =
        $($takes:ident $path:literal $default:literal $allowed:literal $about:literal
          $(.$flag:ident($($fact:expr),+))?;)+
    ) => {
        $(#[$doc])*
        $vis const $name: &[$crate::key::Key] = &[$(
            $crate::key::Key::new($crate::key::Takes::$takes, $path, $default, $allowed, $about)
                $(.$flag($($fact),+))?
        ),+];
    };
}

/// Declares rows of the reference as a constant, one key after the other: path, \[flag\] if there is one, default, allowed
/// values, meaning.
#[macro_export]
macro_rules! key_rows {
    ($(#[$doc:meta])* $vis:vis const $name:ident =
        $($path:literal $([$flag:literal])? $default:literal $allowed:literal $about:literal;)+
    ) => {
        $(#[$doc])*
        $vis const $name: &[$crate::key::KeyRow] = &[$($crate::key::KeyRow {
            path: $path,
            flag: concat!("", $($flag)?),
            default: $default,
            allowed: $allowed,
            about: $about,
        }),+];
    };
}
