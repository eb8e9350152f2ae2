//! The output `log`: messages of the program to a file, the journal, syslog, and Graylog.
//!
//! What is said of the run follows from its state ([`changes`]): start, losses by place once a minute, spools, the end. All else comes from
//! who meets it, over `fullcount_log`. A receiver that is gone costs the run nothing; messages wait for it, up to 1 MiB, and are then
//! dropped and counted. Refuses what [`kind`] refuses. Source: `control-and-monitoring.md` section 5, `docs/operations.md`.

mod changes;
mod commands;
mod file;
mod gelf;
mod journal;
mod kind;
mod messages;
mod outlet;
mod section;
mod syslog;
mod target;
mod thread;

pub use kind::Log;
pub use messages::{MessageOutlets, MessagePlan};

fullcount_core::counters! {
    /// What is counted of messages to receivers of logs; none of it is the run's.
    pub enum LogCounter {
        Messages "log.messages" Messages Sum "log" Note "messages, for each receiver" "";
        Dropped "log.dropped" Messages Sum "log" Note "of these, never sent: too many waited, or too long" "look at the receiver (log.file, log.journald, log.syslog, log.gelf): it is gone or too slow";
        Sent "log.sent" Messages Sum "log" Note "of these, handed on to the receiver" "";
        Connections "log.connections" Times Sum "log" Note "connections made to a receiver" "";
        Errors "log.errors" Times Sum "log" Note "connections that failed or broke, messages that the system refused, and files that could not be written" "look at the receiver (log.file, log.journald, log.syslog, log.gelf), and at the network to it";
        Suppressed "log.suppressed" Messages Sum "log" Note "messages left out because one place in the program said more than 100 in 10 s" "look at the messages before: something fails again and again";
    }
}
