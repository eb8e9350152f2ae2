//! Kinds that this program knows: the engine's own, and those that the application registers before anything else.
//!
//! Source: `docs/architecture.md`, "Seams".

use std::sync::OnceLock;

use fullcount_core::destination::Destinations;
use fullcount_core::output::Outputs;
use fullcount_core::source::Sources;
use fullcount_io::capture::PacketFile;

use crate::null::Null;

static OUTPUTS: OnceLock<Outputs> = OnceLock::new();
static DESTINATIONS: OnceLock<Destinations> = OnceLock::new();
static SOURCES: OnceLock<Sources> = OnceLock::new();

/// Makes `kinds` the outputs of this process. Has no effect once somebody has asked for them.
pub fn register_outputs(kinds: Outputs) {
    drop(OUTPUTS.set(kinds));
}

/// Outputs of this process: those that were registered, else those that need no library.
pub fn outputs() -> &'static Outputs {
    OUTPUTS.get_or_init(own_outputs)
}

/// Makes `kinds` the sources of this process. Has no effect once somebody has asked for them.
pub fn register_sources(kinds: Sources) {
    drop(SOURCES.set(kinds));
}

/// Sources of this process: those that were registered, else those that need no library.
pub fn sources() -> &'static Sources {
    SOURCES.get_or_init(own_sources)
}

/// Makes `kinds` the destinations of this process. Has no effect once somebody has asked for them.
pub fn register_destinations(kinds: Destinations) {
    drop(DESTINATIONS.set(kinds));
}

/// Destinations of this process: those that were registered, else those of `io`.
pub fn destinations() -> &'static Destinations {
    DESTINATIONS.get_or_init(|| {
        let mut kinds = Destinations::default();
        fullcount_io::source::register_destinations(&mut kinds);
        kinds
    })
}

/// Sources that need no library; in tests all that there are.
fn own_sources() -> Sources {
    let mut kinds = Sources::default();
    fullcount_io::source::register(&mut kinds);
    #[cfg(test)]
    kinds.register(Box::new(fullcount_kafka::TopicKind));
    kinds
}

/// Outputs that need no library.
#[cfg(not(test))]
fn own_outputs() -> Outputs {
    let mut kinds = Outputs::default();
    kinds.register(Box::new(PacketFile));
    kinds.register(Box::new(Null));
    kinds
}

/// In tests all that there are.
#[cfg(test)]
fn own_outputs() -> Outputs {
    use fullcount_nexus::tables::{TableOutput, Tables};
    let mut kinds = Outputs::default();
    kinds.register(Box::new(PacketFile));
    kinds.register(Box::new(fullcount_kafka::Packets));
    kinds.register(Box::new(Null));
    kinds.register(Box::new(fullcount_nexus::Nexus));
    kinds.register(Box::new(Tables(TableOutput::Hits)));
    kinds.register(Box::new(Tables(TableOutput::Clusters)));
    kinds.register(Box::new(fullcount_kafka::Events));
    kinds.register(Box::new(fullcount_web::Page));
    kinds.register(Box::new(fullcount_export::Graphite));
    kinds.register(Box::new(fullcount_export::Log));
    kinds
}
