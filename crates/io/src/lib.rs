//! Fullcount's system calls: datagrams in batches, captures, pacing, probes of the host.
//!
//! Reading order follows a packet: [`endpoint`] (the URL), [`source`] (the seam to the engine),
//! [`udp`], [`pcap`], [`xdp`] and [`packet_ring`] (the sources), [`fault`] (a source that loses on purpose), [`capture`] (one that is recorded), [`pace`] and
//! [`udp`] again (the sending side), [`frames`] (whole frames of an interface), [`newfile`] (files that are made new), [`host`] (where the kernel dropped).
//! `unsafe` lives in [`sys`] and `xdp::rings` alone. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod capture;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod dissect;
pub mod endpoint;
pub mod fault;
pub mod frames;
pub mod host;
pub mod input_file;
pub mod newfile;
pub mod pace;
pub mod packet_ring;
pub mod pcap;
pub mod quantity;
pub mod several;
pub mod source;
pub mod sys;
pub mod udp;
pub mod xdp;
