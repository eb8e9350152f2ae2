//! Three namespaces in a row: a sender's, the emulator's, a receiver's.
//!
//! The two outer ones share one IP network through the emulator, as two hosts on a cable do: 10.202.0.1 and
//! 10.202.0.2, `fdfc:202::1` and `fdfc:202::2`. Segments are cut at the outer ends, so that each packet is
//! a frame of its own; checksums may stay open, the emulator hands them on. Refuses: see
//! [`NamespaceError`].

use std::net::{IpAddr, Ipv4Addr};

use crate::lossless::place::ReadyPlace;
use crate::namespace::{Layout, NamespaceError, NamespaceNetwork, VethPair};

use super::{Emulator, EmulatorError, EmulatorPlan, Unmerged};

/// Offloads by which a sender gives out trains.
const CUT: [&str; 4] = [
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
];
/// Namespaces: sender, emulator, receiver.
const SENDER: usize = 0;
const MIDDLE: usize = 1;
const RECEIVER: usize = 2;

/// Addresses of sender and receiver.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 202, 0, 1), Ipv4Addr::new(10, 202, 0, 2)];
const ADDRESSES_V6: [&str; 2] = ["fdfc:202::1", "fdfc:202::2"];

/// Makes the namespaces with links of `mtu` bytes.
///
/// # Errors
/// See [`NamespaceError`]; nothing is left behind.
pub fn build(mtu: usize) -> Result<NamespaceNetwork, NamespaceError> {
    let cut = |mut link: VethPair| {
        link.offloads.extend(CUT.map(|name| (name.to_owned(), false)));
        link.segments_cut()
    };
    let links = vec![
        cut(VethPair::between(SENDER, MIDDLE, mtu)),
        cut(VethPair::between(MIDDLE, RECEIVER, mtu)),
    ];
    let layout = Layout { purpose: "emulator".into(), hosts: 3, links };
    let network = NamespaceNetwork::build(&layout)?;
    let ends = [(SENDER, network.interface(0)), (RECEIVER, network.interface(1))];
    // The middle is a cable and has no address; the ends are neighbours.
    for (host, interface) in
        ends.iter().chain([&(MIDDLE, ends[0].1.clone()), &(MIDDLE, ends[1].1.clone())])
    {
        network.ip(*host, ["address", "flush", "dev", interface, "scope", "global"])?;
        network.ip(*host, ["neighbour", "flush", "dev", interface])?;
    }
    for n in [0, 1] {
        let (host, interface) = &ends[n];
        let (far, far_interface) = &ends[1 - n];
        let mac = network.hardware_address(*far, far_interface)?;
        let own = format!("{}/24", ADDRESSES[n]);
        network.ip(*host, ["address", "add", &own, "dev", interface])?;
        let mut neighbours = vec![ADDRESSES[1 - n].to_string()];
        if mtu >= 1280 {
            let own = format!("{}/64", ADDRESSES_V6[n]);
            network.ip(*host, ["-6", "address", "add", &own, "dev", interface, "nodad"])?;
            neighbours.push(ADDRESSES_V6[1 - n].to_owned());
        }
        for address in &neighbours {
            let words = ["neighbour", "replace", address, "lladdr", &mac, "dev", interface];
            network.ip(*host, words.into_iter().chain(["nud", "permanent"]))?;
        }
    }
    Ok(network)
}

/// Starts the emulator in the middle; `plan`'s interfaces are replaced by those there.
pub fn start(network: &NamespaceNetwork, plan: &EmulatorPlan) -> Result<Emulator, EmulatorError> {
    let plan =
        EmulatorPlan { interfaces: [network.interface(0), network.interface(1)], ..plan.clone() };
    let started = network.inside(MIDDLE, || {
        // The namespace goes with the network, so nothing has to be switched on again.
        std::mem::forget(Unmerged::at(&plan.interfaces));
        Emulator::start(&plan)
    });
    started.map_err(|cause| EmulatorError::System { what: "enter the namespace".into(), cause })?
}

/// Names of the outer namespaces, for `ip netns exec`.
pub fn names(network: &NamespaceNetwork) -> [&str; 2] {
    [network.name(SENDER), network.name(RECEIVER)]
}

/// The outer namespaces as a place for trials.
pub fn place(network: NamespaceNetwork) -> ReadyPlace {
    ReadyPlace::across("link-emulator", network, (SENDER, RECEIVER), IpAddr::V4(ADDRESSES[1]))
}
