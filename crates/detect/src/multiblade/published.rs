//! Names that the event formation unit has for this detector and its counters. Source: `control-and-monitoring.md` sections 4.4, 4.5.

use fullcount_core::naming::{PublishedNames, theirs};

/// Today's and those of 2018; what has the same name in both stands first all the same, for scripts ask for the first counter.
pub const PUBLISHED: PublishedNames = PublishedNames {
    modules: &["mbcaen"],
    module_2018: "mbcaen",
    now: &[
        theirs("receive.packets", &["receive.packets"]),
        theirs("receive.bytes", &["receive.bytes"]),
        theirs("receive.dropped", &["receive.dropped"]),
        theirs("receive.idle", &["thread.input_idle"]),
        theirs("thread.input_idle", &["thread.input_idle"]),
        theirs("headers.packet_bad_header", &["errors.header"]),
        theirs("headers.error_version", &["errors.header.version"]),
        theirs("headers.seq_errors", &["readouts.seq_errors"]),
        theirs("readouts.2D_x", &["readouts.2d_x"]),
        theirs("readouts.2D_y", &["readouts.2d_y"]),
        theirs("readouts.1D_y", &["readouts.1d_y"]),
        theirs("readouts.discard.1D", &["readouts.discard_1d"]),
        theirs("readouts.discard.strips", &["readouts.discard_strips"]),
        theirs("readouts.count_valid", &["readouts.good"]),
        theirs("readouts.invalid_ch", &["readouts.invalid_channel"]),
        theirs("readouts.large_tof", &["readouts.tof_large"]),
        theirs("monitor.count", &["events.monitor"]),
        theirs("events.2D", &["events.2d"]),
        theirs("events.1D", &["events.1d"]),
        theirs("events.wiremult_single", &["events.wire_mult_single"]),
        theirs("events.wiremult_twoplus", &["events.wire_mult_two_plus"]),
        theirs("events.strip_gaps", &["events.invalid_strip_gap"]),
        theirs("events.wiregap.count", &["events.wire_gap_count"]),
        theirs("events.wiregap.invalid", &["events.wire_gap_invalid"]),
        theirs("events.max_tof_ns", &["events.max_tof"]),
        theirs("kafka.ev_errors", &["kafka.errors"]),
    ],
    of_2018: &[
        theirs("input.rx_packets", &["receive.packets"]),
        theirs("input.rx_bytes", &["receive.bytes"]),
        theirs("input.fifo1_push_errors", &["receive.dropped"]),
        theirs("processing.rx_readouts", &["readouts.count"]),
        theirs("processing.rx_idle1", &["thread.processing_idle"]),
        theirs("processing.tx_bytes", &["transmit.bytes"]),
        theirs("processing.rx_events", &["events.count"]),
        theirs("processing.rx_geometry_errors", &["events.geometry_errors"]),
        theirs("processing.fifo_seq_errors", &["thread.fifo_synch_errors"]),
    ],
    not_taken: &[],
};
