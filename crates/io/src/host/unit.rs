//! How long a unit of several TCP segments an interface takes in one piece (`gso_ipv4_max_size`, Linux 6.3; "BIG TCP").
//!
//! 64 KiB unless somebody sets more: the card, or its driver, must be able to cut them. In the calling thread's network namespace.
//! Sources: `linux/if_link.h`, `Documentation/networking/` of the kernel, ip-link(8).

use std::io;

use super::netlink::{self, attributes, number, text};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// The fixed part of these messages (`struct ifinfomsg`), bytes.
const INFO: usize = 16;

/// Longest unit of an interface, bytes with headers; `None` where the kernel does not tell.
pub fn longest_unit(interface: &str) -> Option<u32> {
    let answers = netlink::list(RTM_GETLINK, &[0; INFO]).ok()?;
    let of = |body: &[u8]| {
        let value = |kind| attributes(body.get(INFO..)?).find(|(k, _)| *k == kind).map(|(_, v)| v);
        (text(value(IFLA_IFNAME)?) == interface).then(|| value(IFLA_GSO_IPV4_MAX_SIZE).map(number))
    };
    answers.iter().filter(|(kind, _)| *kind == RTM_NEWLINK).find_map(|(_, body)| of(body))?
}

/// Sets it: to at least 64 KiB and what the interface can do. A kernel that does not know it leaves everything as it is.
///
/// # Errors
/// The system's error: no such interface, more than it can do, not root.
pub fn set_longest_unit(interface: &str, bytes: u32) -> io::Result<()> {
    let mut name = interface.as_bytes().to_vec();
    name.push(0);
    let mut body = vec![0; INFO];
    for (kind, value) in [(IFLA_IFNAME, &name[..]), (IFLA_GSO_IPV4_MAX_SIZE, &bytes.to_ne_bytes())]
    {
        let len = u16::try_from(4 + value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        body.extend(len.to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    netlink::order(RTM_NEWLINK, &body)
}
