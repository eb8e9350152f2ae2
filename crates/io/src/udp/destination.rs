//! The destination `udp`: datagrams to an address or a group, as a kind.
//!
//! Refuses `engine=uring`, which only receives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::destination::{
    Departed, Destination, DestinationEndpoint, DestinationError, DestinationKind,
    DestinationOpening,
};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::link::Wire;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::UrlKey;
use fullcount_core::url::{self, Scheme};

use super::url::{Engine, UdpUrl};
use super::{SendOptions, Transmit, UdpSender};

/// `udp://ADDRESS:PORT`
pub struct UdpDestination;

impl DestinationKind for UdpDestination {
    fn name(&self) -> &'static str {
        UdpUrl::NAME
    }

    fn about(&self) -> &'static str {
        "datagrams: unicast, broadcast, multicast"
    }

    fn form(&self) -> &'static str {
        UdpUrl::FORM
    }

    fn example(&self) -> &'static str {
        "udp://127.0.0.1:9000"
    }

    fn keys(&self) -> Vec<UrlKey> {
        UrlKey::of::<UdpUrl>()
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("sending: udp", Transmit::catalogue())]
    }

    fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
        let url: UdpUrl = url::read(text).map_err(|e| refuse("to", text, e.to_string()))?;
        if url.engine == Engine::Uring {
            let why = "engine=uring only receives; send with engine=gro";
            return Err(refuse("to", text, why));
        }
        Ok(Box::new(url))
    }
}

impl DestinationEndpoint for UdpUrl {
    fn label(&self) -> String {
        self.to_string()
    }

    fn ipv6(&self) -> bool {
        self.resolve().is_ok_and(|a| a.is_ipv6())
    }

    fn open(
        &self,
        opening: &DestinationOpening<'_>,
    ) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
        let usual = SendOptions::default();
        let patience = opening.patience.unwrap_or(usual.patience);
        let any: IpAddr = match DestinationEndpoint::ipv6(self) {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let open = |port: Option<u16>| {
            let local = port.map(|port| (any, port).into());
            // Every destination has the lanes' ports: receivers tell modules by them.
            let options =
                SendOptions { local, patience, share_port: opening.others, ..usual.clone() };
            let sender = UdpSender::open(self, &options).map_err(DestinationError::of)?;
            Ok(Box::new(sender) as Box<dyn Destination>)
        };
        match opening.source_ports {
            [] => Ok(vec![open(None)?]),
            ports => ports.iter().map(|port| open(Some(*port))).collect(),
        }
    }
}

impl Destination for UdpSender {
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError> {
        UdpSender::send(self, bytes, stride).map_err(DestinationError::of)
    }

    fn send_batch(&mut self, batch: &Batch) -> Result<(), DestinationError> {
        UdpSender::send_batch(self, batch).map_err(DestinationError::of)
    }

    fn departed(&self) -> Departed {
        let sheet = UdpSender::sheet(self);
        let get = |which: Transmit| sheet.get(which as usize);
        Departed {
            datagrams: get(Transmit::Packets),
            failed: get(Transmit::Failed),
            calls: get(Transmit::Calls),
        }
    }

    fn lossless(&self) -> bool {
        false
    }

    fn wire_bits(&self, payload: usize) -> u64 {
        Wire::usual(self.to().is_ipv6(), payload).bits(payload)
    }

    fn sheet(&self) -> Arc<Sheet> {
        UdpSender::sheet(self)
    }

    fn describe(&self) -> Vec<String> {
        UdpSender::describe(self)
    }
}
