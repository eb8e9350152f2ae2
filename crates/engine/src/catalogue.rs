//! Every counter that this program can have, by part: for `docs/counters.md` and `/metrics`.

use fullcount_core::ledger::{Info, Unit};
use fullcount_core::wall::WallCount;
use fullcount_detect::detector::{Registry, Setup};
use fullcount_io::capture::{Captured, Written};
use fullcount_io::fault::Faults;
use fullcount_io::packet_ring;
use fullcount_io::pcap::Replayed;
use fullcount_io::udp::Receive;
use fullcount_io::xdp::Xdp;

use crate::pipeline::Ring;

/// All lines with the part of the program that they belong to.
pub fn lines() -> Vec<(&'static str, Info)> {
    let mut all: Vec<(&'static str, Vec<Info>)> = vec![
        ("receiving: udp", Receive::catalogue()),
        ("receiving: xdp", Xdp::catalogue()),
        ("receiving: packet", packet_ring::Ring::catalogue()),
        ("receiving: pcap", Replayed::catalogue()),
        ("receiving: faults on purpose (source.fault)", Faults::catalogue()),
        ("ring between two threads", Ring::catalogue()),
        ("times of the host's clock", WallCount::catalogue()),
        ("places of losses on this host", crate::places::Witness::catalogue()),
    ];
    for kind in Registry::builtin().kinds() {
        if let Ok(detector) = kind.configure(&Setup::default()) {
            let mut sheet = detector.reader().sheet().lines().to_vec();
            sheet.extend(detector.builder().sheet().iter().flat_map(|s| s.lines().to_vec()));
            all.push((kind.name(), sheet));
        }
    }
    #[cfg(feature = "nexus")]
    all.push(("output: nexus", fullcount_out::nexus::NexusCounter::catalogue()));
    #[cfg(feature = "tables")]
    for output in [fullcount_out::tables::Output::Hits, fullcount_out::tables::Output::Clusters] {
        let part = match output {
            fullcount_out::tables::Output::Hits => "output: hits",
            fullcount_out::tables::Output::Clusters => "output: clusters",
        };
        all.push((part, output.catalogue()));
    }
    all.push(("output: capture", capture_lines()));
    #[cfg(feature = "kafka")]
    {
        all.push(("receiving: kafka", crate::kafka_source::FromTopic::catalogue()));
        all.push(("output: raw", crate::raw::catalogue()));
    }
    #[cfg(feature = "kafka")]
    all.push(("output: kafka", fullcount_out::kafka::KafkaCounter::catalogue()));
    #[cfg(feature = "kafka")]
    all.push(("reading topics", fullcount_out::kafka::ConsumerCounter::catalogue()));
    #[cfg(feature = "nexus")]
    all.push(("writing files from Kafka", fullcount_out::write::WriteCounter::catalogue()));
    #[cfg(feature = "web")]
    all.push(("output: live page", fullcount_out::live::LiveCounter::catalogue()));
    all.push(("output: null", fullcount_out::null::NullCounter::catalogue()));
    all.push(("all outputs", crate::fanout::Transmit::catalogue()));
    all.push(("queues to the outputs", crate::fanout::queue_lines("<output>", true, Unit::Events)));
    let each = |(part, lines): (&'static str, Vec<Info>)| lines.into_iter().map(move |l| (part, l));
    all.into_iter().flat_map(each).collect()
}

/// Lines of the receiving and of the writing side, each name once.
fn capture_lines() -> Vec<Info> {
    let mut lines = Captured::catalogue();
    let written = Written::catalogue().into_iter();
    lines.extend(written.filter(|l| l.name != "sink.capture.failed"));
    lines
}
