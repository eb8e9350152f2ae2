//! The detector that moves a capture on while `send` repeats it (`pcap:FILE?repeat=N&shift`).
//!
//! All packets of a capture leave from one socket, so the receiver sees one origin, whoever recorded
//! them; the rule must tell streams apart as the receiver does. Refuses a detector where nothing is
//! moved on.

use std::io;

use fullcount_core::batch::Origin;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_detect::detector::{
    Decoder, Detector, Inspector, Sharding, Shifter, Threads, registered,
};
use fullcount_engine::config::refuse;
use fullcount_engine::run::configure;
use fullcount_io::endpoint::Endpoint;

use crate::exit::Failure;
use crate::flags::Overlay;

/// A detector whose packets come from one origin.
pub struct Shifted(Box<dyn Detector>);

impl Shifted {
    /// The detector for `source`; `None` if it is no capture to be moved on.
    pub fn new(
        source: &str,
        kind: Option<&str>,
        settings: &[String],
    ) -> Result<Option<Shifted>, Failure> {
        let moved = matches!(source.parse(), Ok(Endpoint::Pcap(capture)) if capture.shift);
        if !moved {
            let why = "only a capture that is moved on (pcap:FILE?repeat=N&shift) needs it";
            return match (kind, settings.first()) {
                (Some(kind), _) => Err(refuse("detector", kind, why).into()),
                (_, Some(setting)) => Err(refuse("set", setting, why).into()),
                (None, None) => Ok(None),
            };
        }
        let mut o = Overlay::default();
        o.put("detector.kind", Some(kind.unwrap_or(registered().usual()))).set(settings)?;
        Ok(Some(Shifted(configure(&o.read(None)?)?)))
    }
}

impl Detector for Shifted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn decoder(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Decoder>> {
        self.0.decoder(want, threads)
    }

    fn sharding(&self) -> Sharding {
        self.0.sharding()
    }

    fn numbering(&self) -> Option<Numbering> {
        self.0.numbering()
    }

    fn tick(&self) -> (TickLength, bool) {
        self.0.tick()
    }

    fn pixels(&self) -> PixelMap {
        self.0.pixels()
    }

    fn plots(&self) -> Vec<Plot> {
        self.0.plots()
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(OneOrigin(self.0.shifter()?)))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        self.0.inspector()
    }
}

struct OneOrigin(Box<dyn Shifter>);

impl Shifter for OneOrigin {
    fn learn(&mut self, payload: &[u8], _: Origin) {
        self.0.learn(payload, Origin::NONE);
    }

    fn shift(&mut self, payload: &mut [u8], _: Origin, repetition: u64) {
        self.0.shift(payload, Origin::NONE, repetition);
    }
}
