//! The URLs `xdp://` and `packet://`: a place `INTERFACE:PORT`, the keys that both have, and those of the engine.
//!
//! Refuses invalid interface names, and port 0: there is no socket whose port the system could choose.
//! Source: `docs/engines.md`.

use std::fmt;
use std::net::IpAddr;

use fullcount_core::text::is_control;
use fullcount_core::url::{NotTaken, SWITCH, Scheme, SchemeKey, authority, port};

use crate::udp::url::{BUFFER, BUFFER_TAKES};

/// `SCHEME://INTERFACE:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceUrl<K> {
    /// Name of the interface, 1 to 15 bytes.
    pub interface: String,
    /// UDP destination port, 1..=65535.
    pub port: u16,
    /// Destination address; a group is joined. Default: any.
    pub address: Option<IpAddr>,
    /// Whether UDP checksums are verified. Default: yes.
    pub verify: bool,
    /// Packet memory of a queue, or the ring, in bytes, 4 KiB..=1 GiB.
    pub receive_buffer: Option<u64>,
    /// Most datagrams a receive call, 1..=4096. Default: 256; of 64 B they are 16 KiB of a first-level cache.
    pub batch: u16,
    /// Poll without sleeping: lowest loss, one core at 100 %.
    pub spin: bool,
    /// What only this engine has.
    pub own: K,
}

impl<K: Default> InterfaceUrl<K> {
    /// The URL without any key.
    pub fn new(interface: &str, port: u16) -> InterfaceUrl<K> {
        InterfaceUrl {
            interface: interface.into(),
            port,
            address: None,
            verify: true,
            receive_buffer: None,
            batch: 256,
            spin: false,
            own: K::default(),
        }
    }
}

impl<K> fmt::Display for InterfaceUrl<K>
where
    InterfaceUrl<K>: Scheme,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", Self::NAME, self.interface, self.port)
    }
}

impl<K> InterfaceUrl<K> {
    /// `address`.
    pub(crate) const ADDRESS: SchemeKey<InterfaceUrl<K>> = SchemeKey::told(
        "address",
        "an IPv4 or IPv6 address",
        "any",
        "only datagrams to this address; a group is joined",
        |url, given| {
            let text = given.text()?;
            let plain = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
            url.address = Some(plain.parse().map_err(|_| NotTaken::Other)?);
            Ok(())
        },
    );
    /// `checksum`.
    pub(crate) const CHECKSUM: SchemeKey<InterfaceUrl<K>> = SchemeKey::told(
        "checksum",
        "verify or off",
        "`verify`",
        "look at UDP checksums",
        |url, given| given.one_of(&[("verify", true), ("off", false)]).map(|on| url.verify = on),
    );
    /// `batch`.
    pub(crate) const BATCH: SchemeKey<InterfaceUrl<K>> = SchemeKey::told(
        "batch",
        "a number from 1 to 4096",
        "256",
        "most datagrams a call",
        |url, given| given.within(1..=4096).map(|n| url.batch = n),
    );
    /// `spin`.
    pub(crate) const SPIN: SchemeKey<InterfaceUrl<K>> = SchemeKey::told(
        "spin",
        SWITCH,
        "0",
        "poll without sleeping; `--busy-poll` is the same",
        |url, given| given.switch().map(|on| url.spin = on),
    );

    /// `receive_buffer`: what it is.
    pub(crate) const fn buffer(about: &'static str) -> SchemeKey<InterfaceUrl<K>> {
        let default = "`source.receive_buffer`";
        SchemeKey::told("receive_buffer", BUFFER_TAKES, default, about, |url, given| {
            given.size(BUFFER).map(|bytes| url.receive_buffer = Some(bytes))
        })
    }
}

