//! Common parts of orders for several simulated detectors: neutrons at a rate, noise, the rate of sending.

use fullcount_core::simulator::{
    OptionUnit, SimulatorOption, SimulatorPace, Traffic, TrafficError, TrafficMade, TrafficOrder,
};

use crate::noise::Noise;

/// Above 1, so that a detector whose packets are paced by the link is prepared for being played fast.
const FASTER: f64 = 2.0;

/// Noise as an option.
pub const NOISE: SimulatorOption = SimulatorOption {
    key: "noise",
    value: "SPEC",
    about: "what it sends beside single neutrons, as shares of them: dark=1%,bad=0.1%,coincidence=0.1%; packet=0.1% (of \
            the packets); pileup=random or =1%",
    range: "0% to 100% each",
    default: "none",
    unit: OptionUnit::None,
};

/// Neutrons a second: `usual` unless a rate is given; a rate on the link plays a detector of `top` as fast as the link takes.
pub fn neutrons(pace: SimulatorPace<'_>, usual: f64, top: f64) -> f64 {
    match pace {
        SimulatorPace::Usual => usual,
        SimulatorPace::Events(n) => n,
        SimulatorPace::Link(_) => FASTER * top,
    }
}

/// The noise that was asked for.
pub fn noise(order: &TrafficOrder<'_>) -> Result<Noise, TrafficError> {
    let Some(text) = order.options.get("noise") else { return Ok(Noise::NONE) };
    text.parse().map_err(|e| TrafficError::value("noise", text, format!("{e}")))
}

/// The same of a detector that has no dead strips.
pub fn noise_of_readouts(order: &TrafficOrder<'_>) -> Result<Noise, TrafficError> {
    let noise = noise(order)?;
    match noise.dead > 0.0 {
        true => Err(TrafficError::value("noise", "dead", "this detector has no dead strips")),
        false => Ok(noise),
    }
}

/// A detector without a beam monitor was asked for one.
pub fn no_monitor() -> TrafficError {
    TrafficError::value("noise", "monitor", "this detector has no beam monitor")
}

/// Traffic of a detector that keeps its own clock if it can; `packets_per_s` is its own rate.
pub fn made(
    mut traffic: Box<dyn Traffic>,
    pace: SimulatorPace<'_>,
    packets_per_s: f64,
    turn: (u64, f64),
) -> TrafficMade {
    let link = matches!(pace, SimulatorPace::Link(_));
    let faster = !link && traffic.ready(0, 1).is_none();
    let packets_per_s = match pace {
        SimulatorPace::Link(pps) => pps(traffic.mean_packet()),
        SimulatorPace::Usual | SimulatorPace::Events(_) => packets_per_s,
    };
    let (packets_per_s, ports) = (Some(packets_per_s), Vec::new());
    TrafficMade { traffic, packets_per_s, ports, faster, turn: Some(turn) }
}
