//! Instruments: what each sends, and where that figure is from.
//!
//! Eight rows, which the detectors' kinds declare (`Simulator::instruments`), are table 1 of the event formation paper (M. J. Christensen et al., "Software-based data acquisition and
//! processing for neutron detectors at European Spallation Source – early experience from four detector designs", JINST
//! 13 T11002, 2018), data rates at 5 MW. Two of them, both for LoKI, have detectors without a decoder here: they are
//! planned by their rate and bytes, and the cost of an event is assumed to be that of another detector. Refuses: files
//! with unknown keys, and values out of range.

use fullcount_core::simulator::facts::PaperInstrument;
use serde::Deserialize;

use super::{CapacityError, out_of_range};

/// Pulses a second of the European Spallation Source.
pub const ESS_HZ: f64 = 14.0;
/// Length of its pulse, seconds.
pub const ESS_PULSE_S: f64 = 2.86e-3;

/// What an instrument's packets are made into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstrumentKind {
    /// Events, by this detector's decoder.
    Detector(String),
    /// Events of a detector without a decoder here: the cost of an event is assumed.
    Assumed {
        /// The detector.
        technology: String,
        /// The detector whose measured cost of an event is taken.
        cost_of: String,
    },
    /// Nothing: packets are received and handed on.
    Packets,
}

impl InstrumentKind {
    /// The detector whose measured costs count; `None` for bare packets.
    pub fn costs(&self) -> Option<&str> {
        match self {
            InstrumentKind::Detector(name) | InstrumentKind::Assumed { cost_of: name, .. } => {
                Some(name)
            }
            InstrumentKind::Packets => None,
        }
    }

    /// The instrument's own detector; `None` for bare packets.
    pub fn detector(&self) -> Option<&str> {
        match self {
            InstrumentKind::Detector(name) | InstrumentKind::Assumed { technology: name, .. } => {
                Some(name)
            }
            InstrumentKind::Packets => None,
        }
    }

    /// What was assumed of it, in a sentence.
    pub fn assumption(&self) -> Option<String> {
        match self {
            InstrumentKind::Assumed { technology, cost_of } => Some(format!(
                "the cost of an event is assumed: {technology} has no decoder here, so that of {cost_of} is taken, and \
                 its size of a packet"
            )),
            InstrumentKind::Detector(_) | InstrumentKind::Packets => None,
        }
    }
}

/// Links that are given, not to be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Links {
    /// How many.
    pub count: u64,
    /// Speed of each, bit/s.
    pub speed: f64,
}

/// One instrument.
#[derive(Debug, Clone, PartialEq)]
pub struct Instrument {
    /// As asked for.
    pub name: String,
    /// What it is.
    pub about: String,
    /// What becomes of its packets.
    pub kind: InstrumentKind,
    /// Events (or packets, where none are made) a second, over all; `None`: not known.
    pub rate: Option<f64>,
    /// The same within 1 ms of the pulse's peak, if known.
    pub peak: Option<f64>,
    /// Bytes of readout an event that are planned; the format's own count too.
    pub bytes_per_event: Option<f64>,
    /// Bytes of a packet, if not those that were measured.
    pub packet_bytes: Option<f64>,
    /// Links, if they are given.
    pub links: Option<Links>,
    /// Pulses a second; `None`: it sends all the time alike.
    pub pulses: Option<f64>,
    /// Factor by which messages and file become smaller by compression, 1 or more.
    pub compress_factor: f64,
    /// Where the figures are from.
    pub source: String,
}

/// A sentence for an instrument without a rate.
pub const NOT_GIVEN: &str = "no rate is given: write it as `rate` in the file, or give --rate";

const PAPER: &str = "the event formation paper of 2018, table 1";

