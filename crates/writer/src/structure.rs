//! What a file looks like: the JSON text `nexus_structure` of a run start, read into a [`FilePlan`].
//!
//! A plan is complete: every group, dataset, attribute, link and stream with its place, checked before anything is
//! made on the disk. Refuses what contradicts itself, unknown modules by name, names that HDF5 cannot hold, two
//! things of one name, and texts beyond [`StructureLimits`]. Every error says where in the JSON it is. What is odd but can be written
//! is a warning ([`Warnings`]).
//!
//! Source: `docs/formats/nexus.md` section 7.

mod array;
mod arrays;
mod beside;
mod budget;
mod config;
mod error;
mod links;
mod names;
mod odd;
pub mod panel;
mod parse;
mod warnings;

#[cfg(test)]
mod structure_tests;
#[cfg(test)]
mod tolerated_tests;

pub use array::{Array, ArrayValues};
pub use error::{StructureError, StructureFault};
pub use fullcount_core::number::NumberType;
pub use parse::parse;
pub use warnings::Warnings;

/// Bounds of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StructureLimits {
    /// Bytes of JSON text.
    pub bytes: usize,
    /// Groups within groups.
    pub depth: usize,
    /// Groups, datasets, links and streams together.
    pub nodes: usize,
    /// Attributes of one group or dataset.
    pub attributes: usize,
    /// Bytes of one constant: the values of a dataset or an attribute, a row of a stream.
    pub constant: u64,
    /// Bytes of one chunk of a dataset that grows.
    pub chunk: u64,
    /// Bytes of all of them together, and of the JSON text while it is read.
    pub memory: u64,
}

/// Most that [`StructureLimits::memory`] is unless somebody says otherwise, bytes.
pub const MEMORY: u64 = 1 << 30;

impl Default for StructureLimits {
    /// A detector of 8 million pixels as text is about 200 MB, and its numbers as doubles are 64 MiB; 32 levels are twice,
    /// and 1024 attributes twenty times, what NeXus files have.
    fn default() -> StructureLimits {
        StructureLimits {
            bytes: 256 << 20,
            depth: 32,
            nodes: 1 << 20,
            attributes: 1024,
            constant: 64 << 20,
            chunk: 64 << 20,
            memory: MEMORY,
        }
    }
}

/// A name with values, at a group or a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Values; a scalar has no dimensions.
    pub value: Array,
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPlan {
    /// Absolute path; empty for the root.
    pub path: String,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

impl GroupPlan {
    /// The attribute `NX_class`, if it has one.
    pub fn class(&self) -> Option<&str> {
        let class = self.attributes.iter().find(|a| a.name == "NX_class")?;
        class.value.text()
    }
}

/// A dataset whose values stand in the structure.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetPlan {
    /// Absolute path.
    pub path: String,
    /// Its values.
    pub value: Array,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// A hard link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPlan {
    /// Absolute path of the new name.
    pub path: String,
    /// Absolute path of what it is.
    pub target: String,
}

/// A date that the writer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Date {
    /// When the run began.
    Start,
    /// When it ended.
    End,
}

impl Date {
    /// Name of the dataset.
    pub fn name(self) -> &'static str {
        match self {
            Date::Start => "start_time",
            Date::End => "end_time",
        }
    }
}

/// A dataset with a date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatePlan {
    /// Absolute path.
    pub path: String,
    /// Which.
    pub date: Date,
}

/// An array of a message that becomes a dataset with one row a message.
#[derive(Debug, Clone, PartialEq)]
pub struct VariablePlan {
    /// Name in the message, and of the dataset.
    pub name: String,
    /// Type of its numbers.
    pub dtype: NumberType,
    /// Shape of one message's array.
    pub shape: Vec<usize>,
    /// Names of its dimensions, slowest first.
    pub axes: Vec<String>,
    /// Unit, label and source.
    pub attributes: Vec<Attribute>,
}

/// A constant of da00 whose values come with the data: a dataset that is empty until the first message.
#[derive(Debug, Clone, PartialEq)]
pub struct LatePlan {
    /// Name in the message, and of the dataset.
    pub name: String,
    /// Type of its numbers.
    pub dtype: NumberType,
    /// Shape of the message's array; `None`: one dimension of any length.
    pub shape: Option<Vec<usize>>,
    /// Unit, label and source.
    pub attributes: Vec<Attribute>,
}

