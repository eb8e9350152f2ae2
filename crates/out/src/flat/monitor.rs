//! mo01: a detector in commissioning: histograms, one track, raw hits.
//!
//! Refuses a buffer without the identifier, as sent in 2018: bytes 4 to 8 are then anything.
//! Source: `docs/formats/flatbuffers.md` section 3.1.

use std::borrow::Cow;

use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, Vector, WIPOffset};

use super::field::{Put, PutTable, Take, table};
use super::generated::mo01;
use super::message::Schema;
use super::refused::Refused;

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

impl<'a> Take<Option<Vector<'a, ForwardsUOffset<mo01::pos<'a>>>>> for Option<Vec<Point>> {
    fn read(value: Option<Vector<'a, ForwardsUOffset<mo01::pos<'a>>>>) -> Result<Self, Refused> {
        value.map(|points| points.iter().map(Take::read).collect()).transpose()
    }
}

impl Put for Option<Vec<Point>> {
    type Put<'b> = Option<WIPOffset<Vector<'b, ForwardsUOffset<mo01::pos<'b>>>>>;
    fn put<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> Self::Put<'b> {
        self.as_ref().map(|points| {
            let tables: Vec<_> = points.iter().map(|point| point.put_table(builder)).collect();
            builder.create_vector(&tables)
        })
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

/// A message of a detector in commissioning.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Monitor<'a> {
    /// Who made it.
    pub source_name: Option<&'a str>,
    /// What it shows.
    pub data: Option<MonitorData<'a>>,
}

impl<'a> Take<mo01::MonitorMessage<'a>> for Monitor<'a> {
    fn read(table: mo01::MonitorMessage<'a>) -> Result<Self, Refused> {
        use mo01::DataField;
        let data = match table.data_type() {
            DataField::NONE => None,
            DataField::GEMHist => {
                Option::read(table.data_as_gemhist())?.map(MonitorData::Histograms)
            }
            DataField::GEMTrack => Option::read(table.data_as_gemtrack())?.map(MonitorData::Track),
            DataField::MONHit => Option::read(table.data_as_monhit())?.map(MonitorData::Hits),
            DataField(tag) => {
                return Err(Refused::UnknownMember { schema: Schema::Mo01, field: "data", tag });
            }
        };
        Ok(Self { source_name: table.source_name(), data })
    }
}

impl PutTable for Monitor<'_> {
    type Table<'b> = mo01::MonitorMessage<'b>;
    fn put_table<'b>(&self, builder: &mut FlatBufferBuilder<'b>) -> WIPOffset<Self::Table<'b>> {
        use mo01::DataField;
        let (data_type, data) = match &self.data {
            None => (DataField::NONE, None),
            Some(MonitorData::Histograms(it)) => {
                (DataField::GEMHist, Some(it.put_table(builder).as_union_value()))
            }
            Some(MonitorData::Track(it)) => {
                (DataField::GEMTrack, Some(it.put_table(builder).as_union_value()))
            }
            Some(MonitorData::Hits(it)) => {
                (DataField::MONHit, Some(it.put_table(builder).as_union_value()))
            }
        };
        let source_name = self.source_name.put(builder);
        let args = mo01::MonitorMessageArgs { source_name, data_type, data };
        mo01::MonitorMessage::create(builder, &args)
    }
}
