//! The simulated detector that `send` plays: its options, geometry, ports, packets, truth.
//!
//! Refuses options that it does not have, and rates that it cannot keep.

use fullcount_core::link::Wire;
use fullcount_core::simulator::{
    Simulator, SimulatorPace, TrafficError, TrafficOptions, TrafficOrder,
};
use fullcount_engine::config::refuse;
use fullcount_io::quantity::Rate;
use fullcount_lab::send::{Payload, SendJob};
use fullcount_lab::truth_file::{TruthError, TruthFile};

use super::rate::SendRate;
use super::{TrafficFlags, options};
use crate::exit::Failure;
use crate::note;

impl TrafficFlags {
    /// The simulated detector that is sent, and its options; `None` for other sources.
    pub(super) fn simulator(
        &self,
    ) -> Result<Option<(&'static dyn Simulator, TrafficOptions)>, Failure> {
        let kind = fullcount_sim::registered().find(&self.source);
        let options = self.options.read(kind)?;
        if let Some(path) = &self.truth
            && kind.is_none_or(|kind| kind.declared().truth_columns.is_none())
        {
            let all = fullcount_sim::registered().kinds();
            let have: Vec<&str> =
                all.filter(|k| k.declared().truth_columns.is_some()).map(Simulator::name).collect();
            return Err(refuse("truth", path.display(), options::only(&have)).into());
        }
        Ok(kind.map(|kind| (kind, options)))
    }

    /// The geometry file that fits, for packets from `first_port` on; `None`: the source has none.
    pub fn geometry(&self, first_port: Option<u16>) -> Result<Option<String>, Failure> {
        let Some((kind, options)) = self.simulator()? else { return Ok(None) };
        let order = TrafficOrder { first_port, ..TrafficOrder::of(&options, self.seed) };
        kind.geometry(&order).map_err(|e| self.in_flags(&e))
    }

    /// The ports that the packets come from if the first is `first_port`; empty: any.
    pub fn ports(&self, first_port: Option<u16>) -> Result<Vec<u16>, Failure> {
        let Some((kind, options)) = self.simulator()? else { return Ok(vec![]) };
        let order = TrafficOrder { first_port, ..TrafficOrder::of(&options, self.seed) };
        kind.ports(&order).map_err(|e| self.in_flags(&e))
    }

    pub(super) fn simulated(
        &self,
        kind: &dyn Simulator,
        options: &TrafficOptions,
        rate: Option<SendRate>,
        ipv6: bool,
        first_port: Option<u16>,
    ) -> Result<(Payload, Option<f64>, Vec<u16>), Failure> {
        let on_link;
        let pace = match rate {
            None => SimulatorPace::Usual,
            Some(SendRate::Events(n)) => SimulatorPace::Events(n),
            Some(SendRate::Link(rate)) => {
                on_link = move |mean: f64| self.pps(rate, mean, ipv6);
                SimulatorPace::Link(&on_link)
            }
        };
        let order = TrafficOrder { pace, first_port, ..TrafficOrder::of(options, self.seed) };
        let made = kind.make(&order).map_err(|e| self.in_flags(&e))?;
        if made.faster {
            let rate = self.rate.as_deref().unwrap_or_default();
            note!(
                "fullcount: --rate {rate} is more than this detector gives in real time: its clock goes faster than \
                 the host's. A detector with more --modules gives more"
            );
        }
        Ok((Payload::Traffic(made.traffic), made.packets_per_s, made.ports))
    }

    /// The sentence with the flags of the verb that was called.
    fn in_flags(&self, e: &TrafficError) -> Failure {
        Failure::Wrong(match e {
            TrafficError::Slow { rate, lowest, .. } if self.demo => format!(
                "--rate: {rate} events/s is too low for this demonstration: its dimmest module would \
                 send nothing for longer than the 2.1 s after which 32-bit times are ambiguous; give \
                 at least --rate {lowest:.0}ev/s"
            ),
            other => format!("--{other}"),
        })
    }

    /// Opens the truth file that was asked for and lets the simulator write to it.
    pub(super) fn watched(&self, job: &mut SendJob) -> Result<Option<TruthFile>, Failure> {
        let Some(path) = &self.truth else { return Ok(None) };
        let kind = fullcount_sim::registered().find(&self.source);
        let Some(columns) = kind.and_then(|kind| kind.declared().truth_columns) else {
            return Ok(None);
        };
        let file = TruthFile::create(path, columns.spots, self.overwrite).map_err(|e| match e {
            TruthError::Exists { .. } => Failure::Wrong(format!("--truth {e}")),
            TruthError::InUse { .. } | TruthError::Write { .. } => Failure::Failed(e.into()),
        })?;
        if let Payload::Traffic(traffic) = &mut job.payload {
            traffic.watch(file.witness(columns.tick));
        }
        Ok(Some(file))
    }

    /// Packets per second for packets of `mean` bytes. Of mixed sizes the mean is right for bits on the
    /// wire too: from 24 B on every datagram costs the same on top of its payload, but for fragments.
    fn pps(&self, rate: Rate, mean: f64, ipv6: bool) -> f64 {
        let payload = mean.round() as usize;
        let wire = self.wire_rate.then(|| Wire::usual(ipv6, payload));
        rate.packets_per_second(payload, wire)
    }
}
