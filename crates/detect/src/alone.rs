//! For tests: a decoder of events alone, on one thread.

use fullcount_core::products::Want;

use crate::detector::{Decoder, Detector, Threads};

pub(crate) trait Alone {
    fn alone(&self) -> Box<dyn Decoder>;
}

impl Alone for dyn Detector + '_ {
    fn alone(&self) -> Box<dyn Decoder> {
        self.decoder(Want::default(), &Threads::of(1)).expect("one thread")
    }
}
