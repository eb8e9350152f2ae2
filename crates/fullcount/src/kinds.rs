//! The kinds of this process, and `catalogue --kinds`: what each declares, for people and for other programs.
//!
//! `cargo xtask prove datagrams` and the seeds of the fuzz targets come from the JSON: a kind that is registered is proven
//! and fuzzed without anything else naming it.

use fullcount_core::destination::Destinations;
use fullcount_core::output::Outputs;
use fullcount_core::simulator::Simulators;
use fullcount_core::source::Sources;
use fullcount_detect::detector::{self, Registry};
use fullcount_engine::null::Null;
use fullcount_engine::registered;
use fullcount_io::capture::PacketFile;
use fullcount_io::heaps::NpyFolder;
use fullcount_io::record_file::RecordOutput;

mod declared;

pub use declared::{json, text};

/// Everything that a person can name, by seam.
pub struct Kinds {
    /// Decoders: what `detector.kind` can be.
    pub detectors: Registry,
    /// Simulated detectors: what `send --source` can be.
    pub simulators: Simulators,
    /// Sources: schemes of `run --source`.
    pub sources: Sources,
    /// Destinations: schemes of `send --to`.
    pub destinations: Destinations,
    /// Outputs, in the order in which they are opened.
    pub outputs: Outputs,
}

impl Kinds {
    /// The kinds of this program.
    pub fn builtin() -> Kinds {
        Kinds {
            detectors: detector::builtin(),
            simulators: fullcount_sim::builtin(),
            sources: sources(),
            destinations: destinations(),
            outputs: outputs(),
        }
    }

    /// Makes them the kinds of this process.
    pub(crate) fn register(self) -> Result<(), String> {
        registered::register_sources(self.sources);
        registered::register_destinations(self.destinations);
        registered::register_outputs(self.outputs);
        detector::register_all(self.detectors).map_err(|e| e.to_string())?;
        fullcount_sim::register_all(self.simulators).map_err(|e| e.to_string())
    }
}

/// Sources, in the order in which people see them.
fn sources() -> Sources {
    let mut kinds = Sources::default();
    fullcount_io::source::register(&mut kinds);
    #[cfg(feature = "kafka")]
    kinds.register(Box::new(fullcount_kafka::TopicKind));
    kinds
}

/// Destinations, in the order in which people see them.
fn destinations() -> Destinations {
    let mut kinds = Destinations::default();
    fullcount_io::source::register_destinations(&mut kinds);
    kinds
}

/// Outputs, in the order in which they are opened.
fn outputs() -> Outputs {
    let mut kinds = Outputs::default();
    kinds.register(Box::new(PacketFile));
    #[cfg(feature = "kafka")]
    kinds.register(Box::new(fullcount_kafka::Packets));
    kinds.register(Box::new(Null));
    kinds.register(Box::new(NpyFolder));
    kinds.register(Box::new(RecordOutput));
    #[cfg(feature = "nexus")]
    {
        use fullcount_nexus::tables::{TableOutput, Tables};
        kinds.register(Box::new(fullcount_nexus::Nexus));
        kinds.register(Box::new(Tables(TableOutput::Hits)));
        kinds.register(Box::new(Tables(TableOutput::Clusters)));
        kinds.register(Box::new(fullcount_nexus::HeapFile));
    }
    #[cfg(feature = "kafka")]
    {
        kinds.register(Box::new(fullcount_kafka::Events));
        kinds.register(Box::new(fullcount_kafka::MergedEvents));
    }
    #[cfg(feature = "web")]
    kinds.register(Box::new(fullcount_web::Page));
    kinds.register(Box::new(fullcount_export::Graphite));
    kinds.register(Box::new(fullcount_export::Log));
    crate::absent::leave_out(&mut kinds);
    kinds
}

/// In unit tests, which do not go through [`crate::run`].
#[cfg(test)]
pub(crate) fn for_tests() {
    registered::register_sources(sources());
    registered::register_outputs(outputs());
}
