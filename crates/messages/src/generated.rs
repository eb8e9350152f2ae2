//! Code that `flatc` made of `crates/messages/schemas`: `cargo xtask schemas` makes it again, byte for byte.
//!
//! The only place in [`flat`](super) where `unsafe` is allowed: the accessors trust a buffer that the verifier saw, and
//! nothing outside reaches them but through [`decode`](super::decode). Source: flatc 25.12.19, the version of the crate.
#![allow(unsafe_code, missing_docs, dead_code, clippy::all, clippy::undocumented_unsafe_blocks)]
#![allow(clippy::too_many_lines)]
#![allow(unused_imports, non_camel_case_types, non_snake_case, unused_qualifications)]

#[rustfmt::skip]
#[path = "generated/6s4t.rs"]
pub mod s6s4t;
#[rustfmt::skip]
pub mod ad00;
#[rustfmt::skip]
pub mod adar;
#[rustfmt::skip]
pub mod al00;
#[rustfmt::skip]
pub mod answ;
#[rustfmt::skip]
pub mod ar51;
#[rustfmt::skip]
pub mod da00;
#[rustfmt::skip]
pub mod ep00;
#[rustfmt::skip]
pub mod ep01;
#[rustfmt::skip]
pub mod ev42;
#[rustfmt::skip]
pub mod ev43;
#[rustfmt::skip]
pub mod ev44;
#[rustfmt::skip]
pub mod f142;
#[rustfmt::skip]
pub mod f144;
#[rustfmt::skip]
pub mod hs00;
#[rustfmt::skip]
pub mod hs01;
#[rustfmt::skip]
pub mod json;
#[rustfmt::skip]
pub mod mo01;
#[rustfmt::skip]
pub mod ns10;
#[rustfmt::skip]
pub mod pl72;
#[rustfmt::skip]
pub mod se00;
#[rustfmt::skip]
pub mod senv;
#[rustfmt::skip]
pub mod tdct;
#[rustfmt::skip]
pub mod wrdn;
#[rustfmt::skip]
pub mod x5f2;
