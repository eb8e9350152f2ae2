//! Hits and clusters as rows: columns in addition to the events, filled only on request.
//!
//! Each group is a struct of columns, and declares name, unit and meaning of each, so that outputs write any
//! group without knowing it.
//!
//! Times are integers of picoseconds after `[time] epoch`: a double of nanoseconds keeps 0.5 ps at an hour
//! only, and dates would leave 256 ns of it; 2⁶³ ps are 106 days, later times are limited to the end of the
//! range. Positions are doubles: a centre of mass is a quotient of whole numbers, and the published programs
//! give it as that double, to be compared bit by bit.

use crate::number::NumberType;
use crate::products::{HitBatch, Products};

/// Values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values<'a> {
    /// Unsigned, 8 bits.
    U8(&'a [u8]),
    /// Unsigned, 16 bits.
    U16(&'a [u16]),
    /// Unsigned, 32 bits.
    U32(&'a [u32]),
    /// Unsigned, 64 bits.
    U64(&'a [u64]),
    /// Signed, 64 bits.
    I64(&'a [i64]),
    /// Doubles.
    F64(&'a [f64]),
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name, with the unit at its end if several units are in use.
    pub name: &'static str,
    /// Unit; empty for plain numbers.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Type.
    pub kind: NumberType,
}

/// Types of columns.
pub trait Value: Copy {
    /// Its type.
    const KIND: NumberType;
    /// A slice of them as [`Values`].
    fn values(of: &[Self]) -> Values<'_>;
}

macro_rules! value {
    ($($type:ty: $kind:ident),+) => { $(
        impl Value for $type {
            const KIND: NumberType = NumberType::$kind;
            fn values(of: &[Self]) -> Values<'_> {
                Values::$kind(of)
            }
        }
    )+ };
}
value!(u8: U8, u16: U16, u32: U32, u64: U64, i64: I64, f64: F64);

/// Picoseconds of a time in nanoseconds, to the nearest; `ns` is no NaN.
#[inline]
pub fn ps(ns: f64) -> i64 {
    // Whole and broken part apart: a product of doubles would round above 2⁵³ ps, which are 2.5 h.
    let whole = ns.floor();
    (whole as i64).saturating_mul(1000).saturating_add(((ns - whole) * 1000.0).round() as i64)
}

/// Makes a group: a struct of columns and the struct of one row.
macro_rules! group {
    ($(#[$of_all:meta])* $group:ident, $(#[$of_one:meta])* $row:ident {
        $($name:ident: $type:ty, $unit:literal, $meaning:literal;)+
    }) => {
        $(#[$of_one])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct $row { $(#[doc = $meaning] pub $name: $type),+ }

        $(#[$of_all])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $group { $(#[doc = $meaning] pub $name: Vec<$type>),+ }

        impl $group {
            /// Its columns, in their order.
            pub const COLUMNS: &'static [Column] = &[$(Column {
                name: stringify!($name),
                unit: $unit,
                meaning: $meaning,
                kind: <$type as Value>::KIND,
            }),+];

            /// Bytes of a row in the columns.
            pub const ROW_BYTES: usize = 0 $(+ size_of::<$type>())+;

            /// Adds a row.
            #[inline]
            pub fn push(&mut self, row: $row) {
                $(self.$name.push(row.$name);)+
            }

            /// Forgets the rows, keeps the memory.
            pub fn clear(&mut self) {
                $(self.$name.clear();)+
            }

            /// Appends the rows of `other`, which becomes empty.
            pub fn append(&mut self, other: &mut $group) {
                $(self.$name.append(&mut other.$name);)+
            }

            /// Values of each column, in the order of [`Self::COLUMNS`].
            pub fn values(&self) -> Vec<Values<'_>> {
                vec![$(Value::values(&self.$name)),+]
            }
        }
    };
}

group! {
    /// Hits of strips and pads, in the order of reading.
    StripHits,
    /// A hit of a strip or pad.
    StripHit {
        time_ps: i64, "ps", "time after the epoch";
        detector: u32, "", "detector, as the geometry numbers it";
        plane: u8, "", "plane of the detector: 0 x, 1 y, 2 u";
        strip: u16, "strip", "strip, or column of a pad";
        row: u16, "strip", "row of a pad, 0 for strips";
        adc: u16, "count", "amplitude after calibration";
        over_threshold: u8, "", "1 if the strip itself was above threshold, 0 if a neighbour was";
        fec: u8, "", "front-end concentrator";
        vmm: u8, "", "VMM of the concentrator";
        channel: u8, "", "channel of the VMM";
        offset: u8, "", "offset of the word as sent, 0 to 31";
        bcid: u16, "", "bunch-crossing counter, decoded";
        tdc: u8, "", "time-to-digital counter";
        trigger: u32, "", "event counter of triggered firmware, else 0";
    }
}

group! {
    /// Hits on the planes of modules or cassettes, in the order of reading.
    ModuleHits,
    /// A hit on a plane of a module or cassette.
    ModuleHit {
        time_ps: i64, "ps", "time after the epoch";
        module: u16, "", "module or cassette";
        plane: u8, "", "plane of the module, as the format counts them";
        coordinate: u16, "", "wire, grid or strip, as the format counts them";
        adc: u16, "count", "amplitude after rescaling";
    }
}

group! {
    /// Clusters of single planes, by their first hits; those of one plane in the order of being closed.
    PlaneClusters,
    /// A cluster of a plane.
    PlaneRow {
        id: u64, "", "number within detector and plane, from 1, in the order of being closed";
        detector: u32, "", "detector, as the geometry numbers it";
        plane: u8, "", "plane of the detector: 0 x, 1 y, 2 u";
        size: u32, "", "number of hits";
        adc: u64, "count", "sum of the amplitudes";
        pos: f64, "strip", "centre of mass";
        time_ps: i64, "ps", "centre of mass of the times";
        pos_utpc: f64, "strip", "strip of the hit that came last";
        time_utpc_ps: i64, "ps", "its time";
        pos_charge2: f64, "strip", "centre with squared amplitudes";
        time_charge2_ps: i64, "ps", "centre of the times with squared amplitudes";
        pos_algo: f64, "strip", "position that detector.algo asks for, else 0";
        time_algo_ns: f64, "ns", "time that detector.algo asks for, else 0; for algo 5 the bit pattern of plane 2";
        first_ps: i64, "ps", "time of the first hit";
        last_ps: i64, "ps", "time of the last hit";
    }
}

group! {
    /// Clusters of whole detectors, in the order of their events; at equal times by number of the detector.
    DetectorClusters,
    /// A cluster of a detector: up to three planes; all values of a plane that it does not have are 0.
    DetectorRow {
        id: u64, "", "number within the detector, from 1";
        detector: u32, "", "detector, as the geometry numbers it";
        planes: u8, "", "planes that it has: bit 0 for plane 0, and so on";
        best: u8, "", "1, or 0 for a further pair of detector.hm = 1";
        id0: u64, "", "plane 0: id of its plane cluster, 0 where there is no table of these";
        id1: u64, "", "plane 1: id of its plane cluster";
        id2: u64, "", "plane 2: id of its plane cluster";
        size0: u32, "", "plane 0: number of hits; pads: columns from the first to the last";
        size1: u32, "", "plane 1: number of hits; pads: rows from the first to the last";
        size2: u32, "", "plane 2: number of hits; pads: number of hits";
        adc0: u64, "count", "plane 0: sum of the amplitudes";
        adc1: u64, "count", "plane 1: sum of the amplitudes";
        adc2: u64, "count", "plane 2: sum of the amplitudes";
        pos0: f64, "strip", "plane 0: centre of mass, or what the online chain is told to use; pads: column";
        pos1: f64, "strip", "plane 1: the same; pads: row";
        pos2: f64, "strip", "plane 2: the same";
        time0_ps: i64, "ps", "plane 0: centre of mass of the times, or what the online chain is told to use";
        time1_ps: i64, "ps", "plane 1: the same";
        time2_ps: i64, "ps", "plane 2: the same";
        pos0_utpc: f64, "strip", "plane 0: strip of the hit that came last";
        pos1_utpc: f64, "strip", "plane 1: the same";
        pos2_utpc: f64, "strip", "plane 2: the same";
        time0_utpc_ps: i64, "ps", "plane 0: time of the hit that came last";
        time1_utpc_ps: i64, "ps", "plane 1: the same";
        time2_utpc_ps: i64, "ps", "plane 2: the same";
        pos0_charge2: f64, "strip", "plane 0: centre with squared amplitudes";
        pos1_charge2: f64, "strip", "plane 1: the same";
        pos2_charge2: f64, "strip", "plane 2: the same";
        time0_charge2_ps: i64, "ps", "plane 0: centre of the times with squared amplitudes";
        time1_charge2_ps: i64, "ps", "plane 1: the same";
        time2_charge2_ps: i64, "ps", "plane 2: the same";
        pos0_algo: f64, "strip", "plane 0: position that detector.algo asks for";
        pos1_algo: f64, "strip", "plane 1: the same";
        pos2_algo: f64, "strip", "plane 2: the same";
        time0_algo_ns: f64, "ns", "plane 0: time that detector.algo asks for";
        time1_algo_ns: f64, "ns", "plane 1: the same";
        time2_algo_ns: f64, "ns", "plane 2: the same; for algo 5 the bit pattern of its strips";
    }
}

/// A group of columns that a detector can fill in addition to the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// [`Products::hits`].
    Amplitudes,
    /// [`Products::strip_hits`].
    StripHits,
    /// [`Products::module_hits`].
    ModuleHits,
    /// [`Products::plane_clusters`].
    PlaneClusters,
    /// [`Products::detector_clusters`].
    DetectorClusters,
}

/// Columns of [`Table::Amplitudes`].
const AMPLITUDES: &[Column] = &[
    Column {
        name: "time_ns",
        unit: "ns",
        meaning: "time since 1970, the epoch added",
        kind: NumberType::I64,
    },
    Column { name: "pixel", unit: "", meaning: "pixel number", kind: NumberType::U32 },
    Column { name: "adc", unit: "count", meaning: "amplitude", kind: NumberType::U16 },
];

impl Table {
    /// All of them.
    pub const ALL: [Table; 5] = [
        Table::Amplitudes,
        Table::StripHits,
        Table::ModuleHits,
        Table::PlaneClusters,
        Table::DetectorClusters,
    ];

    /// Name in files: that of vmm-sdat, where it has such a table.
    pub fn name(self) -> &'static str {
        match self {
            Table::Amplitudes | Table::StripHits | Table::ModuleHits => "hits",
            Table::PlaneClusters => "clusters_plane",
            Table::DetectorClusters => "clusters_detector",
        }
    }

    /// True for hits, false for clusters.
    pub fn is_hits(self) -> bool {
        matches!(self, Table::Amplitudes | Table::StripHits | Table::ModuleHits)
    }

    /// Its columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Amplitudes => AMPLITUDES,
            Table::StripHits => StripHits::COLUMNS,
            Table::ModuleHits => ModuleHits::COLUMNS,
            Table::PlaneClusters => PlaneClusters::COLUMNS,
            Table::DetectorClusters => DetectorClusters::COLUMNS,
        }
    }

    /// Its rows in a batch, column by column in the order of [`Table::columns`].
    pub fn values(self, products: &Products) -> Vec<Values<'_>> {
        match self {
            Table::Amplitudes => {
                let HitBatch { time_ns, pixel, adc } = &products.hits;
                vec![Values::I64(time_ns), Values::U32(pixel), Values::U16(adc)]
            }
            Table::StripHits => products.strip_hits.values(),
            Table::ModuleHits => products.module_hits.values(),
            Table::PlaneClusters => products.plane_clusters.values(),
            Table::DetectorClusters => products.detector_clusters.values(),
        }
    }

    /// Bytes of a row in the columns.
    pub const fn row_bytes(self) -> usize {
        match self {
            Table::Amplitudes => size_of::<i64>() + size_of::<u32>() + size_of::<u16>(),
            Table::StripHits => StripHits::ROW_BYTES,
            Table::ModuleHits => ModuleHits::ROW_BYTES,
            Table::PlaneClusters => PlaneClusters::ROW_BYTES,
            Table::DetectorClusters => DetectorClusters::ROW_BYTES,
        }
    }

    /// Number of its rows in a batch.
    #[inline]
    pub fn rows(self, products: &Products) -> usize {
        match self {
            Table::Amplitudes => products.hits.pixel.len(),
            Table::StripHits => products.strip_hits.time_ps.len(),
            Table::ModuleHits => products.module_hits.time_ps.len(),
            Table::PlaneClusters => products.plane_clusters.id.len(),
            Table::DetectorClusters => products.detector_clusters.id.len(),
        }
    }
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::U8(v) => v.len(),
            Values::U16(v) => v.len(),
            Values::U32(v) => v.len(),
            Values::U64(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_values_under_its_type() {
        let mut products = Products::default();
        products.hits.time_ns.push(1);
        products.hits.pixel.push(2);
        products.hits.adc.push(3);
        products.strip_hits.push(StripHit { time_ps: 1, ..StripHit::default() });
        products.module_hits.push(ModuleHit::default());
        products.plane_clusters.push(PlaneRow::default());
        products.detector_clusters.push(DetectorRow::default());
        for table in Table::ALL {
            let (columns, values) = (table.columns(), table.values(&products));
            assert_eq!(columns.len(), values.len());
            for (column, values) in columns.iter().zip(&values) {
                let kind = match values {
                    Values::U8(_) => NumberType::U8,
                    Values::U16(_) => NumberType::U16,
                    Values::U32(_) => NumberType::U32,
                    Values::U64(_) => NumberType::U64,
                    Values::I64(_) => NumberType::I64,
                    Values::F64(_) => NumberType::F64,
                };
                assert_eq!((column.kind, values.len()), (kind, 1), "{}", column.name);
            }
            assert_eq!(table.rows(&products), 1);
            let bytes = columns.iter().map(|column| column.kind.bytes());
            assert_eq!(bytes.sum::<usize>(), table.row_bytes());
            let names: std::collections::HashSet<_> = columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), columns.len(), "{}", table.name());
        }
        assert_eq!(products.table_bytes(), Table::ALL.iter().map(|t| t.row_bytes()).sum());
        products.clear();
        assert_eq!((products.rows(), products.table_bytes()), (0, 0));
        assert!(Table::ALL.iter().all(|table| table.rows(&products) == 0));
    }

    #[test]
    fn picoseconds_are_the_nearest_also_where_a_product_of_doubles_would_round() {
        assert_eq!(ps(0.0), 0);
        assert_eq!(ps(1.2346), 1235);
        assert_eq!(ps(-0.25), -250);
        assert_eq!(ps(2_861_631_499_401.533), 2_861_631_499_401_533);
        // 27 h, the range of a marker: doubles are 2⁻⁶ ns apart there.
        let far = 98_956_046_499_840.0 + 1.0 / 64.0;
        assert_eq!(ps(far), 98_956_046_499_840_016);
        assert_eq!((ps(1e300), ps(-1e300)), (i64::MAX, i64::MIN));
        let times = [-3.7, -3.2, -1e-4, 0.0, 0.4996, 0.4999, 0.5004, 7e9];
        assert!(times.map(ps).is_sorted());
    }
}
