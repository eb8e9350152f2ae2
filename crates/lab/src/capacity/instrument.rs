//! Instruments: what each sends, and where that figure is from.
//!
//! The event formation paper (M. J. Christensen et al., "Software-based data acquisition and processing for neutron
//! detectors at European Spallation Source – early experience from four detector designs", JINST 13 T11002, 2018) has
//! eight in its table 1. The figures of three of them are in `docs/formats`; for three more their detector is known and
//! not their rate there; the names of the other two could not be found. Estia's rate is from another document of that
//! laboratory (S. Heybrock, "Estimation of hardware requirements for data reduction with Mantid at ESS", 2018), which has C-SPEC's
//! 10 MHz as the paper has. What is not known is [`None`]. Refuses: files with unknown keys, and values that cannot be.

use serde::Deserialize;

use super::{CapacityError, out_of_range};

/// Pulses a second of the European Spallation Source.
pub const ESS_HZ: f64 = 14.0;
/// Length of its pulse, seconds.
pub const ESS_PULSE_S: f64 = 2.86e-3;

/// What an instrument's packets are made into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Events, by this detector's decoder.
    Detector(String),
    /// Nothing: packets are received and handed on.
    Packets,
}

impl Kind {
    /// The detector; `None` for bare packets.
    pub fn detector(&self) -> Option<&str> {
        match self {
            Kind::Detector(name) => Some(name),
            Kind::Packets => None,
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
    pub kind: Kind,
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

/// A sentence for every figure that was looked for in vain.
pub const NOT_FOUND: &str =
    "the rate in table 1 of the paper was not found: give --rate, and --peak if it is known";

/// Behind the source of an instrument whose rate is not known.
pub const UNKNOWN: &str = "; its rate was not found";

const PAPER: &str = "the event formation paper of 2018";
const REPORT: &str = "ESS' estimate of hardware for data reduction, 2018";

fn ess(name: &str, detector: &str, rate: Option<(f64, f64)>, source: String) -> Instrument {
    Instrument {
        name: name.to_owned(),
        about: format!("ESS, {detector}"),
        kind: Kind::Detector(detector.to_owned()),
        rate: rate.map(|(events, _)| events),
        peak: None,
        bytes_per_event: rate.map(|(events, bytes)| bytes / events),
        packet_bytes: None,
        links: None,
        pulses: Some(ESS_HZ),
        compress_factor: 1.0,
        source,
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
        kind: Kind::Packets,
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

/// All that are known by name.
pub fn table() -> Vec<Instrument> {
    let given = |file: &str| format!("{PAPER}, in docs/formats/{file}, \"Load\"");
    let unknown = |why: &str| format!("{why}{UNKNOWN}");
    let memo = "the SPEAD memo's question: 0.7 TB/s (Low) and 0.6 TB/s (Mid) over 72 and 64 links of 100 GbE";
    let cms = "the simplified TCP paper: more than 600 front-end drivers, one 10 Gb/s link each; reference load of 2 KiB \
               fragments at 100 kHz";
    // 8972 B: the largest payload in a frame of MTU 9000. CMS: 2 KiB fragments that fill frames of 8960 B.
    vec![
        ess("c-spec", "multigrid", Some((10e6, 80e6)), given("multigrid.md")),
        ess("t-rex", "multigrid", Some((10e6, 80e6)), given("multigrid.md")),
        ess("skadi", "sonde", Some((37e6, 1180e6)), given("sonde.md")),
        // Up to 2e7 in total reflection; most of the time 8e5. A reference of some seconds has 1e8: `--rate 100Mev/s`.
        Instrument {
            rate: Some(20e6),
            ..ess(
                "estia",
                "multiblade",
                None,
                format!("{REPORT}: up to 20 MHz in total reflection"),
            )
        },
        ess(
            "freia",
            "multiblade",
            None,
            unknown("Multi-Blade in Freia orientation, docs/formats/multiblade.md"),
        ),
        ess("nmx", "gdgem", None, unknown("the Gd-GEM instrument in docs/formats/flatbuffers.md")),
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
    ]
}

/// Names that are known, in the order of the table.
pub fn names() -> Vec<String> {
    table().into_iter().map(|i| i.name).collect()
}

/// One or all of the table.
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
    match all.into_iter().find(|i| plain(&i.name) == plain(name)) {
        Some(one) => Ok(vec![one]),
        None => Err(CapacityError::Unknown { asked: name.to_owned(), known: names().join(", ") }),
    }
}

/// A file of instruments: `[[instrument]]`, each with these keys.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The instruments.
    #[serde(rename = "instrument")]
    pub instruments: Vec<Entry>,
}

/// One instrument of a file. Rates are plain numbers a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name: 1 to 40 characters.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub about: String,
    /// sonde, multigrid, multiblade, gdgem …; without it packets are only received.
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

impl File {
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

impl Entry {
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
            kind: self.detector.map_or(Kind::Packets, Kind::Detector),
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
        assert_eq!(named("all").unwrap().len(), 9);
        let said = named("loki").unwrap_err().to_string();
        for name in names() {
            assert!(said.contains(&name), "{said}");
        }
        for i in table() {
            i.check().unwrap();
            assert!(!i.source.is_empty(), "{}", i.name);
        }
    }

    #[test]
    fn what_was_not_found_is_not_there() {
        for name in ["freia", "nmx"] {
            let one = named(name).unwrap().remove(0);
            assert_eq!((one.rate, one.peak, one.bytes_per_event), (None, None, None));
            assert!(one.source.contains("not found"), "{}", one.source);
        }
        assert_eq!(named("estia").unwrap()[0].rate, Some(20e6));
        let skadi = named("skadi").unwrap().remove(0);
        assert_eq!(skadi.rate, Some(37e6));
        assert_eq!(skadi.bytes_per_event.map(|b| (b * 37.0).round()), Some(1180.0));
    }

    fn entry() -> Entry {
        Entry {
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
        let steady = Entry { pulses: Some(0.0), ..entry() }.instrument("f").unwrap();
        assert_eq!(steady.pulses, None);
        for (bad, key) in [
            (Entry { name: String::new(), ..entry() }, "name"),
            (Entry { rate: Some(0.0), ..entry() }, "rate"),
            (Entry { rate: Some(f64::NAN), ..entry() }, "rate"),
            (Entry { peak: Some(9e5), ..entry() }, "peak"),
            (Entry { packet_bytes: Some(1e6), ..entry() }, "packet_bytes"),
            (Entry { bytes_per_event: Some(0.0), ..entry() }, "bytes_per_event"),
            (Entry { pulses: Some(-1.0), ..entry() }, "pulses"),
            (Entry { compress_factor: Some(0.5), ..entry() }, "compress_factor"),
            (Entry { links: Some(2), ..entry() }, "links"),
            (Entry { links: Some(0), link_speed: Some(1e9), ..entry() }, "links"),
            (Entry { detector: None, ..entry() }, "packet_bytes"),
        ] {
            let e = bad.instrument("f").unwrap_err().to_string();
            assert!(e.starts_with(key), "{key}: {e}");
        }
    }
}