impl LatePlan {
    /// Shape of a row of the dataset, which grows to all of them at once.
    pub fn row(&self) -> &[usize] {
        self.shape.as_deref().map_or(&[], |shape| &shape[1..])
    }
}

/// Which events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// ev42.
    Ev42,
    /// ev43.
    Ev43,
    /// ev44.
    Ev44,
}

/// Which log entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// f142, with its alarm.
    F142,
    /// f144.
    F144,
    /// ns10, whose values are text.
    Ns10,
}

/// What a stream's messages become.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamModule {
    /// ev44, ev43, ev42: NXevent_data.
    Events {
        /// Schema.
        kind: EventKind,
        /// Events in a chunk.
        chunk: usize,
        /// Events between two cues.
        cue_interval: u64,
        /// Path of the dataset `detector_number` that its events must be in.
        pixels: Option<String>,
    },
    /// f144, f142, ns10: NXlog.
    Log {
        /// Schema.
        kind: LogKind,
        /// Type of its numbers.
        dtype: NumberType,
        /// Values of one message; `None`: a single one.
        array: Option<usize>,
        /// Unit of the values.
        units: Option<String>,
        /// Entries in a chunk.
        chunk: usize,
        /// Entries between two cues, if there are to be any.
        cue_interval: Option<u64>,
    },
    /// da00: arrays over time.
    Arrays {
        /// What is written of each message.
        variables: Vec<VariablePlan>,
        /// What is written of the first message that has it.
        late: Vec<LatePlan>,
        /// Messages in a chunk, if it is said.
        chunk: Option<usize>,
        /// Messages between two cues, if there are to be any.
        cue_interval: Option<u64>,
    },
    /// hs01, hs00: histograms over time.
    Histogram {
        /// True for hs00.
        old: bool,
        /// Type of the counts.
        dtype: NumberType,
        /// Type of the errors, if they are written.
        errors: Option<NumberType>,
        /// Bins of each dimension.
        shape: Vec<usize>,
        /// Messages in a chunk, if it is said.
        chunk: Option<usize>,
    },
    /// al00: alarms.
    Alarms,
    /// ep01, ep00: connection states.
    Connections {
        /// True for ep00.
        old: bool,
    },
    /// se00, senv: fast samples.
    Samples {
        /// True for senv.
        old: bool,
        /// Type of the values.
        dtype: NumberType,
        /// Unit of the values.
        units: Option<String>,
        /// Samples in a chunk.
        chunk: usize,
    },
    /// tdct: chopper times.
    Chopper {
        /// Times in a chunk.
        chunk: usize,
    },
    /// ad00, ADAr: images over time.
    Images {
        /// True for ADAr.
        old: bool,
        /// Type of the pixels.
        dtype: NumberType,
        /// Shape of one image.
        shape: Vec<usize>,
        /// Units of the values.
        units: Option<String>,
        /// Images in a chunk, if it is said.
        chunk: Option<usize>,
        /// Images between two cues, if there are to be any.
        cue_interval: Option<u64>,
    },
}

impl StreamModule {
    /// The schema that it reads.
    pub fn schema(&self) -> fullcount_messages::Schema {
        use fullcount_messages::Schema;
        match self {
            StreamModule::Events { kind: EventKind::Ev42, .. } => Schema::Ev42,
            StreamModule::Events { kind: EventKind::Ev43, .. } => Schema::Ev43,
            StreamModule::Events { kind: EventKind::Ev44, .. } => Schema::Ev44,
            StreamModule::Log { kind: LogKind::F142, .. } => Schema::F142,
            StreamModule::Log { kind: LogKind::F144, .. } => Schema::F144,
            StreamModule::Log { kind: LogKind::Ns10, .. } => Schema::Ns10,
            StreamModule::Arrays { .. } => Schema::Da00,
            StreamModule::Histogram { old: true, .. } => Schema::Hs00,
            StreamModule::Histogram { .. } => Schema::Hs01,
            StreamModule::Alarms => Schema::Al00,
            StreamModule::Connections { old: true } => Schema::Ep00,
            StreamModule::Connections { .. } => Schema::Ep01,
            StreamModule::Samples { old: true, .. } => Schema::Senv,
            StreamModule::Samples { .. } => Schema::Se00,
            StreamModule::Chopper { .. } => Schema::Tdct,
            StreamModule::Images { old: true, .. } => Schema::Adar,
            StreamModule::Images { .. } => Schema::Ad00,
        }
    }

