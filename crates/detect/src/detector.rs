//! The seam of detectors as `core` has it, the kinds of this crate, and those of this process.
//!
//! An application adds its own kinds and makes the result the registry of its process before anything else
//! ([`register_all`]); the engine, `lab` and the verbs ask [`registered`] and name no kind.

use std::sync::OnceLock;

pub use fullcount_core::detector::{
    Clock, CommandError, CommandInfo, Decoder, Detector, Inspected, Inspector, Kind, MOST_MODULES,
    MOST_THREADS, ModuleNames, Registry, SeenModule, Setup, Sharding, Shifter, Started, Threads,
    TimeBase, TurningClock, TurnsFrom,
};

static REGISTERED: OnceLock<Registry> = OnceLock::new();

/// The kinds of this process: those that were registered, else the built-in ones.
pub fn registered() -> &'static Registry {
    REGISTERED.get_or_init(builtin)
}

/// Kinds were asked for before they were registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("detectors are registered once, before anything uses them")]
pub struct RegisteredTooLate;

/// Makes `all` the kinds of this process.
///
/// # Errors
/// Somebody has asked for them already.
pub fn register_all(all: Registry) -> Result<(), RegisteredTooLate> {
    REGISTERED.set(all).map_err(|_| RegisteredTooLate)
}

/// The detectors of this crate. The first is taken unless another one is chosen.
pub fn builtin() -> Registry {
    let mut registry = Registry::empty();
    registry.register(Box::new(crate::sonde::Sonde));
    registry.register(Box::new(crate::multigrid::Multigrid));
    registry.register(Box::new(crate::multiblade::MultiBlade));
    registry.register(Box::new(crate::gdgem::GdGem));
    registry.register(Box::new(crate::sequence::Sequence));
    registry.register(Box::new(crate::fragments::Fragments));
    registry.register(Box::new(crate::heap::SpeadHeap));
    registry
}

#[cfg(test)]
#[path = "oldest_tests.rs"]
mod oldest_tests;
