//! The destinations of a process, by scheme.
//!
//! Refuses text without a scheme; schemes that are none of a destination, listing those that are; schemes of a later version, by
//! name. Source: `docs/architecture.md`, "Endpoints are URLs".

use super::{DestinationEndpoint, DestinationKind};
use crate::refusal::{Refusal, refuse};
use crate::source::registry::DESIGNED;
use crate::url::{self, UrlError, UrlProblem};

/// Destinations by scheme, in the order in which people see them.
#[derive(Default)]
pub struct Destinations {
    kinds: Vec<Box<dyn DestinationKind>>,
}

impl Destinations {
    /// Adds a kind; a later one of the same name takes the place of the earlier.
    pub fn register(&mut self, kind: Box<dyn DestinationKind>) {
        match self.kinds.iter_mut().find(|k| k.name() == kind.name()) {
            Some(place) => *place = kind,
            None => self.kinds.push(kind),
        }
    }

    /// Known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn DestinationKind> {
        self.kinds.iter().map(|kind| &**kind)
    }

    /// The kind of a URL.
    ///
    /// # Errors
    /// Nobody knows its scheme, or it has none.
    pub fn find(&self, text: &str) -> Result<&dyn DestinationKind, UrlError> {
        let error = |problem| UrlError { url: text.to_owned(), problem };
        let is_port = |rest: &str| url::split(rest).0.bytes().all(|c| c.is_ascii_digit());
        // `localhost:9000`: what follows the colon is a port, so the scheme is missing.
        let Some((scheme, _)) = url::scheme(text).filter(|(_, rest)| !is_port(rest)) else {
            let first = self.kinds().next().map_or("", DestinationKind::example);
            return Err(error(UrlProblem::NoScheme {
                meant: format!("write for example {first}"),
            }));
        };
        if let Some(kind) = self.kinds().find(|kind| kind.name() == scheme) {
            return Ok(kind);
        }
        let known = self.kinds().map(DestinationKind::name).collect::<Vec<_>>().join(", ");
        Err(error(match DESIGNED.contains(&scheme.as_str()) {
            true => UrlProblem::NotYet { scheme, known },
            false => UrlProblem::UnknownScheme { scheme, known },
        }))
    }

    /// The checked endpoint of a URL.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
        self.find(text).map_err(|e| refuse("to", text, e.to_string()))?.plan(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DestinationError, DestinationOpening};
    use super::*;
    use crate::destination::Destination;
    use crate::ledger::Info;
    use crate::source::UrlKey;

    #[derive(Debug)]
    struct Drain;

    impl DestinationKind for Drain {
        fn name(&self) -> &'static str {
            "drain"
        }

        fn about(&self) -> &'static str {
            "takes all"
        }

        fn form(&self) -> &'static str {
            "drain://"
        }

        fn example(&self) -> &'static str {
            "drain://"
        }

        fn keys(&self) -> Vec<UrlKey> {
            vec![]
        }

        fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
            vec![]
        }

        fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
            match text {
                "drain://" => Ok(Box::new(Drain)),
                _ => Err(refuse("to", text, self.form())),
            }
        }
    }

    impl DestinationEndpoint for Drain {
        fn label(&self) -> String {
            "drain://".into()
        }

        fn open(
            &self,
            _: &DestinationOpening<'_>,
        ) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
            Ok(vec![])
        }
    }

    #[test]
    fn schemes_find_their_kind_and_others_are_refused_by_name() {
        let mut all = Destinations::default();
        all.register(Box::new(Drain));
        all.register(Box::new(Drain));
        assert_eq!(all.kinds().count(), 1);
        assert_eq!(all.plan("drain://").unwrap().label(), "drain://");
        for (text, told) in [
            ("drain://x", "to = drain://x: drain://"),
            ("sink://x", "unknown scheme 'sink'; known are drain"),
            (
                "stcp://x:1",
                "scheme 'stcp' is not yet supported by this version; supported are drain",
            ),
            ("localhost:9000", "it has no scheme: write for example drain://"),
            ("", "it has no scheme"),
        ] {
            let said = all.plan(text).unwrap_err().to_string();
            assert!(said.contains(told), "{said}");
        }
    }
}
