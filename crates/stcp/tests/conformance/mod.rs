//! Statements of docs/stcp.md, by their numbers. 24 is beside the code; 34 to 36 are in the lab; 50 to 60 need a Linux receiver.

mod abort;
mod congestion;
mod opening;
mod options;
mod recovery;
mod segments;
mod streams;
mod windows;
