//! `packet://INTERFACE:PORT?key=value&…`: copies of an interface's datagrams; the key that only this engine has.
//!
//! Source: `docs/engines.md`.

use std::time::Duration;

use fullcount_core::url::{Scheme, SchemeKey};

use crate::interface::url::InterfaceUrl;

/// `packet://INTERFACE:PORT?key=value&…`
pub type PacketUrl = InterfaceUrl<PacketKeys>;

/// What only `packet://` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketKeys {
    /// Longest time that a block of packets waits for more, ms, 1..=1000. Default 2 ms: too short to notice, and long
    /// compared with the cost of a timer.
    pub block_timeout_ms: u32,
}

impl Default for PacketKeys {
    fn default() -> PacketKeys {
        PacketKeys { block_timeout_ms: 2 }
    }
}

impl Scheme for PacketUrl {
    const NAME: &'static str = "packet";
    const FORM: &'static str = "packet://INTERFACE:PORT, for example packet://eth0:9000";
    const KEYS: &'static [SchemeKey<PacketUrl>] = &[
        PacketUrl::ADDRESS,
        PacketUrl::CHECKSUM,
        PacketUrl::buffer("the ring"),
        PacketUrl::BATCH,
        SchemeKey::told(
            "block_timeout",
            "a time from 1ms to 1s",
            "2ms",
            "longest time that a block of packets waits for more",
            |p, v| {
                let time = v.duration(Duration::from_millis(1)..=Duration::from_secs(1))?;
                p.own.block_timeout_ms = time.as_millis() as u32;
                Ok(())
            },
        ),
        PacketUrl::SPIN,
    ];

    fn at(at: &str) -> Result<PacketUrl, String> {
        PacketUrl::of_place(at)
    }
}
