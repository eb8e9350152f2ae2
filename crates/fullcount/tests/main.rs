//! The scenarios: the program as its users run it, from end to end. Each file is a module, and its name is the
//! beginning of its tests' names: `cargo test -p fullcount --test scenarios kafka_faults::`.
//!
//! There is one binary, because linking HDF5 and librdkafka into sixty took minutes. So tests of all files may run in
//! one process, at the same time: what a test sets for its whole process (environment, folder, limits) it sets in a
//! child, and those that set something for the whole host are in another binary, `host.rs`. `cargo xtask test` runs
//! each module in a separate process, several at a time (`xtask/src/test/scenarios.rs`).
//!
//! A test that lacks something on this host prints `skipped: reason`, and fails with CI=true.
//!
//! Source: docs/testing.md.

// What several of them use.
mod broker;
#[cfg(target_os = "linux")]
mod faults;
mod pages;
#[cfg(target_os = "linux")]
mod places_net;
mod python;
mod recipe;
mod service;

mod advise;
mod bad_input;
mod campaign;
mod captured;
mod configuration;
mod control;
mod deploy;
mod documented;
mod documents;
mod efu;
mod ends;
mod failed_outputs;
mod files_safe;
mod full_spool;
mod gdgem_parallel;
mod gdgem_vectors;
mod graphite;
mod heaps;
mod input_files;
mod interfaces;
mod kafka;
mod kafka_answers;
mod kafka_exact;
mod kafka_faults;
mod kafka_group;
mod kafka_scale;
mod kafka_secured;
mod kafka_write;
mod lab_capacity;
mod lab_cores;
mod lab_detectors;
mod lab_kafka;
mod lab_link;
mod lab_link_emulator;
mod lab_lossless;
mod lab_peers;
mod lab_probes;
mod lab_spead;
mod lab_stcp;
mod lab_trial;
mod logging;
mod lost_events;
mod monitoring;
mod multiblade_vectors;
mod multigrid_vectors;
mod named_kinds;
mod nexus_about;
mod notify;
mod numbered_packets;
mod operated;
mod prometheus;
mod raw;
mod readout;
mod readout_attacked;
mod readout_killed;
mod readout_late;
mod readout_page;
mod readout_topic;
mod redundant_links;
mod refused;
mod same_events;
mod several_destinations;
mod signals;
mod simulated;
mod sonde_vectors;
#[cfg(target_os = "linux")]
mod sources;
mod spead;
mod spead2;
mod spead2_places;
mod spead_captures;
mod spead_carried;
mod spead_echo;
mod spead_readers;
mod spead_vectors;
mod stalls;
#[cfg(target_os = "linux")]
mod stcp_live;
#[cfg(target_os = "linux")]
mod stcp_rootless;
mod stcp_tshark;
mod tables;
mod top;
mod wall_clock;
mod workers;
mod write_clock;
mod write_control;
mod write_group;
mod write_live;
mod write_peers;
