//! The sources of a process, by scheme.
//!
//! Refuses text without a scheme, saying what was probably meant; unknown schemes, listing the known ones; schemes of a later
//! version, by name. Source: `docs/architecture.md`, "Endpoints are URLs".

use super::SourceKind;
use crate::url::{self, UrlError, UrlProblem};

/// Schemes that are part of the design: one that is not registered is not yet there.
pub const DESIGNED: [&str; 4] = ["stcp", "spead+udp", "spead+tcp", "kafka"];

/// Sources by scheme, in the order in which people see them.
#[derive(Default)]
pub struct Sources {
    kinds: Vec<Box<dyn SourceKind>>,
}

impl Sources {
    /// Adds a kind; a later one of the same name takes the place of the earlier.
    pub fn register(&mut self, kind: Box<dyn SourceKind>) {
        match self.kinds.iter_mut().find(|k| k.name() == kind.name()) {
            Some(place) => *place = kind,
            None => self.kinds.push(kind),
        }
    }

    /// Known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn SourceKind> {
        self.kinds.iter().map(|kind| &**kind)
    }

    /// Schemes as in a list: `udp, pcap`.
    pub fn names(&self) -> String {
        self.kinds().map(SourceKind::name).collect::<Vec<_>>().join(", ")
    }

    /// The URL that a run without one takes.
    pub fn usual(&self) -> &'static str {
        self.kinds().find_map(SourceKind::usual).unwrap_or("")
    }

    /// Examples of URLs as in a sentence: `udp://0.0.0.0:9000 or pcap:run.pcapng`.
    pub fn examples(&self, which: impl Fn(&dyn SourceKind) -> bool) -> String {
        let all: Vec<&str> = self.kinds().filter(|k| which(*k)).map(SourceKind::example).collect();
        match &all[..] {
            [] => String::new(),
            [one] => (*one).to_owned(),
            [all @ .., last] => format!("{} or {last}", all.join(", ")),
        }
    }

    /// The kind of a URL, and the URL with the kind's own name as scheme.
    ///
    /// # Errors
    /// Nobody knows its scheme, or it has none.
    pub fn find(&self, url: &str) -> Result<(&dyn SourceKind, String), UrlError> {
        let error = |problem| UrlError { url: url.to_owned(), problem };
        let none = || error(UrlProblem::NoScheme { meant: self.meant(url) });
        let (scheme, rest) = url::scheme(url).ok_or_else(none)?;
        if let Some(kind) = self.kinds().find(|kind| kind.name() == scheme) {
            return Ok((kind, url.to_owned()));
        }
        if let Some(kind) = self.kinds().find(|kind| kind.aliases().contains(&scheme.as_str())) {
            return Ok((kind, format!("{}:{rest}", kind.name())));
        }
        // `localhost:9000`: what follows the colon is a port, so the scheme is missing.
        if url::split(rest).0.bytes().all(|c| c.is_ascii_digit()) {
            return Err(none());
        }
        let known = self.names();
        Err(error(match DESIGNED.contains(&scheme.as_str()) {
            true => UrlProblem::NotYet { scheme, known },
            false => UrlProblem::UnknownScheme { scheme, known },
        }))
    }

    /// What a text without a scheme was most likely meant to be.
    fn meant(&self, text: &str) -> String {
        if let Some(url) = self.kinds().find_map(|kind| kind.meant(text)) {
            return format!("is {url} meant?");
        }
        let first: Vec<&str> = self.kinds().map(SourceKind::example).take(2).collect();
        format!("write for example {}", first.join(" or "))
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
