//! The parameter sets of a campaign: every knob of a trial in one table, and what `--ablate` switches.
//!
//! `default` is a host as installed: kernel's buffers, MTU 1500. `tuned` is what a reader of the paper would
//! set up: jumbo frames, large buffers, a long backlog. Refuses: a set that is not known by name.

use serde::{Deserialize, Serialize};

use crate::agent::engine::{EndEngine, Method};
use crate::agent::order::BufferSize;

/// Receive buffer of the tuned set: 50 ms at 10 Gb/s.
const TUNED_RECEIVE: u64 = 64 << 20;
/// Send buffer of the tuned set: 3 ms at 10 Gb/s.
const TUNED_SEND: u64 = 4 << 20;
/// `net.core.netdev_max_backlog` of the tuned set, packets: 17 ms of the smallest frames at 10 Gb/s.
const TUNED_BACKLOG: u64 = 250_000;
/// `net.core.netdev_budget` of the tuned set, packets a round; the kernel's own is 300.
const TUNED_BUDGET: u64 = 600;

/// One set: everything that a trial depends on beside size and rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Name in tables and figures.
    pub name: String,
    /// Bytes of the largest IP packet on the link. Set in namespaces; on loopback only counted with, on other
    /// links checked.
    pub mtu: usize,
    /// Receive buffer.
    pub receive_buffer: BufferSize,
    /// Send buffer.
    pub send_buffer: BufferSize,
    /// `net.core.netdev_max_backlog`, packets; `None`: as the host has it.
    pub backlog: Option<u64>,
    /// `net.core.netdev_budget`, packets; `None`: as the host has it.
    pub budget: Option<u64>,
    /// Each end is pinned to its core.
    pub pinned: bool,
    /// Both ends are pinned to the receiver's core.
    pub same_core: bool,
    /// The kernel reads a clock for each packet.
    pub timestamps: bool,
    /// The receiver polls without sleeping.
    pub busy_poll: bool,
    /// How the receiver receives.
    pub receive_engine: EndEngine,
    /// How the sender sends; `gro` is GSO here.
    pub send_engine: EndEngine,
    /// Trains are cut before they cross (`tx-udp-segmentation off`); in namespaces only.
    pub segments_cut: bool,
}

impl Parameters {
    /// A host as installed.
    pub fn kernel() -> Parameters {
        Parameters {
            name: "default".to_owned(),
            mtu: 1500,
            receive_buffer: BufferSize::Kernel,
            send_buffer: BufferSize::Kernel,
            backlog: None,
            budget: None,
            pinned: true,
            same_core: false,
            timestamps: false,
            busy_poll: false,
            receive_engine: EndEngine::Gro,
            send_engine: EndEngine::Gro,
            segments_cut: false,
        }
    }

    /// Jumbo frames, large buffers, a long backlog.
    pub fn tuned() -> Parameters {
        Parameters {
            name: "tuned".to_owned(),
            mtu: 9000,
            receive_buffer: BufferSize::Bytes(TUNED_RECEIVE),
            send_buffer: BufferSize::Bytes(TUNED_SEND),
            backlog: Some(TUNED_BACKLOG),
            budget: Some(TUNED_BUDGET),
            ..Parameters::kernel()
        }
    }

    /// The set called so.
    pub fn named(name: &str) -> Option<Parameters> {
        match name {
            "default" => Some(Parameters::kernel()),
            "tuned" => Some(Parameters::tuned()),
            _ => None,
        }
    }

    /// The same with another way to receive and send.
    pub fn with_method(self, method: Method) -> Parameters {
        Parameters { receive_engine: method.receive, send_engine: method.send, ..self }
    }

