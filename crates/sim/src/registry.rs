//! The simulated detectors of this process: the built-in ones, or what the application registered before anything else.

use std::sync::OnceLock;

use fullcount_core::simulator::Simulators;

static REGISTERED: OnceLock<Simulators> = OnceLock::new();

/// The kinds of this crate.
pub fn builtin() -> Simulators {
    let mut all = Simulators::empty();
    all.register(Box::new(crate::sequence::SequenceKind));
    all.register(Box::new(crate::sonde::SondeKind));
    all.register(Box::new(crate::multigrid::MultiGridKind));
    all.register(Box::new(crate::multiblade::MultiBladeKind));
    all.register(Box::new(crate::gdgem::GdGemKind));
    all.register(Box::new(crate::heap::HeapSimulator));
    all.register(Box::new(crate::fragments::FragmentsKind));
    all
}

/// The kinds of this process.
pub fn registered() -> &'static Simulators {
    REGISTERED.get_or_init(builtin)
}

/// Kinds were asked for before they were registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("simulated detectors are registered once, before anything uses them")]
pub struct TooLate;

/// Makes `all` the kinds of this process.
///
/// # Errors
/// They were used already.
pub fn register_all(all: Simulators) -> Result<(), TooLate> {
    REGISTERED.set(all).map_err(|_| TooLate)
}
