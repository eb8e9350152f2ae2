//! The first packets of a simulator, with the geometry that fits them: for programs that want good packets of a kind and know nothing of it.
//!
//! Refuses: a simulator that refuses its own usual settings.

use super::{Simulator, SimulatorPace, TrafficError, TrafficOptions, TrafficOrder};

/// Packets at most, beside an end mark.
const PACKETS: usize = 8;

/// Packets that the decoder of the same name understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedTaste {
    /// Text of a geometry file; `None`: the decoder needs none.
    pub geometry: Option<String>,
    /// The packets, and one end mark behind them if there are some.
    pub packets: Vec<Vec<u8>>,
}

impl SimulatedTaste {
    /// The first packets of `kind`.
    ///
    /// # Errors
    /// It refuses its own usual settings.
    pub fn of(kind: &dyn Simulator) -> Result<SimulatedTaste, TrafficError> {
        let options = TrafficOptions::default();
        let order = TrafficOrder {
            pace: SimulatorPace::Usual,
            // The shortest turn: it is thrown away.
            prepared_bytes: Some(1),
            ..TrafficOrder::of(&options, 1)
        };
        let geometry = kind.geometry(&order)?;
        let mut traffic = kind.make(&order)?.traffic;
        let mut packets: Vec<Vec<u8>> = vec![];
        while packets.len() < PACKETS {
            let Some(train) = traffic.next_train(PACKETS - packets.len(), 0) else { break };
            packets.extend(train.each().map(<[u8]>::to_vec));
        }
        packets.extend(traffic.end().into_iter().take(1));
        Ok(SimulatedTaste { geometry, packets })
    }
}
