//! The source `udp`: datagrams on sockets, as a kind.
//!
//! Refuses, before a socket is opened: a key given in the URL and in `[source]` with another value, naps above 10 ms, `bind`.

use fullcount_core::ledger::Info;
use fullcount_core::quantity;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{
    OpenedSource, SourceEndpoint, SourceKind, SourceOpenError, SourceOpening, SourceSetup,
};
use fullcount_core::url;

use super::shard::Steer;
use super::url::{BIND_SENDS, Engine, MOST_NAP, UdpUrl, each_port};
use super::{Receive, ReceiveOptions, UdpSource};
use crate::source::{engine, refused};

/// `udp://ADDRESS:PORT`
pub struct UdpKind;

impl SourceKind for UdpKind {
    fullcount_core::source_of_scheme! {
        UdpUrl: "datagrams on a socket: unicast, broadcast, multicast; udp://HOST:FIRST-LAST is a port each",
        "udp://0.0.0.0:9000"
    }

    fn usual(&self) -> Option<&'static str> {
        Some("udp://127.0.0.1:9000")
    }

    fn several(&self) -> bool {
        true
    }

    fn each(&self, url: &str) -> Result<Vec<String>, String> {
        each_port(url).map_err(str::to_owned)
    }

    fn meant(&self, text: &str) -> Option<String> {
        let (host, port) = url::split(text).0.rsplit_once(':')?;
        let is_port = !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
        (is_port && !host.is_empty()).then(|| format!("udp://{text}"))
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: udp", Receive::catalogue())]
    }

    fn plan(
        &self,
        text: &str,
        setup: &SourceSetup<'_>,
    ) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let mut udp: UdpUrl = url::read(text).map_err(|e| refused(text, e))?;
        if udp.bind.is_some() {
            return Err(refused(text, BIND_SENDS));
        }
        let engine = engine(setup)?;
        let twice = |key, value: &str, named: bool| {
            let why = "given in source.url as well: leave one of them out";
            if named { Err(refuse(key, value, why)) } else { Ok(()) }
        };
        if let Some(given) = setup.receive_buffer_given {
            let named = udp.receive_buffer.is_some_and(|b| b != setup.receive_buffer);
            twice("source.receive_buffer", given, named)?;
        }
        let both = engine != Engine::Auto && udp.engine != Engine::Auto;
        twice("source.engine", setup.engine, both && udp.engine != engine)?;
        udp.receive_buffer = udp.receive_buffer.or(Some(setup.receive_buffer));
        udp.spin |= setup.busy_poll;
        if let Some(text) = setup.nap {
            let refused = |why: String| refuse("source.nap", text, why);
            let nap = quantity::duration(text).map_err(|e| refused(e.to_string()))?;
            if nap > MOST_NAP {
                return Err(refused("0s to 10ms".into()));
            }
            udp.nap = udp.nap.or(Some(nap));
        }
        if udp.engine == Engine::Auto {
            udp.engine = engine;
        }
        Ok(Box::new(SocketEndpoint(udp)))
    }
}

struct SocketEndpoint(UdpUrl);

impl SourceEndpoint for SocketEndpoint {
    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let url = &self.0;
        let alone = ReceiveOptions { timestamps: opening.timestamps, ..ReceiveOptions::default() };
        let first = UdpSource::open(url, &alone).map_err(SourceOpenError::failed)?;
        let local = first.local_addr();
        let one = |source| OpenedSource {
            source: Box::new(source),
            label: format!("udp://{local}"),
            local: Some(local),
        };
        if opening.workers == 1 {
            return Ok(vec![one(first)]);
        }
        let steer = match (opening.spread, opening.by_address) {
            (true, _) => Steer::Spread,
            (false, true) => Steer::Address,
            (false, false) => Steer::Sender,
        };
        let shared = first.share(url, &alone, (opening.workers, steer));
        Ok(shared.map_err(SourceOpenError::failed)?.into_iter().map(one).collect())
    }
}