/// A row of the paper, which the kind called `detector` declares.
fn ess(detector: &str, row: &PaperInstrument) -> Instrument {
    let kind = match row.technology {
        None => InstrumentKind::Detector(detector.to_owned()),
        Some(technology) => InstrumentKind::Assumed {
            technology: technology.to_owned(),
            cost_of: detector.to_owned(),
        },
    };
    Instrument {
        name: row.name.to_owned(),
        about: format!("ESS, {}", kind.detector().unwrap_or_default()),
        kind,
        rate: Some(row.mhz * 1e6),
        peak: None,
        bytes_per_event: Some(row.mb_per_s / row.mhz),
        packet_bytes: None,
        links: None,
        pulses: Some(ESS_HZ),
        compress_factor: 1.0,
        source: PAPER.to_owned(),
    }
}

fn links(
    name: &str,
    about: &str,
    (bytes_per_s, packet): (f64, f64),
    links: Links,
    source: &str,
) -> Instrument {
    Instrument {
        name: name.to_owned(),
        about: about.to_owned(),
        kind: InstrumentKind::Packets,
        rate: Some(bytes_per_s / packet),
        peak: None,
        bytes_per_event: Some(packet),
        packet_bytes: Some(packet),
        links: Some(links),
        pulses: None,
        compress_factor: 1.0,
        source: source.to_owned(),
    }
}

/// All that are known by name: those that the kinds declare, by name, and those that send bare packets.
pub fn table() -> Vec<Instrument> {
    let mut all: Vec<Instrument> = fullcount_sim::registered()
        .kinds()
        .flat_map(|kind| kind.declared().instruments.iter().map(|row| ess(kind.name(), row)))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let memo = "the SPEAD memo's question: 0.7 TB/s (Low) and 0.6 TB/s (Mid) over 72 and 64 links of 100 GbE";
    let cms = "the simplified TCP paper: more than 600 front-end drivers, one 10 Gb/s link each; reference load of 2 KiB \
               fragments at 100 kHz";
    // 8972 B: the largest payload in a frame of MTU 9000. CMS: 2 KiB fragments that fill frames of 8960 B.
    all.extend([
        links(
            "ska1-low",
            "SKA1 Low, correlator to processor",
            (0.7e12, 8972.0),
            Links { count: 72, speed: 100e9 },
            memo,
        ),
        links(
            "ska1-mid",
            "SKA1 Mid, correlator to processor",
            (0.6e12, 8972.0),
            Links { count: 64, speed: 100e9 },
            memo,
        ),
        links(
            "cms",
            "CMS, 600 front-end drivers",
            (600.0 * 2048.0 * 100e3, 8960.0),
            Links { count: 600, speed: 10e9 },
            cms,
        ),
    ]);
    all
}

/// Names that are known, in the order of the table.
pub fn names() -> Vec<String> {
    table().into_iter().map(|i| i.name).collect()
}

/// One or all of the table, or every option of one: `loki`.
///
/// # Errors
/// A name that is not known, with those that are.
pub fn named(name: &str) -> Result<Vec<Instrument>, CapacityError> {
    let all = table();
    if name == "all" {
        return Ok(all);
    }
    // People write C-SPEC and CSPEC.
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
    if let Some(one) = all.iter().find(|i| plain(&i.name) == plain(name)) {
        return Ok(vec![one.clone()]);
    }
    let is_option = |i: &Instrument| {
        matches!(i.kind, InstrumentKind::Assumed { .. })
            && i.name.split_once('-').is_some_and(|(of, _)| of == plain(name))
    };
    match all.into_iter().filter(is_option).collect::<Vec<_>>() {
        none if none.is_empty() => {
            Err(CapacityError::Unknown { asked: name.to_owned(), known: names().join(", ") })
        }
        options => Ok(options),
    }
}

/// A file of instruments: `[[instrument]]`, each with these keys.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentFile {
    /// The instruments.
    #[serde(rename = "instrument")]
    pub instruments: Vec<InstrumentEntry>,
}

