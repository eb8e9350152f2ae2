//! Costs as they were measured: taken out of results files, each with the file and the row that it is from.
//!
//! Reads the JSON of `lab detectors` (packets and events a second of a decoder, from memory and over UDP without loss),
//! of `lab lossless` (packets a second that one core receives, by size) and of `lab capacity --measure` (messages,
//! spool, brokers, disk). What a later file says replaces what an earlier one said. Refuses: files without any of it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::CapacityError;

/// A measured number.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Median over the trials.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// File and row.
    pub from: String,
}

/// What was measured of a detector.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredDecoder {
    /// Mean bytes of a packet.
    pub packet_bytes: f64,
    /// Mean events that a packet gives.
    pub events_per_packet: f64,
    /// Packets a second of one core, from memory.
    pub packets: Measure,
    /// Events a second of one core, from memory.
    pub events: Measure,
}

/// All that is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MeasuredRates {
    /// By name.
    pub decoders: BTreeMap<String, MeasuredDecoder>,
    /// Packets a second without loss over UDP by one worker, by detector and number of threads.
    pub workers: BTreeMap<(String, u32), Measure>,
    /// Packets a second that one core receives without loss, by payload size in bytes.
    pub receive: BTreeMap<u32, Measure>,
    /// Events a second that one core makes into messages.
    pub encode: Option<Measure>,
    /// Bytes a second that a spool takes.
    pub spool: Option<Measure>,
    /// Bytes a second of messages that brokers confirm to one producer on one partition.
    pub produce: Option<Measure>,
    /// Bytes a second that reach the disk, with `fdatasync`.
    pub disk: Option<Measure>,
    /// CPUs of the host that was measured.
    pub cpus: Option<u64>,
}

/// Figures of `lab capacity --measure`, with their units.
pub const ENCODE: (&str, &str) = ("capacity_encode", "events/s");
/// Bytes a second into the spool.
pub const SPOOL: (&str, &str) = ("capacity_spool", "B/s");
/// Bytes a second confirmed.
pub const PRODUCE: (&str, &str) = ("capacity_produce", "B/s");
/// Bytes a second on the disk.
pub const DISK: (&str, &str) = ("capacity_disk", "B/s");

impl MeasuredRates {
    /// Takes in one results file.
    ///
    /// # Errors
    /// It is no JSON object, or has nothing that is of use.
    pub fn read(&mut self, file: &str, text: &str) -> Result<(), CapacityError> {
        let wrong =
            |why: &str| CapacityError::Results { file: file.to_owned(), why: why.to_owned() };
        let json: Value =
            serde_json::from_str(text).map_err(|e| wrong(&format!("is no JSON ({e})")))?;
        let mut found = 0;
        for (detector, rows) in rows_by_detector(&json) {
            found += usize::from(self.decoder(file, &detector, &rows));
        }
        let figures = json.get("figures").and_then(Value::as_object);
        for (name, figure) in figures.into_iter().flatten() {
            let Some(value) = figure.get("value").and_then(Value::as_f64).filter(|v| *v > 0.0)
            else {
                continue;
            };
            let measure = |unit: &str| Measure {
                value,
                unit: unit.to_owned(),
                from: format!("{file}: {name}"),
            };
            if let Some(size) = lossless_size(name) {
                self.receive.insert(size, measure("packets/s"));
                found += 1;
            }
            for ((known, unit), place) in [
                (ENCODE, &mut self.encode),
                (SPOOL, &mut self.spool),
                (PRODUCE, &mut self.produce),
                (DISK, &mut self.disk),
            ] {
                if name == known {
                    *place = Some(measure(unit));
                    found += 1;
                }
            }
        }
        if found == 0 {
            return Err(wrong("has no measured cost"));
        }
        self.cpus = json.pointer("/host/cpus").and_then(Value::as_u64).or(self.cpus);
        Ok(())
    }

    /// Takes in the rows of one detector; true if there was something in them.
    fn decoder(&mut self, file: &str, detector: &str, rows: &[&Value]) -> bool {
        let row = |how: &str| {
            let of = |r: &&&Value| r.get("how").and_then(Value::as_str) == Some(how);
            // Simulated traffic is an instrument's usual load; captures stand in where there is none.
            let input = |r: &&&Value| r.get("input").and_then(Value::as_str) == Some("simulated");
            rows.iter().find(|r| of(r) && input(r)).or_else(|| rows.iter().find(of))
        };
        let number =
            |row: &Value, key: &str| row.pointer(key).and_then(Value::as_f64).filter(|v| *v > 0.0);
        let measure = |row: &Value, key: &str, unit: &str, how: &str| {
            let input = row.get("input").and_then(Value::as_str).unwrap_or("unnamed input");
            let from = format!("{file}: {detector} {input}, {how}");
            let value = number(row, &format!("/{key}/value"))?;
            Some(Measure { value, unit: unit.to_owned(), from })
        };
        let mut found = false;
        if let Some(memory) = row("memory") {
            let packets = measure(memory, "packets", "packets/s", "memory");
            let events = measure(memory, "events", "events/s", "memory");
            if let (Some(packets), Some(events), Some(packet_bytes)) =
                (packets, events, number(memory, "/packet_bytes"))
            {
                let events_per_packet = events.value / packets.value;
                let decoder = MeasuredDecoder { packet_bytes, events_per_packet, packets, events };
                self.decoders.insert(detector.to_owned(), decoder);
                found = true;
            }
        }
        for threads in [1, 2] {
            let how = format!("udp-lossless-{threads}");
            if let Some(packets) = row(&how).and_then(|r| measure(r, "packets", "packets/s", &how))
            {
                self.workers.insert((detector.to_owned(), threads), packets);
                found = true;
            }
        }
        found
    }