    /// The sets that differ from this one in one thing, named after it. `link_is_ours`: MTU and cutting can
    /// be changed. `beside`: ways to receive that the place has besides plain sockets.
    pub fn ablations(&self, link_is_ours: bool, beside: &[Method]) -> Vec<Parameters> {
        let kernel = Parameters::kernel();
        let set = |name: &str| Parameters { name: name.to_owned(), ..self.clone() };
        let mut all = Vec::new();
        if link_is_ours && self.mtu != kernel.mtu {
            all.push(Parameters { mtu: kernel.mtu, ..set("MTU 1500") });
        }
        if self.receive_buffer != BufferSize::Kernel || self.send_buffer != BufferSize::Kernel {
            let (receive_buffer, send_buffer) = (BufferSize::Kernel, BufferSize::Kernel);
            all.push(Parameters { receive_buffer, send_buffer, ..set("kernel's buffers") });
        }
        if self.backlog.is_some() || self.budget.is_some() {
            all.push(Parameters { backlog: None, budget: None, ..set("host's backlog") });
        }
        all.push(Parameters { pinned: false, same_core: false, ..set("not pinned") });
        all.push(Parameters { pinned: true, same_core: true, ..set("same core") });
        all.push(Parameters { timestamps: true, ..set("clock per packet") });
        if self.send_engine == EndEngine::Gro {
            all.push(Parameters { send_engine: EndEngine::Mmsg, ..set("no GSO") });
        }
        if self.receive_engine == EndEngine::Gro {
            all.push(Parameters { receive_engine: EndEngine::Mmsg, ..set("no GRO") });
        }
        if self.send_engine == EndEngine::Gro || self.receive_engine == EndEngine::Gro {
            let (receive_engine, send_engine) = (EndEngine::Mmsg, EndEngine::Mmsg);
            all.push(Parameters { receive_engine, send_engine, ..set("no offload") });
        }
        let (receive_engine, send_engine) = (EndEngine::Plain, EndEngine::Plain);
        all.push(Parameters { receive_engine, send_engine, ..set("no batch") });
        for m in beside.iter().filter(|m| m.receive != self.receive_engine) {
            all.push(Parameters { receive_engine: m.receive, ..set(m.name) });
        }
        all.push(Parameters { busy_poll: true, ..set("busy poll") });
        if link_is_ours && !self.segments_cut {
            all.push(Parameters { segments_cut: true, ..set("trains cut") });
        }
        all
    }

    /// What of the link, beside its ends, this set wants: sets that agree share a link.
    pub fn link(&self) -> (usize, bool) {
        (self.mtu, self.segments_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ablation_differs_in_one_thing_and_has_a_name_of_its_own() {
        let base = Parameters::tuned();
        let all = base.ablations(true, &[Method::URING, Method::PACKET, Method::XDP]);
        let mut names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
        for name in ["MTU 1500", "no GSO", "no GRO", "no offload", "uring", "packet", "xdp"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for p in &all {
            let (a, b) = (serde_json::to_value(&base).unwrap(), serde_json::to_value(p).unwrap());
            let keys = a.as_object().unwrap().keys().filter(|k| k != &"name" && a[*k] != b[*k]);
            // Buffers, backlog and engines have a knob at each end.
            assert!((1..=2).contains(&keys.count()), "{}", p.name);
        }
        let elsewhere = base.ablations(false, &[]);
        assert!(elsewhere.iter().all(|p| p.link() == base.link()), "the link is not ours");
        let plain = Method::named("plain").unwrap();
        let plain = Parameters::kernel().with_method(plain).ablations(true, &[]);
        assert!(plain.iter().all(|p| p.name != "no GSO" && p.name != "kernel's buffers"));
    }

    #[test]
    fn sets_are_found_by_name_and_read_back() {
        for name in ["default", "tuned"] {
            let p = Parameters::named(name).unwrap();
            assert_eq!(p.name, name);
            let text = serde_json::to_string(&p).unwrap();
            assert_eq!(serde_json::from_str::<Parameters>(&text).unwrap(), p);
        }
        assert_eq!(Parameters::named("best"), None);
    }
}
