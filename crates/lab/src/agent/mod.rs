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

pub use fullcount_child::LEASH;

/// Why an end could not do its part.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PostError {
    #[error(transparent)]
    Order(#[from] order::OrderError),
    #[error("{program}: {cause}: give the path of the fullcount binary")]
    Start { program: String, cause: std::io::Error },
    #[error(
        "receive with {engine}: no interface of {whose} has the address {address}: give the address of the \
         measured link (--data IP)"
    )]
    Interface { engine: &'static str, whose: &'static str, address: IpAddr },
    #[error("receive: no UDP port is free at {address}: {cause}")]
    Port { address: IpAddr, cause: std::io::Error },
    #[error("receive: its port was not open after {seconds} s; it said: {said}")]
    NotReady { seconds: u64, said: String },
    /// A child failed (exit codes 0 and 3 are results).
    #[error("{verb}{whose}: ended with {status}; it said: {said}")]
    Failed { verb: &'static str, whose: String, status: String, said: String },
    #[error("{verb}: no summary: {reason}; run it with --json by hand")]
    Summary { verb: &'static str, reason: String },
    #[error("agent {address}: {cause}; is 'fullcount lab agent' running there, and the port open?")]
    Unreachable { address: String, cause: String },
    #[error("agent {address}: refused: {reason}")]
    Refused { address: String, reason: String },
    #[error("agent {address}: {reason}")]
    Far { address: String, reason: String },
    #[error(
        "agent {address}: unexpected answer: {said}; use the same version of fullcount at both ends"
    )]
    Strange { address: String, said: String },
}

/// What a finished child left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildReport {
    /// Its summary, `fullcount/summary/1`.
    pub summary: Value,
    /// What it said on standard error: addresses, engine, buffers.
    pub facts: Vec<String>,
    /// CPU intervals, where some were asked for.
    pub intervals: Vec<Interval>,
}

/// A child at work; ended when dropped.
pub trait ChildWork {
    /// Port that the receiver listens on; `None` for a sender.
    fn port(&self) -> Option<u16>;
    /// Its report if it has ended.
    ///
    /// # Errors
    /// It failed, or its host is out of reach.
    fn poll(&mut self) -> Result<Option<ChildReport>, PostError>;
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
    fn start(&self, order: &Order) -> Result<Box<dyn ChildWork + '_>, PostError>;
    /// Address that the other end reaches this one under.
    fn address(&self) -> IpAddr;
    /// What the host is.
    fn host(&self) -> Value;
    /// Size in bytes that a socket's buffer has on this host unless it asks: `rmem_default`, `wmem_default`.
    fn buffers(&self) -> (Option<u64>, Option<u64>);
}