    /// `NX_class` of the enclosing group, if the structure gives it none.
    fn class(&self) -> &'static str {
        match self {
            StreamModule::Events { .. } => "NXevent_data",
            StreamModule::Arrays { .. } | StreamModule::Histogram { .. } => "NXdata",
            _ => "NXlog",
        }
    }

    /// Names that it makes in the enclosing group.
    fn names(&self) -> Vec<String> {
        let cues = |on: bool| if on { &["cue_index", "cue_timestamp_zero"][..] } else { &[] };
        let fixed: Vec<&[&str]> = match self {
            StreamModule::Events { .. } => vec![
                &[
                    "event_id",
                    "event_time_offset",
                    "event_index",
                    "event_time_zero",
                    "total_counts",
                ],
                cues(true),
            ],
            StreamModule::Log { kind, array, cue_interval, .. } => vec![
                &["value", "time"],
                if array.is_none() {
                    &["minimum_value", "maximum_value", "average_value"]
                } else {
                    &[]
                },
                match kind {
                    LogKind::F142 => &["alarm_status", "alarm_severity", "alarm_time"],
                    LogKind::F144 | LogKind::Ns10 => &[],
                },
                cues(cue_interval.is_some()),
            ],
            StreamModule::Arrays { cue_interval, .. } => {
                vec![&["time"], cues(cue_interval.is_some())]
            }
            StreamModule::Histogram { errors, .. } => {
                vec![&["signal", "time"], if errors.is_some() { &["signal_errors"] } else { &[] }]
            }
            StreamModule::Alarms => vec![&["alarm_severity", "alarm_time", "alarm_message"]],
            StreamModule::Connections { .. } => {
                vec![&["connection_status", "connection_status_time"]]
            }
            StreamModule::Samples { .. } => vec![&["value", "time"], cues(true)],
            StreamModule::Chopper { .. } => vec![&["time"], cues(true)],
            StreamModule::Images { cue_interval, .. } => {
                vec![&["value", "time"], cues(cue_interval.is_some())]
            }
        };
        let mut names: Vec<String> =
            fixed.into_iter().flatten().map(|name| (*name).to_owned()).collect();
        if let StreamModule::Arrays { variables, late, .. } = self {
            names.extend(variables.iter().map(|v| v.name.clone()));
            names.extend(late.iter().map(|constant| constant.name.clone()));
        }
        names
    }
}

/// A stream that is written into a group.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamPlan {
    /// Absolute path of the group.
    pub group: String,
    /// Kafka topic.
    pub topic: String,
    /// Source name of its messages.
    pub source: String,
    /// What they become.
    pub module: StreamModule,
}

/// All of a file, before it is made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilePlan {
    /// Groups, each behind the one that it is in.
    pub groups: Vec<GroupPlan>,
    /// Datasets.
    pub datasets: Vec<DatasetPlan>,
    /// Dates.
    pub dates: Vec<DatePlan>,
    /// Streams, in the order of the text; behind them those that are written beside others without being listed.
    pub streams: Vec<StreamPlan>,
    /// How many streams the text lists.
    pub listed: usize,
    /// Links.
    pub links: Vec<LinkPlan>,
    /// Group of the writer's own entries: below the NXentry, else below the root.
    pub own: String,
    /// Bytes that constants, names and attributes take in memory, about.
    pub bytes: u64,
    /// What was odd, and is written all the same.
    pub warnings: Warnings,
}

impl FilePlan {
    /// Leaves out what is written beside streams without being listed.
    pub fn only_listed(&mut self) {
        self.streams.truncate(self.listed);
    }

    /// The topics to read, each once.
    pub fn topics(&self) -> Vec<&str> {
        let all: std::collections::BTreeSet<_> =
            self.streams.iter().map(|s| s.topic.as_str()).collect();
        all.into_iter().collect()
    }
}
