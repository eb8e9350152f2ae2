//! Names that the event formation unit has for this detector and its counters. Source: `control-and-monitoring.md` sections 4.4, 4.5.

use fullcount_core::naming::{PublishedNames, theirs};

/// Today's and those of 2018; what has the same name in both stands first all the same, for scripts ask for the first counter.
pub const PUBLISHED: PublishedNames = PublishedNames {
    modules: &["gdgem"],
    module_2018: "nmx",
    now: &[
        theirs("receive.packets", &["receive.packets"]),
        theirs("receive.bytes", &["receive.bytes"]),
        theirs("receive.dropped", &["receive.dropped"]),
        theirs("readouts.good_frames", &["decode.accepted"]),
        theirs("readouts.bad_frames", &["frames.bad"]),
        theirs("readouts.error_bytes", &["frames.error_bytes"]),
        theirs("readouts.frame_seq_errors", &["frames.seq_errors"]),
        theirs("readouts.frame_missing_errors", &["frames.missing_errors"]),
        theirs("readouts.framecounter_overflows", &["frames.counter_overflows"]),
        theirs("readouts.timestamp_seq_errors", &["timestamps.seq_errors"]),
        theirs("readouts.timestamp_lost_errors", &["timestamps.lost_errors"]),
        theirs("readouts.timestamp_overflows", &["timestamps.overflows"]),
        theirs("readouts.markers", &["readouts.all_markers"]),
        theirs("hits.outside_roi", &["hits.outside_region"]),
        theirs("hits.over_threshold", &["readouts.over_threshold"]),
        theirs("clusters.total", &["events.candidates"]),
        theirs("clusters.x", &["events.x_only"]),
        theirs("clusters.y", &["events.y_only"]),
        theirs("clusters.x_and_y", &["events.x_and_y"]),
        theirs("events.good", &["events.count"]),
        theirs(
            "events.filter_rejects",
            &[
                "events.filter.minimum_hits",
                "events.filter.charge_ratio",
                "events.filter.lower_uncertainty",
            ],
        ),
        theirs("events.count", &["events.count"]),
        theirs("kafka.ev_errors", &["kafka.errors"]),
    ],
    of_2018: &[
        theirs("rx_packets", &["receive.packets"]),
        theirs("rx_bytes", &["receive.bytes"]),
        theirs("i2pfifo_dropped", &["receive.dropped"]),
        // Its parser counts hits there, without the markers.
        theirs("readouts", &["readouts.data"]),
        theirs("readouts_error_bytes", &["frames.error_bytes"]),
        // Of events with one plane: their hits, and they themselves.
        theirs("readouts_discarded", &["cluster.unmatched"]),
        theirs("clusters_discarded", &["events.x_only", "events.y_only"]),
        theirs("clusters_events", &["events.count"]),
        theirs("clusters_x", &["events.x_only"]),
        theirs("clusters_y", &["events.y_only"]),
        theirs("clusters_xy", &["events.x_and_y"]),
        theirs("processing_idle", &["thread.processing_idle"]),
        theirs("fifo_seq_errors", &["thread.fifo_synch_errors"]),
        theirs("geom_errors", &["events.geom_errors"]),
        theirs("lost_frames", &["frames.missing_errors"]),
        theirs("bad_frames", &["frames.bad"]),
        theirs("good_frames", &["decode.accepted"]),
        theirs("tx_bytes", &["transmit.bytes"]),
    ],
    not_taken: &[],
};
