//! One end of a measurement: orders that a campaign gives, and who carries them out.
//!
//! An [`Order`] says completely how to receive or send; a [`Post`] carries it out as a child process
//! of the `fullcount` binary and reports its summary. [`post`] does so on this host or in a namespace,
//! [`client`] on another host, where [`server`] (`fullcount lab agent`) does it. Both ends of the line speak
//! [`message`]. Refuses: orders outside their ranges, strangers without the token.

pub mod client;
pub mod engine;
pub mod message;
pub mod order;
pub mod post;
pub mod sample;
pub mod server;
pub mod strangers;
pub mod trial;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use order::Order;
use sample::{Interval, Sampling};

/// Environment variable that tells a child to end when its standard input does.
pub const LEASH: &str = "FULLCOUNT_LEASH";

/// Why an end could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// An order outside its ranges.
    #[error(transparent)]
    Order(#[from] order::OrderError),
    /// The program could not be started.
    #[error("{program}: {cause}: give the path of the fullcount binary")]
    Start {
        /// Path as given.
        program: String,
        /// The system's words.
        cause: std::io::Error,
    },
    /// No interface to take packets from.
    #[error(
        "receive with {engine}: no interface of {whose} has the address {address}: give the address of the \
         measured link (--data IP)"
    )]
    Interface {
        /// Engine.
        engine: &'static str,
        /// `this host`, or which.
        whose: &'static str,
        /// Address that was looked for.
        address: IpAddr,
    },
    /// The system has no port for it.
    #[error("receive: no UDP port is free at {address}: {cause}")]
    Port {
        /// Address.
        address: IpAddr,
        /// The system's words.
        cause: std::io::Error,
    },
    /// The receiver did not open its port.
    #[error("receive: its port was not open after {seconds} s; it said: {said}")]
    NotReady {
        /// Time waited.
        seconds: u64,
        /// End of its standard error.
        said: String,
    },
    /// A child failed (exit codes 0 and 3 are results).
    #[error("{verb}{whose}: ended with {status}; it said: {said}")]
    Failed {
        /// `receive` or `send`.
        verb: &'static str,
        /// Empty, or the far host.
        whose: String,
        /// Exit status.
        status: String,
        /// End of its standard error.
        said: String,
    },
    /// The last line of standard output is not a summary.
    #[error("{verb}: no summary: {reason}; run it with --json by hand")]
    Summary {
        /// `receive` or `send`.
        verb: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The agent cannot be reached, or is gone.
    #[error("agent {address}: {cause}; is 'fullcount lab agent' running there, and the port open?")]
    Unreachable {
        /// Address as given.
        address: String,
        /// The system's words.
        cause: String,
    },
    /// The agent does not let us in.
    #[error("agent {address}: refused: {reason}")]
    Refused {
        /// Address as given.
        address: String,
        /// Its reason.
        reason: String,
    },
    /// The far end failed.
    #[error("agent {address}: {reason}")]
    Far {
        /// Address as given.
        address: String,
        /// Its reason.
        reason: String,
    },
    /// The agent said something unexpected.
    #[error(
        "agent {address}: unexpected answer: {said}; use the same version of fullcount at both ends"
    )]
    Strange {
        /// Address as given.
        address: String,
        /// What it said, cut to 200 characters.
        said: String,
    },
}

/// What a finished child left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its summary, `fullcount/summary/1`.
    pub summary: Value,
    /// What it said on standard error: addresses, engine, buffers.
    pub facts: Vec<String>,
    /// CPU intervals, where some were asked for.
    pub intervals: Vec<Interval>,
}

/// A child at work; ended when dropped.
pub trait Work {
    /// Port that the receiver listens on; `None` for a sender.
    fn port(&self) -> Option<u16>;
    /// Its report if it has ended.
    ///
    /// # Errors
    /// It failed, or its host is out of reach.
    fn poll(&mut self) -> Result<Option<Report>, PostError>;
    /// Begins to take CPU intervals.
    ///
    /// # Errors
    /// Its host is out of reach.
    fn sample(&mut self, sampling: Sampling) -> Result<(), PostError>;
    /// Asks it to end, as Ctrl-C.
    ///
    /// # Errors
    /// Its host is out of reach.
    fn interrupt(&mut self) -> Result<(), PostError>;
}

/// Carries out orders at one end.
pub trait Post {
    /// Starts a child; a receiver's port is open when this returns.
    ///
    /// # Errors
    /// [`PostError`].
    fn start(&self, order: &Order) -> Result<Box<dyn Work + '_>, PostError>;
    /// Address that the other end reaches this one under.
    fn address(&self) -> IpAddr;
    /// What the host is.
    fn host(&self) -> Value;
    /// Size in bytes that a socket's buffer has on this host unless it asks: `rmem_default`, `wmem_default`.
    fn buffers(&self) -> (Option<u64>, Option<u64>);
}
