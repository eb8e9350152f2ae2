//! Stands for the AF_XDP source on systems without it: it can be named, not opened.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;

use super::XdpError;
use crate::endpoint::XdpUrl;
use crate::source::{Received, Source, SourceError};

/// A source that no value can exist of.
#[derive(Debug)]
pub enum XdpSource {}

impl XdpSource {
    /// Not here.
    ///
    /// # Errors
    /// Always [`XdpError::Unsupported`].
    pub fn open(url: &XdpUrl, _buffer: u64, _timestamps: bool) -> Result<XdpSource, XdpError> {
        let cause = std::io::Error::new(std::io::ErrorKind::Unsupported, "only on Linux");
        Err(XdpError::Unsupported { endpoint: url.to_string(), cause })
    }
}

impl Source for XdpSource {
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
