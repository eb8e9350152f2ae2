//! mo01: a detector in commissioning: histograms, one track, raw hits.
//!
//! Refuses a buffer without the identifier, as sent in 2018: bytes 4 to 8 are then anything.
//! Source: `docs/formats/flatbuffers.md` section 3.1.

use std::borrow::Cow;

use super::field::{PutTable, Take, table, union, union_table};

table! {
    /// Counts since the last message (GEMHist).
    pub struct Histograms<'a>: mo01 GEMHist GEMHistArgs {
        /// Hits per channel, first plane.
        pub xstrips: Option<Cow<'a, [u32]>>,
        /// Hits per channel, second plane.
        pub ystrips: Option<Cow<'a, [u32]>>,
        /// Pulse heights, first plane.
        pub xspectrum: Option<Cow<'a, [u32]>>,
        /// Pulse heights, second plane.
        pub yspectrum: Option<Cow<'a, [u32]>>,
        /// Summed amplitudes of clusters.
        pub cluster_spectrum: Option<Cow<'a, [u32]>>,
        /// ADC counts per bin of the last one, a power of two.
        pub bin_width: u32,
    }
}

table! {
    /// A point of a track (`pos`).
    #[derive(Copy)]
    pub struct Point: mo01 pos posArgs {
        /// After the track's time offset.
        pub time: u16,
        /// Strip.
        pub strip: u16,
        /// ADC counts.
        pub adc: u16,
    }
}

table! {
    /// One track (GEMTrack).
    pub struct Track: mo01 GEMTrack GEMTrackArgs {
        /// Time of the first hit.
        pub time_offset: u64,
        /// Points in the first plane.
        pub xtrack: Option<Vec<Point>>,
        /// Points in the second plane.
        pub ytrack: Option<Vec<Point>>,
        /// Where it came in, first plane.
        pub xpos: f64,
        /// Where it came in, second plane.
        pub ypos: f64,
    }
}

table! {
    /// Raw hits (MONHit).
    pub struct Hits<'a>: mo01 MONHit MONHitArgs {
        /// 0 wires or x, 1 grids or y.
        pub plane: Option<Cow<'a, [u16]>>,
        /// In the readout's own unit.
        pub time: Option<Cow<'a, [u32]>>,
        /// Wire, grid or strip.
        pub channel: Option<Cow<'a, [u16]>>,
        /// ADC counts.
        pub adc: Option<Cow<'a, [u16]>>,
    }
}

/// What a message shows.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "type")]
pub enum MonitorData<'a> {
    /// Histograms.
    #[serde(rename = "GEMHist")]
    Histograms(Histograms<'a>),
    /// One track.
    #[serde(rename = "GEMTrack")]
    Track(Track),
    /// Raw hits.
    #[serde(rename = "MONHit")]
    Hits(Hits<'a>),
}

union! {
    take put: mo01 MonitorMessage DataField data_type Mo01 "data",
    MonitorData {
        Histograms GEMHist data_as_gemhist,
        Track GEMTrack data_as_gemtrack,
        Hits MONHit data_as_monhit,
    }
}

union_table! {
    /// A message of a detector in commissioning.
    pub struct Monitor<'a>: mo01 MonitorMessage MonitorMessageArgs {
        /// Who made it.
        pub source_name: Option<&'a str>,
        /// What it shows.
        pub data(data_type take put): Option<MonitorData<'a>>,
    }
}