    /// The decoder's costs.
    ///
    /// # Errors
    /// There are none.
    pub fn of(&self, detector: &str) -> Result<&MeasuredDecoder, CapacityError> {
        let missing = || CapacityError::NotMeasured { detector: detector.to_owned() };
        self.decoders.get(detector).ok_or_else(missing)
    }

    /// Packets a second of `bytes` that one core receives without loss: between the two measured sizes that enclose it
    /// by the time a packet takes, outside of them as at the nearest. `None`: nothing was measured.
    pub fn receive_of(&self, bytes: f64) -> Option<Measure> {
        let below = self.receive.iter().rev().find(|(size, _)| f64::from(**size) <= bytes);
        let above = self.receive.iter().find(|(size, _)| f64::from(**size) >= bytes);
        let (Some((&low, a)), Some((&high, b))) = (below, above) else {
            return below.or(above).map(|(_, m)| m.clone());
        };
        if low == high {
            return Some(a.clone());
        }
        let share = (bytes - f64::from(low)) / f64::from(high - low);
        let seconds = (1.0 - share) / a.value + share / b.value;
        let from = format!("{} and _{high}, between them for {bytes:.0} B", a.from);
        Some(Measure { value: 1.0 / seconds, unit: a.unit.clone(), from })
    }
}

/// Size of `lossless_ENGINE_SIZE`.
fn lossless_size(name: &str) -> Option<u32> {
    let (engine, size) = name.strip_prefix("lossless_")?.rsplit_once('_')?;
    // What the service itself receives by; the others are there for comparison.
    if matches!(engine, "auto" | "both") { size.parse().ok() } else { None }
}

fn rows_by_detector(json: &Value) -> BTreeMap<String, Vec<&Value>> {
    let mut all: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for row in json.get("rows").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = row.get("detector").and_then(Value::as_str) {
            all.entry(name.to_owned()).or_default().push(row);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn rows_and_figures_are_taken_with_where_they_are_from() {
        let facts = example::facts();
        let sonde = facts.of("sonde").unwrap();
        assert_eq!((sonde.packet_bytes, sonde.events_per_packet), (1250.0, 250.0));
        assert_eq!(sonde.packets.from, "memory.json: sonde simulated, memory");
        let chain = &facts.workers[&("sonde".to_owned(), 1)];
        assert_eq!((chain.value, chain.unit.as_str()), (400_000.0, "packets/s"));
        assert_eq!(chain.from, "udp.json: sonde simulated, udp-lossless-1");
        assert_eq!(facts.cpus, Some(4));
        assert!(
            facts.of("gdgem").unwrap_err().to_string().contains("lab detectors --detector gdgem")
        );
    }

    #[test]
    fn receiving_goes_by_the_time_a_packet_takes() {
        let facts = example::facts();
        let at = |bytes| facts.receive_of(bytes).unwrap();
        assert_eq!((at(1000.0).value, at(9000.0).value), (1e6, 250e3));
        // Outside: as at the nearest.
        assert_eq!((at(64.0).value, at(65_000.0).value), (1e6, 250e3));
        // Half way: (1 + 4) / 2 µs.
        assert!((at(5000.0).value - 400e3).abs() < 1e-6);
        assert!(at(5000.0).from.contains("between them for 5000 B"));
        assert_eq!(MeasuredRates::default().receive_of(64.0), None);
    }

    #[test]
    fn files_without_costs_are_refused() {
        for (text, why) in [
            ("", "no JSON"),
            ("{}", "no measured cost"),
            ("{\"rows\": [{\"detector\": \"sonde\", \"how\": \"memory\"}]}", "no measured cost"),
            ("{\"figures\": {\"lossless_plain_64\": {\"value\": 1.0}}}", "no measured cost"),
            ("{\"figures\": {\"capacity_disk\": {\"value\": 0}}}", "no measured cost"),
        ] {
            let e = MeasuredRates::default().read("f.json", text).unwrap_err().to_string();
            assert!(e.contains(why) && e.contains("f.json"), "{e}");
        }
    }

    #[test]
    fn a_later_file_replaces_what_an_earlier_one_said() {
        let mut facts = example::facts();
        facts.read("new.json", "{\"figures\": {\"capacity_disk\": {\"value\": 7.0}}}").unwrap();
        let disk = facts.disk.unwrap();
        assert_eq!((disk.value, disk.from.as_str()), (7.0, "new.json: capacity_disk"));
        assert!(facts.spool.is_some() && facts.cpus == Some(4));
    }
}
