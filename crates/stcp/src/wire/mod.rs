//! Frames on the wire: Ethernet II, ARP, IPv4, TCP, and the two kinds of ICMP that matter. No allocation.
//!
//! Refuses: see [`WireError`]. Source: docs/stcp.md, "Frames"; RFC 791, 792, 826, 9293 section 3.1.

pub mod arp;
pub mod checksum;
pub mod icmp;
pub mod ip;
pub mod tcp;

pub use ip::{Addresses, ChecksumTrust, Packet, parse};
pub use tcp::{Inbound, TcpFlags};

macro_rules! errors {
    ($($name:ident $text:literal)*) => {
        /// Why a frame is dropped. Nothing is answered to any of them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum WireError { $(#[doc = $text] $name),* }

        impl WireError {
            /// All.
            pub const ALL: [WireError; WireError::COUNT] = [$(WireError::$name),*];
            /// How many.
            pub const COUNT: usize = [$(stringify!($name)),*].len();
            /// Its name.
            pub const fn name(self) -> &'static str { match self { $(WireError::$name => stringify!($name)),* } }
            /// What it means.
            pub const fn text(self) -> &'static str { match self { $(WireError::$name => $text),* } }
        }

        impl core::fmt::Display for WireError {
            fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                to.write_str(self.text())
            }
        }

        impl core::error::Error for WireError {}
    };
}

errors! {
    Short "shorter than its headers"
    NotIpv4 "neither IPv4 nor ARP, or another version of IP"
    HeaderLength "IP header length below 20 bytes or beyond the packet"
    HeaderChecksum "wrong IP header checksum"
    TotalLength "IP total length beyond the frame, or below the headers"
    IpFragment "part of a fragmented IP packet"
    OtherAddress "for another address"
    OtherProtocol "neither TCP nor ICMP"
    DataOffset "TCP data offset below 5 or beyond the segment"
    TcpChecksum "wrong TCP checksum"
    IcmpChecksum "wrong ICMP checksum"
}
