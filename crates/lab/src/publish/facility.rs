//! What a facility says beside its events: values of a motor, a temperature, a pressure and a magnetic field, an alarm,
//! connections, chopper times.
//!
//! Everything follows from the time and a seed, so that a test knows each value.
//! Source: `docs/formats/flatbuffers.md` sections 4 and 5.

use fullcount_messages::{
    Alarm, ChopperTimes, Connection, ConnectionState, LogEntry144, LogValue, Message, StateSeverity,
};
use fullcount_sim::splitmix;

/// Above this the temperature sounds its alarm, kelvin.
const WARM: f64 = 301.0;
/// Time between two marks of the chopper: 14 Hz.
const TURN_NS: i64 = 71_428_571;

/// A facility's slow control.
#[derive(Debug)]
pub struct Facility {
    seed: u64,
    /// Which round comes next.
    round: u64,
    warm: bool,
    /// The last mark of the chopper that was sent.
    mark: Option<i64>,
    first_ns: Option<i64>,
}

/// A number of 0 to 1 out of a seed and a place (splitmix64).
fn noise(seed: u64, at: u64) -> f64 {
    // The state before the one that belongs to the place.
    let mut state = seed.wrapping_add(at.wrapping_sub(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    splitmix(&mut state) as f64 / u64::MAX as f64
}

impl Facility {
    /// A facility whose noise follows from `seed`.
    pub fn new(seed: u64) -> Facility {
        Facility { seed, round: 0, warm: false, mark: None, first_ns: None }
    }

    /// The messages of the round at `ns` since 1970: at least one of each value.
    pub fn round(&mut self, ns: i64) -> Vec<Vec<u8>> {
        let first = *self.first_ns.get_or_insert(ns);
        let seconds = (ns - first) as f64 / 1e9;
        let noise = |channel: u64| noise(self.seed ^ channel << 56, self.round);
        let mut all = Vec::new();
        let mut log = |source_name: &str, value: LogValue<'_>| {
            let entry = LogEntry144 { source_name, timestamp: ns, value };
            all.push(Message::F144(entry).encode());
        };
        // A motor that goes up and down a millimetre in 20 s, in steps of a micrometre.
        let way = (seconds / 10.0).rem_euclid(2.0);
        let motor = (1000.0 * if way < 1.0 { way } else { 2.0 - way }).round();
        let temperature = 300.0 + 1.5 * (seconds / 30.0).sin() + 0.01 * (noise(1) - 0.5);
        let pressure = 101_325.0 + 20.0 * (noise(2) - 0.5);
        let turned = seconds / 5.0;
        let field = [turned.cos(), turned.sin(), 0.001 * (noise(3) - 0.5)];
        log("motor", LogValue::Int(motor as i32));
        log("temperature", LogValue::Double(temperature));
        log("pressure", LogValue::Float(pressure as f32));
        log("field", LogValue::ArrayDouble(field.to_vec().into()));
        if self.round == 0 {
            for source_name in ["motor", "temperature", "pressure", "field"] {
                let status = ConnectionState::Connected;
                let service_id = Some("fullcount send");
                let state = Connection { timestamp: ns, status, source_name, service_id };
                all.push(Message::Ep01(state).encode());
            }
        }
        // It ends lower than it begins, or noise would sound it many times.
        let warm = temperature > if self.warm { WARM - 0.05 } else { WARM };
        if warm != self.warm || self.round == 0 {
            let (severity, words) = match warm {
                true => (StateSeverity::Major, "temperature above 301 K"),
                false => (StateSeverity::Ok, "temperature in range"),
            };
            let (source_name, message) = (Some("temperature"), Some(words));
            let alarm = Alarm { source_name, timestamp: ns, severity, message };
            all.push(Message::Al00(alarm).encode());
            self.warm = warm;
        }
        let from = self.mark.map_or(ns, |mark| mark + TURN_NS);
        let marks: Vec<u64> =
            (0..).map(|i| from + i * TURN_NS).take_while(|&t| t <= ns).map(|t| t as u64).collect();
        if let Some(&last) = marks.last() {
            self.mark = Some(last as i64);
            let (name, sequence_counter) = ("chopper", self.round);
            let times = ChopperTimes { name, timestamps: marks.into(), sequence_counter };
            all.push(Message::Tdct(times).encode());
        }
        self.round += 1;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_messages::decode;

    #[test]
    fn rounds_follow_from_seed_and_time_and_say_everything() {
        let rounds = |seed: u64| -> Vec<Vec<u8>> {
            let mut facility = Facility::new(seed);
            (0..600).flat_map(|i| facility.round(1_000_000_000 + i * 100_000_000)).collect()
        };
        assert_eq!(rounds(1), rounds(1));
        assert_ne!(rounds(1), rounds(2));
        let (mut entries, mut alarms, mut marks, mut connected) = (0, Vec::new(), 0, 0);
        for value in rounds(1) {
            match decode(&value).unwrap() {
                Message::F144(_) => entries += 1,
                Message::Al00(alarm) => alarms.push(alarm.severity),
                Message::Tdct(times) => marks += times.timestamps.len(),
                Message::Ep01(_) => connected += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((entries, connected), (4 * 600, 4));
        // 59.9 s at 14 Hz, the first mark at once.
        assert_eq!(marks, 839);
        assert_eq!(
            alarms,
            [StateSeverity::Ok, StateSeverity::Major],
            "301 K are passed after 22 s"
        );
    }
}
