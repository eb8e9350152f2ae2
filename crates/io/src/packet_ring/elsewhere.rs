//! Stands for the AF_PACKET source on systems without it: it can be named, not opened.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;

use super::PacketError;
use crate::endpoint::PacketUrl;
use crate::source::{Received, Source, SourceError};

/// A source that no value can exist of.
#[derive(Debug)]
pub enum PacketSource {}

impl PacketSource {
    /// Not here.
    ///
    /// # Errors
    /// Always [`PacketError::System`].
    pub fn open(
        url: &PacketUrl,
        _buffer: u64,
        _timestamps: bool,
    ) -> Result<PacketSource, PacketError> {
        let cause = std::io::Error::new(std::io::ErrorKind::Unsupported, "only on Linux");
        Err(PacketError::System { endpoint: url.to_string(), what: "open a packet ring", cause })
    }
}

impl Source for PacketSource {
    fn recv(&mut self, _: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        match *self {}
    }
    fn batch(&self) -> Batch {
        match *self {}
    }
    fn lossless(&self) -> bool {
        match *self {}
    }
    fn sheet(&self) -> Arc<Sheet> {
        match *self {}
    }
    fn describe(&self) -> Vec<String> {
        match *self {}
    }
}
