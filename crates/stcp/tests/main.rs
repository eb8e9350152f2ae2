//! The statements of docs/stcp.md with a clock moved by hand, properties, the exploration of the state table, and what is
//! built without an operating system.

mod conformance;
mod explore;
mod freestanding;
mod page;
mod property;
mod rig;
mod size;
mod vectors;
mod verilog;