/// One instrument of a file. Rates are plain numbers a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentEntry {
    /// Name: 1 to 40 characters.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// A detector's name; without it packets are only received.
    pub detector: Option<String>,
    /// Events a second; packets where there is no detector.
    pub rate: Option<f64>,
    /// The same within 1 ms of the peak.
    pub peak: Option<f64>,
    /// Bytes of readout an event.
    pub bytes_per_event: Option<f64>,
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Pulses a second; 0: none. 14 without it.
    pub pulses: Option<f64>,
    /// Links that are given.
    pub links: Option<u64>,
    /// Speed of each, bit/s.
    pub link_speed: Option<f64>,
    /// Factor of compression on the topic and in the file.
    pub compress_factor: Option<f64>,
}

impl InstrumentFile {
    /// The instruments, checked.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn instruments(self, path: &str) -> Result<Vec<Instrument>, CapacityError> {
        if self.instruments.is_empty() {
            return Err(out_of_range("instrument", "none", "one [[instrument]] or more"));
        }
        self.instruments.into_iter().map(|e| e.instrument(path)).collect()
    }
}

impl InstrumentEntry {
    fn instrument(self, path: &str) -> Result<Instrument, CapacityError> {
        if !(1..=40).contains(&self.name.chars().count()) || self.name.contains(['|', '\n']) {
            return Err(out_of_range("name", &self.name, "1 to 40 characters, no |"));
        }
        let links = match (self.links, self.link_speed) {
            (None, None) => None,
            (Some(count), Some(speed)) => Some(Links { count, speed }),
            _ => return Err(out_of_range("links", &self.name, "links and link_speed together")),
        };
        if self.detector.is_none() && self.packet_bytes.is_none() {
            return Err(out_of_range("packet_bytes", "none", "bytes, where there is no detector"));
        }
        let bytes_per_event = match self.detector {
            Some(_) => self.bytes_per_event,
            None => self.packet_bytes,
        };
        let instrument = Instrument {
            name: self.name,
            about: self.about,
            kind: self.detector.map_or(InstrumentKind::Packets, InstrumentKind::Detector),
            rate: self.rate,
            peak: self.peak,
            bytes_per_event,
            packet_bytes: self.packet_bytes,
            links,
            pulses: Some(self.pulses.unwrap_or(ESS_HZ)).filter(|hz| *hz != 0.0),
            compress_factor: self.compress_factor.unwrap_or(1.0),
            source: path.to_owned(),
        };
        instrument.check()?;
        Ok(instrument)
    }
}

