//! Which keys of the engine's own sections take text or a path, and the keys of the outputs. Source: `docs/configuration.md`.

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path, Text};

use crate::registered;

/// Keys that take text or paths: the engine's own, and all of the outputs.
pub fn all_keys() -> impl Iterator<Item = Key> {
    let own = |takes| move |path: &&'static str| Key::new(takes, path, "", "", "");
    let own = TEXT.iter().map(own(Text)).chain(PATHS.iter().map(own(Path)));
    own.chain(registered::outputs().kinds().flat_map(|kind| kind.keys()))
}

/// True if the value at a key path is text even where it reads as a number: a title, a time.
pub fn is_text(key: &str) -> bool {
    all_keys().any(|k| k.path == key && k.is_text())
}

/// Keys of `[source]`, `[time]`, `[detector]`, `[output]` and `[engine]` whose value is text even where it reads as a number.
const TEXT: [&str; 15] = [
    "source.steer",
    "source.receive_buffer",
    "source.engine",
    "source.nap",
    "source.fault",
    "time.pulse",
    "time.epoch",
    "time.tick",
    "detector.kind",
    "output.sink",
    "engine.duration",
    "engine.idle_exit",
    "engine.max_refused",
    "engine.module_silent",
    "control.listen",
];

/// Keys whose value is a path: in a file it begins at the file's folder.
const PATHS: [&str; 4] =
    ["detector.geometry", "detector.calibration", "control.token_file", "control.folder"];
