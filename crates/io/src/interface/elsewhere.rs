//! Replaces the source of an interface's frames on systems without it: it can be named, not opened.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;

use crate::source::{Received, Source, SourceError};

/// A source that no value can exist of.
#[derive(Debug)]
pub struct InterfaceSource<F>(Infallible, PhantomData<F>);

/// What opening one says.
pub(crate) fn only_on_linux() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, "only on Linux")
}

impl<F: Send> Source for InterfaceSource<F> {
    fn recv(&mut self, _: &mut Batch, _: Duration) -> Result<Received, SourceError> {
        match self.0 {}
    }
    fn batch(&self) -> Batch {
        match self.0 {}
    }
    fn lossless(&self) -> bool {
        match self.0 {}
    }
    fn sheet(&self) -> Arc<Sheet> {
        match self.0 {}
    }
    fn describe(&self) -> Vec<String> {
        match self.0 {}
    }
}
