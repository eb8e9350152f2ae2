//! Names that the event formation unit has for this detector and its counters. Source: `control-and-monitoring.md` sections 4.4, 4.5.

use fullcount_core::naming::{PublishedNames, theirs};

/// Today's and those of 2018; what has the same name in both stands first all the same, for scripts ask for the first counter.
pub const PUBLISHED: PublishedNames = PublishedNames {
    modules: &["sonde"],
    module_2018: "sonde",
    now: &[
        theirs("receive.packets", &["receive.packets"]),
        theirs("receive.bytes", &["receive.bytes"]),
        theirs("receive.dropped", &["receive.dropped"]),
        theirs("thread.fifo_synch_errors", &["thread.fifo_synch_errors"]),
        theirs("kafka.ev_errors", &["kafka.errors"]),
    ],
    of_2018: &[
        theirs("input.rx_packets", &["receive.packets"]),
        theirs("input.rx_bytes", &["receive.bytes"]),
        theirs("input.dropped", &["receive.dropped"]),
        theirs("input.rx_seq_errors", &["readouts.seq_errors"]),
        theirs("processing.idle", &["thread.processing_idle"]),
        theirs("processing.rx_events", &["events.count"]),
        theirs("processing.rx_geometry_errors", &["events.geometry_errors"]),
        theirs("processing.rx_seq_errors", &["thread.fifo_synch_errors"]),
        theirs("output.tx_bytes", &["transmit.bytes"]),
    ],
    not_taken: &[],
};
