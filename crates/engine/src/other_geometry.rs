//! A geometry that a detector refuses and another one takes: the message names that one.
//!
//! Off every hot path: asked once, after a refusal. Source: `docs/architecture.md`, "Errors".

use fullcount_detect::detector::{Kind, Registry, Setup, SetupError};

use crate::config::ConfigError;

/// The refusal of a detector, with the name of another one that takes the geometry.
pub(crate) fn named(cause: SetupError, kind: &str, setup: Setup) -> ConfigError {
    let all = Registry::builtin();
    let path = setup.geometry_path.clone();
    let alone = Setup { geometry: setup.geometry, geometry_path: path.clone(), ..Setup::default() };
    let takes =
        |kind: &&dyn Kind| !alone.geometry.trim().is_empty() && kind.configure(&alone).is_ok();
    let fits: Vec<&str> = all.kinds().filter(takes).map(Kind::name).collect();
    // Also where the wrong key is another one: then the geometry is right.
    if fits.is_empty() || fits.contains(&kind) || matches!(cause, SetupError::UnknownKind { .. }) {
        return cause.into();
    }
    let (fits, kind, cause) = (fits.join(" or "), kind.to_owned(), Box::new(cause));
    ConfigError::OtherGeometry { path, fits, kind, cause }
}
