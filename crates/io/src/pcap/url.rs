//! `pcap:FILE?preload&repeat=N&shift&…`: datagrams recorded in a file, and how they are played.
//!
//! Parsing opens no file. A file name cannot hold `?`. Refuses a URL without a file, two speeds, and values that a key
//! does not allow. Source: `docs/architecture.md`, "Endpoints are URLs".

use std::fmt;
use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;

use fullcount_core::url::{NotTaken, SWITCH, Scheme, SchemeKey};

/// How often a capture is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// So many times; 1 is once.
    Times(NonZeroU64),
    /// Until stopped.
    Forever,
}

/// How fast a capture is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PcapSpeed {
    /// As recorded.
    Recorded,
    /// So many times faster, 0.000001..=1000000.
    Factor(f64),
    /// As fast as possible: back-pressure instead of loss.
    FlatOut,
}

/// Which packets of a capture count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// IPv4 and IPv6; fragments are put together.
    Any,
    /// Unfragmented IPv4 datagrams: for readouts whose format allows no others.
    WholeV4,
    /// Of these, what has no VLAN tag, in captures of Ethernet and the first form of Linux cooked frames: as spead2 reads them.
    PlainV4,
}

/// `pcap:FILE?key=value&…`
#[derive(Debug, Clone, PartialEq)]
pub struct PcapUrl {
    /// Capture file, pcap or pcapng.
    pub path: PathBuf,
    /// Read the whole file into memory first.
    pub preload: bool,
    /// How often.
    pub repeat: Repeat,
    /// Move counters and times on with each repeat.
    pub shift: bool,
    /// How fast.
    pub speed: PcapSpeed,
    /// Each packet keeps its own recorded time: only those of the same time make a train.
    pub exact_times: bool,
    /// Only datagrams to this UDP destination port, 1..=65535.
    pub port: Option<u16>,
    /// Which packets count; `None`: as in the detector's format, otherwise any.
    pub ip: Option<Ip>,
}

impl PcapUrl {
    /// The file played once at recorded speed.
    pub fn new(path: impl Into<PathBuf>) -> PcapUrl {
        PcapUrl {
            path: path.into(),
            preload: false,
            repeat: Repeat::Times(NonZeroU64::MIN),
            shift: false,
            speed: PcapSpeed::Recorded,
            exact_times: false,
            port: None,
            ip: None,
        }
    }
}

impl fmt::Display for PcapUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pcap:{}", self.path.display())
    }
}

impl Scheme for PcapUrl {
    const NAME: &'static str = "pcap";
    const FORM: &'static str = "pcap:FILE, for example pcap:run.pcapng?flat-out";
    const KEYS: &'static [SchemeKey<PcapUrl>] = &[
        SchemeKey::told("preload", SWITCH, "0", "read the whole file into memory first", |p, v| {
            v.switch().map(|on| p.preload = on)
        }),
        SchemeKey::told(
            "repeat",
            "a number from 1 or 'forever'",
            "1",
            "how often it is played",
            |p, v| {
                p.repeat = match v.text()? {
                    "forever" => Repeat::Forever,
                    _ => Repeat::Times(v.parse()?),
                };
                Ok(())
            },
        ),
        SchemeKey::told(
            "shift",
            SWITCH,
            "0",
            "move counters and times on with each repeat, so that it is one long run",
            |p, v| v.switch().map(|on| p.shift = on),
        ),
        SchemeKey::told(
            "speed",
            "a factor from 0.000001 to 1000000",
            "1",
            "so many times the recorded speed; not together with `flat-out`",
            |p, v| {
                let factor = v.within(1e-6..=1e6)?;
                if p.speed == PcapSpeed::FlatOut {
                    return Err(NotTaken::Excluded("flat-out"));
                }
                p.speed = PcapSpeed::Factor(factor);
                Ok(())
            },
        ),
        SchemeKey::told(
            "flat-out",
            SWITCH,
            "0",
            "as fast as it is taken; nothing can be lost",
            |p, v| {
                match (v.switch()?, p.speed) {
                    (false, _) => {}
                    (true, PcapSpeed::Factor(_)) => return Err(NotTaken::Excluded("speed")),
                    (true, _) => p.speed = PcapSpeed::FlatOut,
                }
                Ok(())
            },
        ),
        SchemeKey::told(
            "exact-times",
            SWITCH,
            "0",
            "each packet keeps its own recorded time: trains hold only packets of the same \
             time, so replay is slower",
            |p, v| v.switch().map(|on| p.exact_times = on),
        ),
        SchemeKey::told(
            "port",
            "a UDP port from 1 to 65535",
            "all",
            "only datagrams to this UDP port",
            |p, v| v.parse().map(|port: NonZeroU16| p.port = Some(port.get())),
        ),
        SchemeKey::told(
            "ip",
            "any, whole-v4 or plain-v4",
            "`any`, unless the detector's format knows only whole IPv4 packets; `plain-v4` with compat=spead2",
            "`whole-v4`: IPv6 and fragments are left out, and counted; `plain-v4`: so are frames with a VLAN tag; link types other than Ethernet and Linux cooked v1 are an error",
            |p, v| {
                let names =
                    [("any", Ip::Any), ("whole-v4", Ip::WholeV4), ("plain-v4", Ip::PlainV4)];
                v.one_of(&names).map(|ip| p.ip = Some(ip))
            },
        ),
    ];

    fn at(place: &str) -> Result<PcapUrl, String> {
        // `pcap:///data/run.pcap` is the same file as `pcap:/data/run.pcap`.
        let path = place.strip_prefix("//").filter(|p| p.starts_with('/')).unwrap_or(place);
        if path.is_empty() { Err("it names no file".into()) } else { Ok(PcapUrl::new(path)) }
    }
}