impl<K: Default> InterfaceUrl<K>
where
    InterfaceUrl<K>: Scheme,
{
    /// A URL without keys: name of the interface, and the port.
    pub(crate) fn of_place(place: &str) -> Result<InterfaceUrl<K>, String> {
        let at = authority::<Self>(place)?;
        let (name, number) = at.rsplit_once(':').ok_or("the port is missing")?;
        if name.is_empty() {
            return Err("the interface is missing".into());
        }
        if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
            return Err(format!("'{name}' is an address: give the interface, and ?address={name}"));
        }
        // What the kernel allows (dev_valid_name), and nothing that steers a terminal.
        let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || is_control(c);
        if name.len() > 15 || name.contains(wrong) {
            return Err(format!("no interface can be called '{name}'"));
        }
        Ok(InterfaceUrl::new(name, port(number, 1..=u16::MAX)?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::endpoint::{Endpoint, XdpMode, XdpUrl};

    fn refusal(url: &str) -> String {
        url.parse::<Endpoint>().expect_err(url).to_string()
    }

    #[test]
    fn every_key_of_both_schemes() {
        let plain: Endpoint = "xdp://eth0:9000".parse().unwrap();
        assert_eq!(plain, Endpoint::Xdp(XdpUrl::new("eth0", 9000)));
        let url = "XDP://enp1s0f0np0:9/?address=239.1.2.3&queue=3&mode=generic&zero_copy=0&\
                   checksum=off&receive_buffer=8MiB&batch=64&spin&busy_poll=1&nap=50us";
        let Ok(Endpoint::Xdp(x)) = url.parse() else { panic!("{url}") };
        assert_eq!(x.to_string(), "xdp://enp1s0f0np0:9");
        assert_eq!((x.address, x.own.queue), (Some("239.1.2.3".parse().unwrap()), Some(3)));
        assert_eq!((x.own.mode, x.own.zero_copy), (XdpMode::Generic, Some(false)));
        assert_eq!((x.receive_buffer, x.batch, x.spin), (Some(8 << 20), 64, true));
        assert!(!x.verify && x.own.busy_poll && x.own.nap == Duration::from_micros(50));
        let url = "packet://lo:9?address=[::1]&checksum=verify&receive_buffer=8MiB&batch=4096&\
                   block_timeout=10ms&spin";
        let Ok(Endpoint::Packet(p)) = url.parse() else { panic!("{url}") };
        assert_eq!(
            (p.to_string(), p.address),
            ("packet://lo:9".into(), Some("::1".parse().unwrap()))
        );
        assert_eq!((p.verify, p.batch, p.spin, p.own.block_timeout_ms), (true, 4096, true, 10));
    }

    #[test]
    fn each_wrong_place_or_value_gets_its_own_sentence() {
        for (url, parts) in [
            ("xdp:eth0:9", ["'//' is missing after 'xdp:'", "xdp://eth0:9000"]),
            ("xdp://eth0", ["the port is missing", "INTERFACE:PORT"]),
            ("xdp://:9", ["the interface is missing", "xdp://"]),
            ("xdp://10.0.0.1:9", ["'10.0.0.1' is an address", "?address=10.0.0.1"]),
            ("xdp://[::1]:9", ["is an address", "xdp://"]),
            ("xdp://eth0:0", ["port '0'", "1 to 65535"]),
            ("xdp://eth0:+9", ["port '+9'", "1 to 65535"]),
            ("xdp://a0123456789abcdef:9", ["no interface can be called", "xdp://"]),
            ("packet://a b:9", ["no interface can be called 'a b'", "packet://"]),
            ("xdp://e:9?queue=-1", ["queue=-1", "0 to 4095"]),
            ("xdp://e:9?mode=skb", ["mode=skb", "auto, native or generic"]),
            ("xdp://e:9?checksum=1", ["checksum=1", "verify or off"]),
            ("xdp://e:9?batch=0", ["batch=0", "1 to 4096"]),
            ("xdp://e:9?address=host", ["address=host", "IPv4 or IPv6"]),
            ("xdp://e:9?ttl=1", ["'ttl' for xdp", "queue"]),
            ("packet://e:9?queue=1", ["'queue' for packet", "block_timeout"]),
            ("packet://e:9?block_timeout=2s", ["block_timeout=2s", "1ms to 1s"]),
            ("packet://e:9?block_timeout=1us", ["block_timeout=1us", "1ms to 1s"]),
        ] {
            let told = refusal(url);
            assert!(parts.iter().all(|p| told.contains(p)), "{told}");
        }
    }
}
