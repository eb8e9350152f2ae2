//! Decoders that work in two steps: a [`Reader`] makes hits of packets, a [`Builder`] makes events of hits that belong together.
//!
//! Both see a batch one after the other, and the hits between them never leave the decoder. The seam that others see is
//! [`Decoder`] alone. Source: `docs/decisions/0020-one-decoder.md`.

use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;
use fullcount_core::trace;
use fullcount_core::wall::Readings;

use crate::detector::{CommandError, CommandInfo, Decoder, SeenModule};

/// The first step: chunks become readouts, and these hits.
pub trait Reader: Send {
    /// What it hands to the second step.
    type Hit: Send;

    /// Reads a batch and appends to `hits`, and to those columns of `products` that are of readouts.
    fn read(&mut self, batch: &Batch, hits: &mut Vec<Self::Hit>, products: &mut Products);

    /// Settles what is pending, as [`Decoder::flush`] says.
    fn flush(&mut self, reason: Flush);

    /// As [`Decoder::readings`].
    fn readings(&mut self) -> Option<&mut Readings> {
        None
    }

    /// As [`Decoder::modules`].
    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        let _ = tell;
    }

    /// As [`Decoder::commands`].
    fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }

    /// As [`Decoder::command`].
    ///
    /// # Errors
    /// As there.
    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        let _ = arguments;
        Err(CommandError::Unknown(name.to_owned()))
    }

    /// Its counters.
    fn sheet(&self) -> Arc<Sheet>;
}

/// The second step: hits become events.
pub trait Builder: Send {
    /// What it gets from the first step.
    type Hit: Send;

    /// Takes all `hits`, and gives out what waited long enough at `now`, as [`Decoder::decode`] says.
    fn build(&mut self, hits: &mut Vec<Self::Hit>, products: &mut Products, now: Option<Nanos>);

    /// Takes all `hits`, and decides on what waits, as [`Decoder::flush`] says.
    fn flush(&mut self, reason: Flush, hits: &mut Vec<Self::Hit>, products: &mut Products);

    /// As [`Decoder::oldest`].
    fn oldest(&mut self) -> Option<BatchNumber>;

    /// As [`Decoder::commands`], beside those of the first step.
    fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }

    /// As [`Decoder::command`].
    ///
    /// # Errors
    /// As there.
    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        let _ = arguments;
        Err(CommandError::Unknown(name.to_owned()))
    }

    /// Its counters.
    fn sheet(&self) -> Arc<Sheet>;
}

impl<B: Builder + ?Sized> Builder for Box<B> {
    type Hit = B::Hit;

    fn build(&mut self, hits: &mut Vec<B::Hit>, products: &mut Products, now: Option<Nanos>) {
        (**self).build(hits, products, now);
    }

    fn flush(&mut self, reason: Flush, hits: &mut Vec<B::Hit>, products: &mut Products) {
        (**self).flush(reason, hits, products);
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        (**self).oldest()
    }

    fn commands(&self) -> Vec<CommandInfo> {
        (**self).commands()
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        (**self).command(name, arguments)
    }

    fn sheet(&self) -> Arc<Sheet> {
        (**self).sheet()
    }
}

/// Both steps on one thread, with the hits between them.
pub struct ReadThenBuild<R: Reader, B> {
    reader: R,
    builder: B,
    hits: Vec<R::Hit>,
}

impl<R: Reader, B: Builder<Hit = R::Hit>> ReadThenBuild<R, B> {
    /// Joins them.
    pub fn new(reader: R, builder: B) -> ReadThenBuild<R, B> {
        ReadThenBuild { reader, builder, hits: Vec::new() }
    }
}

impl<R: Reader, B: Builder<Hit = R::Hit>> Decoder for ReadThenBuild<R, B> {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        if let Some(batch) = batch {
            self.reader.read(batch, &mut self.hits, products);
            trace!(Builder, Debug, "{} hits of batch {:?}", self.hits.len(), batch.number());
        }
        self.builder.build(&mut self.hits, products, now);
    }

    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.reader.flush(reason);
        self.builder.flush(reason, &mut self.hits, products);
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        self.builder.oldest()
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        self.reader.readings()
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        self.reader.modules(tell);
    }

    fn commands(&self) -> Vec<CommandInfo> {
        let mut all = self.reader.commands();
        all.extend(self.builder.commands());
        all
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match self.reader.command(name, arguments) {
            Err(CommandError::Unknown(_)) => self.builder.command(name, arguments),
            done => done,
        }
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.reader.sheet(), self.builder.sheet()]
    }
}

/// The first step alone, for measuring: its hits are dropped.
pub struct FirstStep<R: Reader>(R, Vec<R::Hit>);

impl<R: Reader> FirstStep<R> {
    /// Of this reader.
    pub fn of(reader: R) -> FirstStep<R> {
        FirstStep(reader, Vec::new())
    }
}

impl<R: Reader> Decoder for FirstStep<R> {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, products: &mut Products) {
        self.1.clear();
        if let Some(batch) = batch {
            self.0.read(batch, &mut self.1, products);
        }
    }

    fn flush(&mut self, reason: Flush, _: &mut Products) {
        self.0.flush(reason);
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.0.sheet()]
    }
}
