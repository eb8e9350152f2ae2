//! What the program's source lines are for: folders and files that exist for one field alone, with the reason for each.
//!
//! A file that serves several fields is in none of these groups and counts with the rest, lines that a field added to it included.

/// What belongs to no group.
pub const REST: &str = "the rest";

/// A group's name, and the beginnings of its paths below `crates/` with what stands there.
pub type LineGroup = (&'static str, &'static [(&'static str, &'static str)]);

/// All groups.
pub const GROUPS: [LineGroup; 3] = [
    (
        "spead",
        &[
            ("spead/", "the protocol without I/O"),
            ("io/src/spead/", "heaps over UDP, TCP, captures; the carrier"),
            ("io/src/sys/ready.rs", "waits for a TCP socket of heaps"),
            ("io/src/heaps", "arrays of heaps in .npy files"),
            ("instructions/src/ahead.rs", "memory of heaps asked for before it is written"),
            ("instructions/src/streaming.rs", "payloads of heaps copied past the cache"),
            ("core/src/heaps.rs", "records of named arrays: what heaps become"),
            ("detect/src/heap", "the decoder of heaps"),
            ("sim/src/heap", "the simulated sender of heaps"),
            ("nexus/src/heaps", "arrays of heaps in HDF5"),
            ("web/src/waterfall.rs", "the picture of an array of the newest heaps"),
            ("lab/src/spead/", "the memo's experiments"),
            ("fullcount/src/lab/spead", "their options"),
            ("fullcount/src/spead2", "spead2's own options"),
            ("fullcount/src/receive/heaps.rs", "`receive` of heaps"),
            ("fullcount/src/receive/captured.rs", "whether a capture has heaps"),
            ("fullcount/src/send/heaps.rs", "`send` of heaps"),
        ],
    ),
    (
        "simplified TCP and readout unit",
        &[
            ("stcp/", "the sender without I/O"),
            ("io/src/raw/", "its drivers and its destination"),
            ("io/src/sys/gather.rs", "frames of three parts in one call, for these drivers"),
            ("io/src/sys/tap.rs", "TAP devices, for these drivers"),
            ("io/src/host/unit.rs", "longest unit of an interface, for these drivers"),
            ("io/src/xdp/rings/transmit.rs", "sending by AF_XDP, for these drivers"),
            ("io/src/tcp/", "the source tcp://: many streams with a credit each"),
            ("io/src/sys/epoll.rs", "which of these streams have something"),
            ("io/src/sys/tcp_info.rs", "what the kernel counts of a connection"),
            ("core/src/source/streams.rs", "back-pressure for single streams"),
            ("core/src/source/framing.rs", "how a byte stream is cut into packets"),
            ("core/src/records.rs", "events that are merged of fragments"),
            ("detect/src/fragments", "the readout unit: merges fragments"),
            ("instructions/src/carryless.rs", "checksums of fragments"),
            ("sim/src/fragments", "simulated fragments"),
            ("io/src/record_file", "merged events in a file"),
            ("kafka/src/merged", "merged events on a topic"),
            ("lab/src/stcp/", "congestion, sweep, soak, readout"),
            ("fullcount/src/lab/stcp", "their options"),
        ],
    ),
    (
        "operations",
        &[
            ("log/", "messages: severities, filters, limits"),
            ("export/", "Graphite, files, journal, syslog, Graylog"),
            ("core/src/command", "commands by name, the protocol of the control port"),
            ("core/src/naming.rs", "names of counters that others use"),
            ("core/src/trace.rs", "traces for developers"),
            ("core/src/detector/modules.rs", "names of modules and front ends"),
            ("detect/src/thresholds.rs", "commands about thresholds"),
            ("engine/src/control/", "the control port"),
            ("engine/src/modules.rs", "which modules have sent what"),
            ("engine/src/named.rs", "counters under the chosen names"),
            ("engine/src/pipeline/asked.rs", "commands between two batches"),
            ("engine/src/run/reload.rs", "a configuration that changes in a run"),
            ("io/src/below.rs", "the folder of files that commands begin"),
            ("io/src/capture/change.rs", "commands about captures"),
            ("io/src/host/disks.rs", "counters of disks, for dashboards"),
            ("nexus/src/change.rs", "commands about NeXus files"),
            ("nexus/src/files.rs", "files that follow each other by command"),
            ("web/src/prometheus/about.rs", "process and build, for dashboards"),
            ("web/src/prometheus/host.rs", "the host, for dashboards"),
            ("web/src/server/commands.rs", "commands over HTTP"),
            ("web/src/server/openapi.rs", "their description"),
            ("web/src/server/ready.rs", "readiness for service supervisors"),
            ("lab/src/bench/service", "a run under its operators"),
            ("fullcount/src/lab/bench/service.rs", "its options"),
            ("fullcount/src/catalogue/alerts.rs", "alert rules"),
            ("fullcount/src/catalogue/dashboards", "dashboards"),
            ("fullcount/src/ctl.rs", "the client of the control port"),
            ("fullcount/src/efu", "the event formation unit's options"),
            ("fullcount/src/logging.rs", "what is told on standard error"),
            ("fullcount/src/notify.rs", "readiness and watchdog of systemd"),
            ("fullcount/src/top", "a running service in the terminal"),
        ],
    ),
];

/// The group that the file at `path` belongs to.
pub fn of(path: &str) -> &'static str {
    let below = path.strip_prefix("crates/").unwrap_or(path);
    let has = |(_, paths): &&LineGroup| paths.iter().any(|(begin, _)| below.starts_with(begin));
    GROUPS.iter().find(has).map_or(REST, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_a_group_leads_to_a_file() {
        let crates = crate::place::root().join("crates");
        for (begin, _) in GROUPS.iter().flat_map(|(_, paths)| paths.iter()) {
            // A beginning such as `detect/src/heap` is a file, a folder, or both.
            let there = [(*begin).to_owned(), format!("{begin}.rs")].map(|path| crates.join(path));
            assert!(there.iter().any(|path| path.exists()), "{begin}");
        }
    }

    #[test]
    fn a_file_is_in_its_group_or_in_the_rest() {
        assert_eq!(of("crates/detect/src/heap/reader.rs"), "spead");
        assert_eq!(of("crates/detect/src/heap.rs"), "spead");
        assert_eq!(of("crates/io/src/tcp/source.rs"), "simplified TCP and readout unit");
        assert_eq!(of("crates/log/src/lib.rs"), "operations");
        assert_eq!(of("crates/io/src/udp/receive.rs"), REST);
        assert_eq!(of("crates/detect/src/detector.rs"), REST);
    }
}
