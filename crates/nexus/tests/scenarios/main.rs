//! Scenarios of files and tables, in one program: what is written, killed, cut off and read back with Python.
//!
//! Source: `docs/files.md`, `docs/tables.md`.

mod nexus_disk;
mod nexus_full;
mod nexus_gzip;
mod nexus_kill;
mod nexus_python;
mod tables_full;
mod tables_python;

use std::path::Path;

use fullcount_nexus::NexusOptions;
use fullcount_testing::made_events::map;

/// A file of made events.
fn options(path: &Path) -> NexusOptions {
    let mut o = NexusOptions::new(path, map());
    o.start_time_ns = Some(1_527_854_400_000_000_000);
    o.source_distance_m = Some(25.0);
    o.configuration = "[detector]\nkind = \"made\"\n".into();
    o
}
