//! The output `graphite`: all counters, once a period, to a Carbon server.
//!
//! One thread takes the counters, one hands them on, both at a low priority: a peer that is gone or takes nothing costs the run
//! nothing, and gets what it missed when it is back, up to 8 MiB. The last piece before a break is sent again: a value at a time
//! replaces itself. Refuses what [`kind`] refuses. Source: `control-and-monitoring.md` section 4.2, `docs/operations.md`.

mod beside;
mod kind;
mod lines;
mod thread;

pub use kind::Graphite;

fullcount_core::counters! {
    /// What is counted of what goes to Graphite; none of it is the run's.
    pub enum GraphiteCounter {
        Snapshots "graphite.snapshots" Messages Sum "graphite" Note "times that all counters were taken for Graphite" "";
        Dropped "graphite.dropped" Messages Sum "graphite" Note "of these, never sent: too many waited" "look at the Carbon server (metrics.graphite): it is gone or too slow";
        Sent "graphite.sent" Messages Sum "graphite" Note "of these, given to the Carbon server" "";
        Lines "graphite.lines" Messages Sum "graphite" Note "values given to it" "";
        Bytes "graphite.bytes" Bytes Sum "graphite" Note "bytes given to it" "";
        Connections "graphite.connections" Times Sum "graphite" Note "connections made" "";
        Errors "graphite.errors" Times Sum "graphite" Note "connections that failed or broke" "look at the Carbon server (metrics.graphite), and at the network to it";
    }
}
