//! Any text as the structure of a file: no panic, and what is refused says where.

#![no_main]

use fullcount_writer::structure::{StructureLimits, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, &StructureLimits::default()) {
        Ok(plan) => {
            // Every stream and link has its place among the groups.
            let is_group = |path: &str| plan.groups.iter().any(|group| group.path == path);
            assert!(plan.streams.iter().all(|stream| is_group(&stream.group)));
            assert!(
                plan.datasets
                    .iter()
                    .all(|d| d.path.rsplit_once('/').is_some_and(|(g, _)| is_group(g)))
            );
        }
        Err(error) => assert!(error.to_string().starts_with("nexus_structure")),
    }
});
