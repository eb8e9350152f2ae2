//! What the program tells people: `tracing` with the severities of syslog.
//!
//! [`error!`] and its kin tell something. [`hub`] hands a line to the terminal at once and to receivers (file, journal, Graylog, syslog
//! in `export`), none of which may make it wait. [`filter`] says what is told, [`rate`] keeps a call site that repeats itself from
//! flooding, [`terminal`] writes. Never used for packets: what happens to those is counted. Source: `docs/operations.md`,
//! `control-and-monitoring.md` section 5.
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

pub mod filter;
pub mod hub;
pub mod level;
pub mod line;
pub mod rate;
pub mod terminal;
pub mod trace;

pub use filter::LogFilter;
pub use hub::{
    LogAttached, LogReceiver, attach, configure, filter, given, install, set_filter, settle,
    suppressed, tick,
};
pub use level::LogLevel;
pub use line::LogLine;
pub use terminal::{LogForm, is_quiet, plain};

#[doc(hidden)]
pub use tracing;
