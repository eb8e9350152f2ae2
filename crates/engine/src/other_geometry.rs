//! A geometry that a detector refuses and another one takes: the message names that one.
//!
//! Off every hot path: asked once, after a refusal. Source: `docs/contracts.md`, "Errors".

use fullcount_core::refusal::Refusal;
use fullcount_detect::detector::{Kind, Setup, registered};

use crate::config::ConfigError;

/// The refusal of a detector, with the name of another one that takes the geometry.
pub(crate) fn named(cause: Refusal, kind: &str, setup: Setup) -> ConfigError {
    let all = registered();
    let path = setup.geometry_path.clone();
    let alone = Setup { geometry: setup.geometry, geometry_path: path.clone(), ..Setup::default() };
    let takes =
        |kind: &&dyn Kind| !alone.geometry.trim().is_empty() && kind.configure(&alone).is_ok();
    let fits: Vec<&str> = all.kinds().filter(takes).map(Kind::name).collect();
    // Also where the wrong key is another one: then the geometry is right.
    if fits.is_empty() || fits.contains(&kind) || matches!(cause, Refusal::Kind(_)) {
        return cause.into();
    }
    let (fits, kind, cause) = (fits.join(" or "), kind.to_owned(), Box::new(cause));
    ConfigError::OtherGeometry { path, fits, kind, cause }
}
