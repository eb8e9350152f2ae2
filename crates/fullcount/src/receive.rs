//! `fullcount receive`: the bare receiver, for numbered packets and for SPEAD heaps.

mod captured;
mod heaps;

use clap::Args;

use crate::exit::Failure;
use crate::flags::{EngineFlags, LayFlags as _, Overlay, SourceFlags, endpoints};
use crate::help;

/// The bare receiver of numbered packets (`send --source sequence`): rate, loss, duplicates, reordering,
/// CPU. Other packets are counted and refused; detectors are for `run`. Of spead+ endpoints, and of
/// captures that hold SPEAD packets: SPEAD heaps
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReceiveFlags {
    #[arg(required = true, value_name = "URL", help = help::receive_url())]
    url: Vec<String>,
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    engine: EngineFlags,
    /// Compare every payload byte with the sender's pattern (costs CPU); heaps: with those of `send --verify`
    #[arg(long)]
    verify: bool,
    /// What makes a stream: origin (sender's address and port, and its number) or id (the number alone,
    /// for one stream that comes over several paths) [default: origin]
    #[arg(long, value_name = "origin|id")]
    key: Option<String>,
    /// Address of the live page and /metrics, or off
    #[arg(long, value_name = "ADDR", default_value = "off", help_heading = "Outputs")]
    web: String,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Ends by itself when the end marks of all streams have come; SPEAD heaps: with their stop heap.

Examples:
  fullcount receive udp://0.0.0.0:9000
  fullcount receive udp://127.0.0.1:9000 --core 1 --receive-buffer 64MiB --json
  fullcount receive 'udp://239.1.2.3:9000?interface=10.0.0.1' --duration 10s
  fullcount receive udp://0.0.0.0:9000 --engine uring --core 1
  fullcount receive udp://0.0.0.0:9000 --workers 2 --core 2,3
  fullcount receive udp://10.0.1.1:9000 udp://10.0.2.1:9000 --redundant

  fullcount receive xdp://eth0:9000 --core 2
  fullcount receive 'spead+udp://239.1.2.3:8888?interface=10.0.0.1&max_heaps=8' --json
  fullcount receive 'spead+tcp://0.0.0.0:8888?framing=heap' --verify
  fullcount receive 'pcap:heaps.pcapng?flat-out' --verify
  fullcount receive 'packet://eth0:9000?address=10.0.0.2' --receive-buffer 128MiB";

/// Receives until the end mark, a limit or Ctrl-C.
pub fn receive(mut flags: ReceiveFlags) -> Result<u8, Failure> {
    flags.url = captured::of_heaps(flags.url);
    if heaps::is_meant(&flags.url) {
        return heaps::receive(&flags);
    }
    // A build without the page has no such key: there is nothing to switch off.
    let web = (cfg!(feature = "web") || flags.web != "off").then(|| flags.web.clone());
    let mut o = Overlay::default();
    o.put("source.url", endpoints(&flags.url))
        .source(&flags.source)
        .engine(&flags.engine)
        .put("detector.kind", Some("sequence"))
        .put("web.listen", web)
        .put("output.sink", Some("null"));
    o.put("detector.verify", flags.verify.then_some(true)).put("detector.key", flags.key);
    crate::run::serve("receive", o.read(None)?, flags.json, None)
}
