//! Fullcount's system calls: datagrams in batches, captures, pacing, probes of the host.
//!
//! Reading order follows a packet: [`endpoint`] (the URL), [`source`] (the seam to the engine),
//! [`udp`], [`pcap`], [`xdp`] and [`packet_ring`] (the sources), [`fault`] (a source that loses on purpose), [`capture`] (one that is recorded), [`pace`] and
//! [`udp`] again (the sending side), [`frames`] (whole frames of an interface), [`raw`] (the simplified TCP on one), [`spead`] (heaps over all of these), [`newfile`] and [`building`] (files that are made new), [`below`] (names of files that commands begin), [`disk`] (writes past the page cache), [`host`] (where the kernel dropped).
//! `unsafe` lives in [`sys`] and `xdp::rings` alone. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod below;
pub mod building;
pub mod capture;
pub mod compression;
pub mod disk;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod dissect;
pub mod endpoint;
pub mod fault;
pub mod frames;
pub mod heaps;
pub mod host;
pub mod input_file;
mod interface;
pub mod lock;
pub mod newfile;
pub mod pace;
pub mod packet_ring;
pub mod pcap;
pub use fullcount_core::quantity;
pub mod raw;
pub mod record_file;
pub mod section;
pub mod several;
pub mod source;
pub mod spead;
pub mod sys;
pub mod tcp;
pub mod udp;
mod wall;
pub mod xdp;
