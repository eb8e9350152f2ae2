//! The sources `xdp` and `packet` as kinds: one for each engine that takes frames from an interface.
//!
//! Refuses `source.engine`: the scheme names the engine.

use std::error::Error;
use std::marker::PhantomData;

use fullcount_core::ledger::Info;
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    FrameCounters, OpenedSource, SourceEndpoint, SourceKind, SourceOpenError, SourceOpening,
    SourceSetup,
};
use fullcount_core::url::{self, Scheme};

use super::InterfaceSource;
use super::url::InterfaceUrl;
use crate::source::{no_engine, refused};

/// What an engine says of itself, by the keys that only it has.
pub(crate) trait InterfaceEngine: Send + Sync + Sized + 'static {
    /// What it is, in a line.
    const ABOUT: &'static str;
    /// A URL.
    const EXAMPLE: &'static str;
    /// Heading of its counters.
    const HEADING: &'static str;
    /// Its counters of frames.
    const FRAMES: FrameCounters;
    /// Its rings.
    type Rings: Send + 'static;
    /// Why it could not be opened.
    type Error: Error + Send + Sync + 'static;
    /// Its counters.
    fn catalogue() -> Vec<Info>;
    /// Opens it; `buffer`: bytes, unless the URL says.
    fn open(
        url: &InterfaceUrl<Self>,
        buffer: u64,
        timestamps: bool,
    ) -> Result<InterfaceSource<Self::Rings>, Self::Error>;
}

/// `SCHEME://INTERFACE:PORT`
pub struct InterfaceScheme<K>(PhantomData<K>);

impl<K> InterfaceScheme<K> {
    /// To be registered.
    pub const NEW: InterfaceScheme<K> = InterfaceScheme(PhantomData);
}

impl<K: InterfaceEngine + Default> SourceKind for InterfaceScheme<K>
where
    InterfaceUrl<K>: Scheme + Send + Sync,
    InterfaceSource<K::Rings>: crate::source::Source,
{
    fullcount_core::source_of_scheme! {
        InterfaceUrl<K>: K::ABOUT,
        K::EXAMPLE
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![(K::HEADING, K::catalogue())]
    }

    fn frames(&self) -> Option<FrameCounters> {
        Some(K::FRAMES)
    }

    fn plan(
        &self,
        text: &str,
        setup: &SourceSetup<'_>,
    ) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let mut url: InterfaceUrl<K> = url::read(text).map_err(|e| refused(text, e))?;
        url.spin |= setup.busy_poll;
        no_engine(setup)?;
        Ok(Box::new(Planned { url, text: text.to_owned(), buffer: setup.receive_buffer }))
    }
}

struct Planned<K> {
    url: InterfaceUrl<K>,
    /// As configured.
    text: String,
    /// Bytes, unless the URL says.
    buffer: u64,
}

impl<K: InterfaceEngine> SourceEndpoint for Planned<K>
where
    InterfaceSource<K::Rings>: crate::source::Source,
{
    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let source = K::open(&self.url, self.buffer, opening.timestamps);
        let source = source.map_err(SourceOpenError::failed)?;
        Ok(vec![OpenedSource::new(source, self.text.as_str())])
    }
}