impl Instrument {
    /// Every value is in its range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), CapacityError> {
        let between = |key, value: Option<f64>, least: f64, most: f64, unit: &str| match value {
            Some(v) if !(least..=most).contains(&v) => Err(out_of_range(
                key,
                v,
                match most {
                    m if m >= 1e6 => format!("{least} to {m:e} {unit}"),
                    m => format!("{least} to {m} {unit}"),
                },
            )),
            _ => Ok(()),
        };
        between("rate", self.rate, 1.0, 1e13, "a second")?;
        between("peak", self.peak, 1.0, 1e13, "a second")?;
        between("bytes_per_event", self.bytes_per_event, 0.1, 1e6, "bytes")?;
        between("packet_bytes", self.packet_bytes, 24.0, 65_507.0, "bytes")?;
        between("pulses", self.pulses, 0.1, 10_000.0, "a second, or 0 for none")?;
        between("compress_factor", Some(self.compress_factor), 1.0, 100.0, "")?;
        if let Some(l) = self.links {
            between("links", Some(l.count as f64), 1.0, 1e5, "")?;
            between("link_speed", Some(l.speed), 1e6, 1e13, "bit/s")?;
        }
        match (self.rate, self.peak) {
            (Some(rate), Some(peak)) if peak < rate => {
                Err(out_of_range("peak", peak, format!("the average, {rate}, or more")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_people_write_them_and_unknown_ones_list_all() {
        assert_eq!(named("CSPEC").unwrap()[0].name, "c-spec");
        assert_eq!(named("SKA1_Low").unwrap()[0].links.unwrap().count, 72);
        assert_eq!(named("all").unwrap().len(), 11);
        let loki: Vec<String> = named("LoKI").unwrap().into_iter().map(|i| i.name).collect();
        assert_eq!(loki, ["loki-band-gem", "loki-bcs"]);
        let said = named("dream").unwrap_err().to_string();
        for name in names() {
            assert!(said.contains(&name), "{said}");
        }
        for i in table() {
            i.check().unwrap();
            assert!(!i.source.is_empty(), "{}", i.name);
        }
    }

    #[test]
    fn the_rows_of_the_papers_table_are_as_published() {
        // Instrument, MHz, MB/s.
        let published = [
            ("c-spec", 10.0, 80.0),
            ("estia", 500.0, 4000.0),
            ("freia", 100.0, 800.0),
            ("loki-band-gem", 34.0, 272.0),
            ("loki-bcs", 37.0, 298.0),
            ("nmx", 5.0, 300.0),
            ("skadi", 37.0, 1180.0),
            ("t-rex", 10.0, 80.0),
        ];
        let rows: Vec<Instrument> =
            table().into_iter().filter(|i| i.kind != InstrumentKind::Packets).collect();
        assert_eq!(rows.len(), published.len());
        for (row, (name, mhz, mb)) in rows.iter().zip(published) {
            assert_eq!((row.name.as_str(), row.rate), (name, Some(mhz * 1e6)));
            let bytes = row.rate.zip(row.bytes_per_event).map(|(rate, each)| rate * each);
            assert!((bytes.unwrap() / 1e6 - mb).abs() < 1e-6, "{name}: {bytes:?}");
            assert!(row.source.contains("table 1"), "{}", row.source);
            assert_eq!(row.kind.assumption().is_some(), name.starts_with("loki"), "{name}");
        }
    }

    fn entry() -> InstrumentEntry {
        InstrumentEntry {
            name: "d22".into(),
            about: String::new(),
            detector: Some("sonde".into()),
            rate: Some(1e6),
            peak: None,
            bytes_per_event: None,
            packet_bytes: None,
            pulses: None,
            links: None,
            link_speed: None,
            compress_factor: None,
        }
    }

    #[test]
    fn entries_of_files_are_checked_by_key_and_range() {
        let good = entry().instrument("my.toml").unwrap();
        assert_eq!((good.pulses, good.source.as_str()), (Some(14.0), "my.toml"));
        let steady = InstrumentEntry { pulses: Some(0.0), ..entry() }.instrument("f").unwrap();
        assert_eq!(steady.pulses, None);
        for (bad, key) in [
            (InstrumentEntry { name: String::new(), ..entry() }, "name"),
            (InstrumentEntry { rate: Some(0.0), ..entry() }, "rate"),
            (InstrumentEntry { rate: Some(f64::NAN), ..entry() }, "rate"),
            (InstrumentEntry { peak: Some(9e5), ..entry() }, "peak"),
            (InstrumentEntry { packet_bytes: Some(1e6), ..entry() }, "packet_bytes"),
            (InstrumentEntry { bytes_per_event: Some(0.0), ..entry() }, "bytes_per_event"),
            (InstrumentEntry { pulses: Some(-1.0), ..entry() }, "pulses"),
            (InstrumentEntry { compress_factor: Some(0.5), ..entry() }, "compress_factor"),
            (InstrumentEntry { links: Some(2), ..entry() }, "links"),
            (InstrumentEntry { links: Some(0), link_speed: Some(1e9), ..entry() }, "links"),
            (InstrumentEntry { detector: None, ..entry() }, "packet_bytes"),
        ] {
            let e = bad.instrument("f").unwrap_err().to_string();
            assert!(e.starts_with(key), "{key}: {e}");
        }
    }
}
