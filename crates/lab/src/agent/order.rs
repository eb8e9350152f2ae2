//! What one end is told to do: every parameter of a receiver or a sender, in ranges, as data.
//!
//! An order becomes the options of `fullcount receive` or `fullcount send`; nothing in it is free text, so
//! an agent runs nothing else. Refuses: values outside their ranges, see [`OrderError`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fullcount_io::endpoint::{BUFFER_MAX, BUFFER_MIN};
use serde::{Deserialize, Serialize};

pub use super::engine::EndEngine;

/// Smallest and largest payload of a numbered packet, bytes.
pub const SIZES: std::ops::RangeInclusive<usize> = 24..=65_507;
/// Longest trial: a week.
const LONGEST: u64 = 7 * 86_400_000;
/// Highest rate, bit/s.
const FASTEST: f64 = 1e12;
/// Core numbers end here.
const CORES: usize = 1024;

/// An order that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("order: {key} {value} is not allowed: {allowed}")]
pub struct OrderError {
    /// Part of the order.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// Allowed range.
    pub allowed: &'static str,
}

/// Size of a socket's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BufferSize {
    /// What a socket has that asks for nothing (`net.core.rmem_default`, `wmem_default`).
    Kernel,
    /// So many bytes, 4 KiB to 1 GiB.
    Bytes(u64),
}

impl BufferSize {
    /// The number to ask for: Linux keeps twice of it, so half the default gives the default.
    fn option(self, default: Option<u64>) -> Option<u64> {
        match self {
            BufferSize::Bytes(n) => Some(n),
            BufferSize::Kernel => default.map(|d| (d / 2).clamp(BUFFER_MIN, BUFFER_MAX)),
        }
    }

    fn check(self, key: &'static str) -> Result<(), OrderError> {
        match self {
            BufferSize::Bytes(n) if !(BUFFER_MIN..=BUFFER_MAX).contains(&n) => {
                Err(OrderError { key, value: n.to_string(), allowed: "4 KiB to 1 GiB" })
            }
            _ => Ok(()),
        }
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// For so many milliseconds.
    Milliseconds(u64),
    /// So many packets.
    Packets(u64),
}

/// A receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveOrder {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port; 0: the system chooses one.
    pub port: u16,
    /// Receive buffer.
    pub buffer: BufferSize,
    /// Engine.
    pub engine: EndEngine,
    /// Interface that it takes packets from, with an engine that does; `None`: the one that has `bind`.
    #[serde(default)]
    pub interface: Option<String>,
    /// Core to be pinned to.
    pub core: Option<usize>,
    /// Kernel's receive time of each packet: a clock read per packet.
    pub timestamps: bool,
    /// Poll without sleeping.
    pub busy_poll: bool,
    /// It ends by itself after so many milliseconds, so that a lost controller leaves nothing running.
    pub at_most_ms: u64,
}

/// A sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The receiver.
    pub to: SocketAddr,
    /// Payload, bytes.
    pub size: usize,
    /// Payload rate, bit/s; `None`: flat out.
    pub bits_per_s: Option<f64>,
    /// How much.
    pub extent: Extent,
    /// Send buffer.
    pub buffer: BufferSize,
    /// Engine.
    pub engine: EndEngine,
    /// Core to be pinned to.
    pub core: Option<usize>,
}

/// One end's part of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Order {
    /// Receive.
    Receive(ReceiveOrder),
    /// Send.
    Send(Send),
}

