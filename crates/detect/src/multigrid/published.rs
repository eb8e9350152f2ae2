//! Names that the event formation unit has for this detector and its counters. Source: `control-and-monitoring.md` sections 4.4, 4.5.

use fullcount_core::naming::{PublishedNames, theirs};

/// Today's and those of 2018; what has the same name in both stands first all the same, for scripts ask for the first counter.
pub const PUBLISHED: PublishedNames = PublishedNames {
    modules: &["mgmesytec"],
    module_2018: "mgmesytec",
    now: &[
        theirs("rx_packets", &["receive.packets"]),
        theirs("rx_bytes", &["receive.bytes"]),
        theirs("receive.packets", &["receive.packets"]),
        theirs("receive.bytes", &["receive.bytes"]),
        theirs("receive.dropped", &["receive.dropped"]),
        theirs("rx_idle", &["thread.input_idle"]),
        theirs("tx_bytes", &["transmit.bytes"]),
        theirs("kafka.ev_errors", &["kafka.errors"]),
    ],
    of_2018: &[
        theirs("rx_packets", &["receive.packets"]),
        theirs("rx_bytes", &["receive.bytes"]),
        theirs("readouts", &["readouts_total"]),
        theirs("triggers", &["parser_triggers"]),
        theirs("geometry_errors", &["events_geometry_err"]),
        theirs("events", &["events.count"]),
        theirs("tx_bytes", &["transmit.bytes"]),
    ],
    not_taken: &[(
        "--multigrid-monitor",
        "no hits are streamed; fullcount run --hits keeps them in a file",
    )],
};
