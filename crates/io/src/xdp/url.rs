//! `xdp://INTERFACE:PORT?key=value&…`: datagrams taken from an interface's driver; the keys that only this engine has.
//!
//! Source: `docs/engines.md`.

use std::time::Duration;

use fullcount_core::url::{SWITCH, Scheme, SchemeKey};

use crate::interface::url::InterfaceUrl;
use crate::udp::url::{MOST_NAP, NAP_TAKES};

/// Nap of an AF_XDP receiver: 3,000 of the smallest frames at 10 Gb/s, a fifth of the 16,384 places in its rings.
const NAP: Duration = Duration::from_micros(200);

/// Where in the kernel the filter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// In the driver if possible, otherwise in the stack.
    #[default]
    Auto,
    /// In the driver, or fail.
    Native,
    /// In the stack.
    Generic,
}

/// `xdp://INTERFACE:PORT?key=value&…`
pub type XdpUrl = InterfaceUrl<XdpKeys>;

/// What only `xdp://` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpKeys {
    /// One receive queue, from 0. Default: all.
    pub queue: Option<u32>,
    /// Where the filter runs.
    pub mode: XdpMode,
    /// Whether the card writes into our memory itself. Default: if it can.
    pub zero_copy: Option<bool>,
    /// Sleep in the middle of a stream instead of being woken by each arrival, at most 10 ms; 0: never.
    pub nap: Duration,
    /// Do the card's work on the receiving thread.
    pub busy_poll: bool,
}

impl Default for XdpKeys {
    fn default() -> XdpKeys {
        XdpKeys { queue: None, mode: XdpMode::Auto, zero_copy: None, nap: NAP, busy_poll: false }
    }
}

impl Scheme for XdpUrl {
    const NAME: &'static str = "xdp";
    const FORM: &'static str = "xdp://INTERFACE:PORT, for example xdp://eth0:9000";
    const KEYS: &'static [SchemeKey<XdpUrl>] = &[
        XdpUrl::ADDRESS,
        SchemeKey::told(
            "queue",
            "a number from 0 to 4095",
            "all queues of the interface",
            "only this receive queue",
            |x, v| v.within(0..=4095).map(|n| x.own.queue = Some(n)),
        ),
        SchemeKey::told(
            "mode",
            "auto, native or generic",
            "`auto`: native, else generic",
            "where the filter runs: in the driver, or in the stack",
            |x, v| {
                let modes = [
                    ("auto", XdpMode::Auto),
                    ("native", XdpMode::Native),
                    ("generic", XdpMode::Generic),
                ];
                v.one_of(&modes).map(|mode| x.own.mode = mode)
            },
        ),
        SchemeKey::told(
            "zero_copy",
            SWITCH,
            "if the driver can",
            "the card writes into our memory itself: must, or must not",
            |x, v| v.switch().map(|on| x.own.zero_copy = Some(on)),
        ),
        XdpUrl::CHECKSUM,
        XdpUrl::buffer(
            "packet memory for each queue, rounded down to a power of two of chunks, at least 64",
        ),
        XdpUrl::BATCH,
        XdpUrl::SPIN,
        SchemeKey::told(
            "nap",
            NAP_TAKES,
            "200 µs",
            "in the middle of a stream sleep so long instead of being woken by each arrival",
            |x, v| v.duration(Duration::ZERO..=MOST_NAP).map(|nap| x.own.nap = nap),
        ),
        SchemeKey::told(
            "busy_poll",
            SWITCH,
            "0",
            "do the card's own work on the receiving thread (`SO_PREFER_BUSY_POLL`); with \
             `spin` without ever sleeping",
            |x, v| v.switch().map(|on| x.own.busy_poll = on),
        ),
    ];

    fn at(at: &str) -> Result<XdpUrl, String> {
        XdpUrl::of_place(at)
    }
}
