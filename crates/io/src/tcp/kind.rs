//! The source `tcp`, as a kind.
//!
//! Refuses, before a socket is opened: port 0 to connect to, engines of `udp://`, a system without epoll.

use fullcount_core::ledger::Info;
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    FrameRule, OpenedSource, SourceEndpoint, SourceKind, SourceOpenError, SourceOpening,
    SourceSetup, UrlKey,
};
use fullcount_core::url::{self, Scheme};

use super::{TcpCounter, TcpSource, TcpUrl};
use crate::source::{no_engine, refused};

/// `tcp://ADDRESS:PORT`
pub struct TcpKind;

impl SourceKind for TcpKind {
    fn name(&self) -> &'static str {
        TcpUrl::NAME
    }

    fn about(&self) -> &'static str {
        "packets on many TCP connections, without loss; also of senders of the simplified TCP"
    }

    fn form(&self) -> &'static str {
        TcpUrl::FORM
    }

    fn example(&self) -> &'static str {
        "tcp://0.0.0.0:9000"
    }

    fn keys(&self) -> Vec<UrlKey> {
        UrlKey::of::<TcpUrl>()
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: tcp", TcpCounter::catalogue())]
    }

    fn plan(
        &self,
        text: &str,
        setup: &SourceSetup<'_>,
    ) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let tcp: TcpUrl = url::read(text).map_err(|e| refused(text, e))?;
        no_engine(setup)?;
        if tcp.connect && tcp.port == 0 {
            return Err(refused(
                text,
                "port 0 cannot be connected to; give the peer's, 1 to 65535",
            ));
        }
        if tcp.connect && tcp.until_closed {
            return Err(refused(text, "connect and until=closed cannot both be given"));
        }
        let ms = |t: std::time::Duration| t.is_zero() || t.as_millis() >= 100;
        if !ms(tcp.stall) || !(tcp.keepalive.is_zero() || tcp.keepalive.as_secs() >= 1) {
            return Err(refused(text, "stall is 0 or 100ms to 1h, keepalive 0 or 1s to 1h"));
        }
        Ok(Box::new(Streams(tcp)))
    }
}

struct Streams(TcpUrl);

impl SourceEndpoint for Streams {
    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let declared = opening.downstream.and_then(|decoder| decoder.framing());
        // Without a word from anybody: the commonest prefix.
        let rule = self.0.framing.or(declared).unwrap_or(FrameRule::PREFIXES[2]);
        let source = TcpSource::open(&self.0, rule).map_err(SourceOpenError::failed)?;
        let local = source.local_addr();
        let label = local.map_or_else(|| self.0.to_string(), |local| format!("tcp://{local}"));
        Ok(vec![OpenedSource { source: Box::new(source), label, local }])
    }
}
