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
        theirs("thread.input_idle", &["thread.input_idle"]),
        theirs("tx_bytes", &["transmit.bytes"]),
        theirs("kafka.ev_errors", &["kafka.errors"]),
    ],
    of_2018: &[
        theirs("rx_packets", &["receive.packets"]),
        theirs("rx_bytes", &["receive.bytes"]),
        // It knows no glitches: all of a trigger's readouts count, and those that its event builder does not take are discarded.
        theirs("readouts", &["readouts.count"]),
        theirs("triggers", &["parser_triggers"]),
        theirs(
            "readouts_parse_errors",
            &[
                "errors.container.packet_type",
                "errors.container.short_packet",
                "errors.container.event_header",
                "errors.container.begin_word",
                "errors.container.event_length",
                "errors.container.end_cookie",
                "errors.container.end_word",
            ],
        ),
        theirs(
            "readouts_discarded",
            &["readouts.glitches", "readouts.geometry_errors", "readouts.filtered"],
        ),
        theirs("geometry_errors", &["events_geometry_err"]),
        theirs("events", &["events.count"]),
        theirs("tx_bytes", &["transmit.bytes"]),
    ],
    not_taken: &[(
        "--multigrid-monitor",
        "no hits are streamed; fullcount run --hits keeps them in a file",
    )],
};
