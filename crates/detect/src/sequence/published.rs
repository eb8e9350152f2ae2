//! Names that the event formation unit has for this detector and its counters. Source: `control-and-monitoring.md` sections 4.4, 4.5.

use fullcount_core::naming::{PublishedNames, theirs};

/// Today's and those of 2018; what has the same name in both stands first all the same, for scripts ask for the first counter.
pub const PUBLISHED: PublishedNames = PublishedNames {
    modules: &["udp"],
    module_2018: "udp",
    now: &[
        theirs("receive.packets", &["receive.packets"]),
        theirs("receive.bytes", &["receive.bytes"]),
        theirs("receive.dropped", &["receive.dropped"]),
    ],
    of_2018: &[theirs("rx_packets", &["receive.packets"]), theirs("rx_bytes", &["receive.bytes"])],
    not_taken: &[],
};
