//! Finding a kind by its scheme, with a source in memory and a carrier around it.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::batch::{Batch, Edge, Origin};
use crate::ledger::{Info, Sheet};
use crate::refusal::{Refusal, refuse};
use crate::source::conformance::{self, SourceCase, Twin};
use crate::source::{
    OpenedSource, Received, Source, SourceEndpoint, SourceError, SourceOpenError, SourceOpening,
    SourceSetup, UrlKey,
};

crate::counters! {
    /// What reading from memory counts.
    pub enum Shelf {
        Packets "receive.packets" Packets Sum "receive" In "packets taken from the shelf" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "packets handed on" "";
    }
}

/// Packets that lie in memory.
static STOCK: std::sync::Mutex<Vec<Vec<u8>>> = std::sync::Mutex::new(Vec::new());

/// `shelf:NAME`
struct ShelfKind;

impl SourceKind for ShelfKind {
    fn name(&self) -> &'static str {
        "shelf"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["rack"]
    }
    fn about(&self) -> &'static str {
        "packets in memory"
    }
    fn form(&self) -> &'static str {
        "shelf:NAME"
    }
    fn example(&self) -> &'static str {
        "shelf:a"
    }
    fn keys(&self) -> Vec<UrlKey> {
        vec![]
    }
    fn meant(&self, text: &str) -> Option<String> {
        (text == "a").then(|| "shelf:a".into())
    }
    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: shelf", Shelf::catalogue())]
    }
    fn plan(&self, url: &str, _: &SourceSetup<'_>) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        match url.strip_prefix("shelf:") {
            Some("") | None => Err(refuse("source.url", url, "a name")),
            Some(_) => Ok(Box::new(Place(false))),
        }
    }
}

/// `loud+shelf:NAME`: the same in a carrier that changes every byte twice, so that nothing changes.
struct LoudKind;

impl SourceKind for LoudKind {
    fn name(&self) -> &'static str {
        "loud+shelf"
    }
    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        ShelfKind.counters()
    }
    fn plan(&self, url: &str, setup: &SourceSetup<'_>) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let inner = url.strip_prefix("loud+").unwrap_or(url);
        Ok(Box::new(Carrier(setup.endpoint(inner)?)))
    }
    fn about(&self) -> &'static str {
        "a carrier"
    }
    fn form(&self) -> &'static str {
        "loud+shelf:NAME"
    }
    fn example(&self) -> &'static str {
        "loud+shelf:a"
    }
    fn keys(&self) -> Vec<UrlKey> {
        vec![]
    }
}

struct Place(bool);

impl SourceEndpoint for Place {
    fn is_live(&self) -> bool {
        self.0
    }
    fn open(&self, _: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let packets = STOCK.lock().unwrap().clone();
        let source = ShelfSource { packets, at: 0, sheet: Sheet::new(Shelf::catalogue()) };
        Ok(vec![OpenedSource::new(source, "shelf:a")])
    }
}

struct Carrier(Box<dyn SourceEndpoint>);

impl SourceEndpoint for Carrier {
    fn is_live(&self) -> bool {
        self.0.is_live()
    }
    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let inner = self.0.open(opening)?;
        let around = |one: OpenedSource| OpenedSource { source: Box::new(Loud(one.source)), ..one };
        Ok(inner.into_iter().map(around).collect())
    }
}

struct ShelfSource {
    packets: Vec<Vec<u8>>,
    at: usize,
    sheet: Arc<Sheet>,
}

impl Source for ShelfSource {
    fn recv(&mut self, batch: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if self.at == self.packets.len() {
            return Ok(Received::End);
        }
        for packet in self.packets.iter().skip(self.at).take(7) {
            batch.append(packet, Origin::NONE, 0, Edge::Heap);
            self.at += 1;
            self.sheet.add(Shelf::Packets as usize, 1);
            self.sheet.add(Shelf::Accepted as usize, 1);
        }
        Ok(Received::Data)
    }
    fn batch(&self) -> Batch {
        Batch::with_slots(7, 2048)
    }
    fn lossless(&self) -> bool {
        true
    }
    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
    fn describe(&self) -> Vec<String> {
        vec!["a shelf".into()]
    }
}

struct Loud(Box<dyn Source>);

impl Source for Loud {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        self.0.recv(batch, wait)
    }
    fn batch(&self) -> Batch {
        self.0.batch()
    }
    fn lossless(&self) -> bool {
        self.0.lossless()
    }
    fn sheet(&self) -> Arc<Sheet> {
        self.0.sheet()
    }
    fn describe(&self) -> Vec<String> {
        self.0.describe()
    }
}

fn sources() -> Sources {
    let mut all = Sources::default();
    all.register(Box::new(ShelfKind));
    all.register(Box::new(LoudKind));
    all
}

#[test]
fn a_kind_is_found_by_its_scheme_or_an_alias_and_others_are_named() {
    let all = sources();
    let found = |url: &str| all.find(url).map(|(kind, url)| (kind.name(), url));
    assert_eq!(found("SHELF:x").unwrap(), ("shelf", "SHELF:x".into()));
    assert_eq!(found("rack:x?y").unwrap(), ("shelf", "shelf:x?y".into()));
    for (url, told) in [
        ("desk:x", "unknown scheme 'desk'; known are shelf, loud+shelf"),
        ("spead+udp://x", "scheme 'spead+udp' is not yet supported by this version; supported are"),
        ("a", "it has no scheme: is shelf:a meant?"),
        ("localhost:9000?x", "it has no scheme: write for example shelf:a or loud+shelf:a"),
        ("", "it has no scheme"),
    ] {
        let e = found(url).unwrap_err().to_string();
        assert!(e.contains(told), "{e}");
    }
    assert_eq!(all.names(), "shelf, loud+shelf");
    assert_eq!(all.examples(|kind| kind.name() == "shelf"), "shelf:a");
}

#[test]
fn a_source_and_a_carrier_around_it_pass_the_suite() {
    let all = sources();
    for url in ["shelf:a", "rack:a", "loud+shelf:a"] {
        let case = SourceCase {
            sources: &all,
            url,
            refused: &["shelf:", "desk:a"],
            give: &mut |_, packets| *STOCK.lock().unwrap() = packets.to_vec(),
            ends: true,
            twin: Twin::Reads,
        };
        conformance::source(case).unwrap();
    }
    // It notices what is wrong.
    let broken = SourceCase {
        sources: &all,
        url: "shelf:a",
        refused: &["shelf:a"],
        give: &mut |_, _| {},
        ends: true,
        twin: Twin::Reads,
    };
    assert!(conformance::source(broken).unwrap_err().contains("is not refused"));
}
