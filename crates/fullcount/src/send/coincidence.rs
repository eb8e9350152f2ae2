//! `send --source multigrid|multiblade|gdgem`: set-up of the simulators from flags, their geometry, their truth.
//!
//! Refuses flags that only these sources have where another is sent, and values out of range.
//! Source: `docs/simulators.md`.

use fullcount_engine::config::refuse;
use fullcount_io::quantity;
use fullcount_lab::send::{Job, Payload};
use fullcount_lab::traffic::gdgem::{self, GdGem, GdGemSetup};
use fullcount_lab::traffic::multiblade::{self, MultiBlade, MultiBladeSetup};
use fullcount_lab::traffic::multigrid::{self, MultiGrid, MultiGridSetup};
use fullcount_lab::traffic::noise::Noise;
use fullcount_lab::traffic::{Traffic, TrafficError};
use fullcount_lab::truth_file::{TruthError, TruthFile};

use super::SendFlags;
use super::rate::SendRate;
use crate::exit::Failure;
use crate::note;

/// Neutrons per second and module unless set.
const USUAL_HZ: f64 = 10e3;

/// Above 1, so that a detector whose packets are paced by the link is prepared for being played fast.
const FASTER: f64 = 2.0;

/// Payload, packets per second, source ports.
type Made = (Payload, Option<f64>, Vec<u16>);

impl SendFlags {
    /// True for the simulated coincidence detectors.
    pub(super) fn is_coincidence(&self) -> bool {
        matches!(self.source.as_str(), "multigrid" | "multiblade" | "gdgem")
    }

    /// Refuses what other sources do not have.
    pub(super) fn only_coincidence(&self) -> Result<(), Failure> {
        if let Some(hits) = self.hits.filter(|_| self.source != "gdgem") {
            return Err(refuse("hits", hits, "only the source gdgem has tracks").into());
        }
        if self.is_coincidence() {
            return Ok(());
        }
        let why = "only the sources multigrid, multiblade and gdgem have it";
        if let Some(noise) = &self.noise {
            return Err(refuse("noise", noise, why).into());
        }
        match &self.truth {
            Some(path) => Err(refuse("truth", path.display(), why).into()),
            None => Ok(()),
        }
    }

    fn number_of_modules(&self, usual: usize, allowed: &str) -> Result<usize, Failure> {
        let Some(text) = self.modules.as_deref() else { return Ok(usual) };
        text.parse().map_err(|_| refuse("modules", text, allowed).into())
    }

    fn grid_modules(&self) -> Result<usize, Failure> {
        let modules = self.number_of_modules(3, "1 to 16")?;
        if (1..=multigrid::MOST_MODULES).contains(&modules) {
            return Ok(modules);
        }
        Err(Failure::Wrong(self.in_flags(&TrafficError::GridModules(modules))))
    }

    fn cassettes(&self) -> Result<usize, Failure> {
        self.number_of_modules(6, "6 or 50")
    }

    fn noise(&self) -> Result<Noise, Failure> {
        let Some(text) = self.noise.as_deref() else { return Ok(Noise::NONE) };
        let noise: Noise = text.parse().map_err(|e| refuse("noise", text, format!("{e}")))?;
        if noise.dead > 0.0 && self.source != "gdgem" {
            return Err(refuse("noise", text, "dead strips only of the source gdgem").into());
        }
        Ok(noise)
    }

    /// Gd-GEM has its four sectors and nothing else.
    fn sectors(&self) -> Result<(), Failure> {
        match &self.modules {
            None => Ok(()),
            Some(text) => {
                Err(refuse("modules", text, "none: the Gd-GEM has its four sectors").into())
            }
        }
    }

    /// The geometry file that fits; `None` for sources whose geometry is a panel.
    pub fn configuration(&self) -> Result<Option<String>, Failure> {
        match self.source.as_str() {
            "multigrid" => Ok(Some(MultiGrid::configuration(self.grid_modules()?))),
            "multiblade" => {
                let text = MultiBlade::configuration(self.cassettes()?);
                Ok(Some(text.map_err(|e| Failure::Wrong(self.in_flags(&e)))?))
            }
            "gdgem" => {
                self.sectors()?;
                Ok(Some(GdGem::configuration()))
            }
            _ => Ok(None),
        }
    }

    /// Neutrons per second, and packets per second if they are set: a rate on the link plays the detector at
    /// `top_hz` per module as fast as it takes.
    fn neutrons(
        &self,
        rate: Option<SendRate>,
        modules: usize,
        top_hz: f64,
    ) -> (f64, Option<quantity::Rate>) {
        match rate {
            None => (USUAL_HZ * modules as f64, None),
            Some(SendRate::Events(n)) => (n, None),
            Some(SendRate::Link(rate)) => (FASTER * top_hz * modules as f64, Some(rate)),
        }
    }