impl Order {
    /// Verb of the binary.
    pub fn verb(&self) -> &'static str {
        match self {
            Order::Receive(_) => "receive",
            Order::Send(_) => "send",
        }
    }

    /// Core that it is pinned to.
    pub fn core(&self) -> Option<usize> {
        match self {
            Order::Receive(r) => r.core,
            Order::Send(s) => s.core,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first value outside its range.
    pub fn check(&self) -> Result<(), OrderError> {
        let refuse = |key, value: String, allowed| Err(OrderError { key, value, allowed });
        if let Some(core) = self.core().filter(|c| *c >= CORES) {
            return refuse("core", core.to_string(), "0 to 1023");
        }
        match self {
            Order::Receive(r) => {
                r.buffer.check("buffer")?;
                if let Some(name) = &r.interface {
                    let word = |b: u8| b.is_ascii_graphic() && !b"/:?&=%#'".contains(&b);
                    if !r.engine.takes_interface() || name.len() > 15 || !name.bytes().all(word) {
                        let allowed = "a name of 1 to 15 characters, with engine packet or xdp";
                        return refuse("interface", name.clone(), allowed);
                    }
                }
                if !(1..=LONGEST).contains(&r.at_most_ms) {
                    return refuse("at_most_ms", r.at_most_ms.to_string(), "1 ms to 7 days");
                }
            }
            Order::Send(s) => {
                s.buffer.check("buffer")?;
                if !s.engine.sends() {
                    let allowed = "auto, plain, mmsg or gro: the others only receive";
                    return refuse("engine", s.engine.name().to_owned(), allowed);
                }
                if s.to.port() == 0 {
                    return refuse("to", s.to.to_string(), "a port of 1 to 65535");
                }
                if !SIZES.contains(&s.size) {
                    return refuse("size", s.size.to_string(), "24 to 65507 bytes");
                }
                if let Some(rate) = s.bits_per_s.filter(|r| !(1.0..=FASTEST).contains(r)) {
                    return refuse("bits_per_s", rate.to_string(), "1 to 10^12 bit/s");
                }
                match s.extent {
                    Extent::Milliseconds(ms) if !(1..=LONGEST).contains(&ms) => {
                        return refuse("duration", format!("{ms} ms"), "1 ms to 7 days");
                    }
                    Extent::Packets(0) => return refuse("packets", "0".into(), "1 or more"),
                    Extent::Milliseconds(_) | Extent::Packets(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Options of the binary. `buffers` is the host's default of receive and send buffer.
    pub fn options(&self, buffers: (Option<u64>, Option<u64>)) -> Vec<String> {
        let mut o: Vec<String> = vec![self.verb().into()];
        match self {
            Order::Receive(r) => {
                // The kernel's default is that of sockets: packet memory has one of its own.
                let buffer = match &r.interface {
                    Some(name) => {
                        o.push(format!("{}://{name}:{}", r.engine.name(), r.port));
                        o.push("--json".into());
                        r.buffer.option(None)
                    }
                    None => {
                        o.push(format!("udp://{}", SocketAddr::new(r.bind, r.port)));
                        o.extend(["--json", "--engine", r.engine.name()].map(String::from));
                        r.buffer.option(buffers.0)
                    }
                };
                if let Some(bytes) = buffer {
                    o.extend(["--receive-buffer".into(), format!("{bytes}B")]);
                }
                o.extend(["--duration".into(), format!("{}ms", r.at_most_ms)]);
                o.extend(r.timestamps.then(|| "--timestamps".to_owned()));
                o.extend(r.busy_poll.then(|| "--busy-poll".to_owned()));
            }
            Order::Send(s) => {
                let mut url = format!("udp://{}?engine={}", s.to, s.engine.name());
                if let Some(bytes) = s.buffer.option(buffers.1) {
                    url.push_str(&format!("&send_buffer={bytes}B"));
                }
                o.extend(["--to".into(), url, "--source".into(), "sequence".into()]);
                o.extend(["--size".into(), s.size.to_string()]);
                o.extend(s.bits_per_s.iter().flat_map(|b| ["--rate".into(), format!("{b:.0}bps")]));
                o.extend(match s.extent {
                    Extent::Milliseconds(ms) => ["--duration".to_owned(), format!("{ms}ms")],
                    Extent::Packets(n) => ["--count".to_owned(), n.to_string()],
                });
                o.push("--json".into());
            }
        }
        o.extend(self.core().iter().flat_map(|c| ["--core".into(), c.to_string()]));
        o
    }
}

impl Send {
    /// Time that the sending should take; `None` where only the volume is known.
    pub fn expected(&self) -> Option<Duration> {
        match (self.extent, self.bits_per_s) {
            (Extent::Milliseconds(ms), _) => Some(Duration::from_millis(ms)),
            (Extent::Packets(n), Some(rate)) => {
                Some(Duration::from_secs_f64(n as f64 * 8.0 * self.size as f64 / rate))
            }
            (Extent::Packets(_), None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive() -> ReceiveOrder {
        ReceiveOrder {
            bind: "127.0.0.1".parse().unwrap(),
            port: 4711,
            buffer: BufferSize::Bytes(64 << 20),
            engine: EndEngine::Gro,
            interface: None,
            core: Some(1),
            timestamps: false,
            busy_poll: false,
            at_most_ms: 1000,
        }
    }

    fn send() -> Send {
        Send {
            to: "127.0.0.1:4711".parse().unwrap(),
            size: 64,
            bits_per_s: Some(10e9),
            extent: Extent::Milliseconds(10_000),
            buffer: BufferSize::Kernel,
            engine: EndEngine::Plain,
            core: None,
        }
    }

    #[test]
    fn options_are_those_of_the_verbs() {
        let text = |order: Order| order.options((Some(212_992), Some(212_992))).join(" ");
        assert_eq!(
            text(Order::Receive(receive())),
            "receive udp://127.0.0.1:4711 --json --engine gro --receive-buffer 67108864B \
             --duration 1000ms --core 1"
        );
        let more = ReceiveOrder {
            timestamps: true,
            busy_poll: true,
            buffer: BufferSize::Kernel,
            ..receive()
        };
        let text_of = text(Order::Receive(more));
        // Half of rmem_default, which the kernel doubles.
        assert!(text_of.contains("--receive-buffer 106496B"), "{text_of}");
        assert!(text_of.contains("--timestamps --busy-poll"), "{text_of}");
        let link = |engine| ReceiveOrder { engine, interface: Some("eth0".into()), ..receive() };
        let xdp =
            ReceiveOrder { buffer: BufferSize::Kernel, busy_poll: true, ..link(EndEngine::Xdp) };
        assert_eq!(
            text(Order::Receive(xdp)),
            "receive xdp://eth0:4711 --json --duration 1000ms --busy-poll --core 1"
        );
        let ring = text(Order::Receive(link(EndEngine::Packet)));
        assert!(ring.starts_with("receive packet://eth0:4711 --json --receive-buffer"), "{ring}");
        assert_eq!(
            text(Order::Send(send())),
            "send --to udp://127.0.0.1:4711?engine=plain&send_buffer=106496B --source sequence \
             --size 64 --rate 10000000000bps --duration 10000ms --json"
        );
        let flat = Send { bits_per_s: None, extent: Extent::Packets(7), core: Some(2), ..send() };
        assert!(text(Order::Send(flat)).ends_with("--size 64 --count 7 --json --core 2"));
    }

    #[test]
    fn the_length_of_a_trial_is_known_where_it_can_be() {
        assert_eq!(send().expected(), Some(Duration::from_secs(10)));
        let volume = Send { extent: Extent::Packets(1_000_000), size: 1250, ..send() };
        assert_eq!(volume.expected(), Some(Duration::from_secs(1)));
        assert_eq!(Send { bits_per_s: None, ..volume }.expected(), None);
    }

    #[test]
    fn what_is_outside_the_ranges_is_refused_by_name() {
        let on = |name: &str| ReceiveOrder {
            engine: EndEngine::Xdp,
            interface: Some(name.to_owned()),
            ..receive()
        };
        for (order, key) in [
            (Order::Send(Send { size: 23, ..send() }), "size"),
            (Order::Send(Send { size: 65_508, ..send() }), "size"),
            (Order::Send(Send { bits_per_s: Some(f64::NAN), ..send() }), "bits_per_s"),
            (Order::Send(Send { extent: Extent::Packets(0), ..send() }), "packets"),
            (Order::Send(Send { extent: Extent::Milliseconds(0), ..send() }), "duration"),
            (Order::Send(Send { to: "127.0.0.1:0".parse().unwrap(), ..send() }), "to"),
            (Order::Send(Send { core: Some(1024), ..send() }), "core"),
            (Order::Send(Send { engine: EndEngine::Xdp, ..send() }), "engine"),
            (Order::Receive(ReceiveOrder { buffer: BufferSize::Bytes(1), ..receive() }), "buffer"),
            (
                Order::Receive(ReceiveOrder { interface: Some("eth0".into()), ..receive() }),
                "interface",
            ),
            (Order::Receive(on("eth0:9?batch=1")), "interface"),
            (Order::Receive(on("../eth0")), "interface"),
            (Order::Receive(on("an-interface-too-long")), "interface"),
            (Order::Receive(ReceiveOrder { at_most_ms: 0, ..receive() }), "at_most_ms"),
        ] {
            let e = order.check().unwrap_err();
            assert_eq!(e.key, key, "{e}");
        }
        assert!(Order::Send(send()).check().is_ok() && Order::Receive(receive()).check().is_ok());
        assert!(Order::Receive(on("enp1s0f0np0.7")).check().is_ok());
    }

    proptest! {
        #[test]
        fn every_order_survives_the_line(size in SIZES, ms in 1u64..1_000_000, rate: Option<u32>, gro: bool) {
            let engine = if gro { EndEngine::Gro } else { EndEngine::Mmsg };
            let bits_per_s = rate.map(|r| f64::from(r) + 1.0);
            let order = Order::Send(Send {
                size, extent: Extent::Milliseconds(ms), bits_per_s, engine, ..send()
            });
            let text = serde_json::to_string(&order).unwrap();
            prop_assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        }
    }
}
