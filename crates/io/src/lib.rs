//! Fullcount's system calls: datagrams in batches, captures, pacing, probes of the host.
//!
//! Reading order follows a packet: [`endpoint`] (the URL), [`source`] (the seam to the engine),
//! [`udp`] and [`pcap`] (two sources), [`pace`] and [`udp`] again (the sending side).
//! `unsafe` lives in [`sys`] alone. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod source;