    /// Says that a detector is played faster than real time though its own rate was given.
    fn say_if_played(&self, made: &mut dyn Traffic, link: Option<quantity::Rate>) {
        if link.is_none() && made.ready(0, 1).is_none() {
            let rate = self.rate.as_deref().unwrap_or_default();
            note!(
                "fullcount: --rate {rate} is more than this detector gives in real time: its clock goes faster than \
                 the host's. A detector with more --modules gives more"
            );
        }
    }

    pub(super) fn multigrid(&self, rate: Option<SendRate>, ipv6: bool) -> Result<Made, Failure> {
        let modules = self.grid_modules()?;
        let (neutrons_per_s, link) = self.neutrons(rate, modules, multigrid::REAL_TIME_HZ);
        let hz = self.pulse_rate.strip_suffix("Hz").and_then(|n| quantity::number(n).ok());
        let hz = hz.filter(|hz| (1.0..=1000.0).contains(hz));
        let pulse_hz = hz.ok_or_else(|| refuse("pulse-rate", &self.pulse_rate, "1Hz to 1000Hz"))?;
        if self.entries.is_some() {
            let why = "Multi-Grid packets hold as many triggers as fit";
            return Err(refuse("entries", self.entries.unwrap_or_default(), why).into());
        }
        let (noise, seed) = (self.noise()?, self.seed);
        let base = MultiGridSetup::default();
        let setup = MultiGridSetup { modules, neutrons_per_s, noise, pulse_hz, seed, ..base };
        let mut made = MultiGrid::new(&setup).map_err(|e| Failure::Wrong(self.in_flags(&e)))?;
        self.say_if_played(&mut made, link);
        let pps = match link {
            Some(rate) => self.pps(rate, made.mean_packet(), ipv6),
            None => made.packets_per_s(),
        };
        Ok((Payload::Traffic(Box::new(made)), Some(pps), vec![]))
    }

    pub(super) fn multiblade(&self, rate: Option<SendRate>, ipv6: bool) -> Result<Made, Failure> {
        let cassettes = self.cassettes()?;
        let (neutrons_per_s, link) = self.neutrons(rate, cassettes, multiblade::REAL_TIME_HZ);
        let (noise, seed, readouts) = (self.noise()?, self.seed, self.entries);
        let base = MultiBladeSetup::default();
        let setup = MultiBladeSetup { cassettes, neutrons_per_s, readouts, noise, seed, ..base };
        let mut made = MultiBlade::new(&setup).map_err(|e| Failure::Wrong(self.in_flags(&e)))?;
        self.say_if_played(&mut made, link);
        let pps = match link {
            Some(rate) => self.pps(rate, made.mean_packet(), ipv6),
            None => made.packets_per_s(),
        };
        Ok((Payload::Traffic(Box::new(made)), Some(pps), vec![]))
    }

    pub(super) fn gdgem(&self, rate: Option<SendRate>, ipv6: bool) -> Result<Made, Failure> {
        self.sectors()?;
        let base = GdGemSetup::default();
        let (neutrons_per_s, link) = match rate {
            None => (base.neutrons_per_s, None),
            some => self.neutrons(some, 1, gdgem::REAL_TIME_HZ),
        };
        let (noise, seed, hits, words) = (self.noise()?, self.seed, self.hits, self.entries);
        let setup = GdGemSetup { neutrons_per_s, hits, words, noise, seed, ..base };
        let mut made = GdGem::new(&setup).map_err(|e| Failure::Wrong(self.in_flags(&e)))?;
        self.say_if_played(&mut made, link);
        let pps = match link {
            Some(rate) => self.pps(rate, made.mean_packet(), ipv6),
            None => made.packets_per_s(),
        };
        Ok((Payload::Traffic(Box::new(made)), Some(pps), vec![]))
    }

    /// Opens the truth file that was asked for and lets the simulator write to it.
    pub(super) fn watched(&self, job: &mut Job) -> Result<Option<TruthFile>, Failure> {
        let Some(path) = &self.truth else { return Ok(None) };
        // Gd-GEM: ns, and where each neutron converted.
        let (tick, spots) = match self.source.as_str() {
            "multigrid" => ((125, 2), false),
            "multiblade" => ((multiblade::TICK_NS, 1), false),
            _ => ((1, 1), true),
        };
        let file = TruthFile::create(path, spots, self.overwrite).map_err(|e| match e {
            TruthError::Exists { .. } => Failure::Wrong(format!("--truth {e}")),
            TruthError::InUse { .. } | TruthError::Write { .. } => Failure::Failed(e.into()),
        })?;
        if let Payload::Traffic(traffic) = &mut job.payload {
            traffic.watch(file.witness(tick));
        }
        Ok(Some(file))
    }
}
