//! Logical geometry: which pixels exist, where they are, and the text that says so.
//!
//! One configuration makes the pixel numbers, the positions in files and the picture on the page, so
//! the three cannot disagree. [`text`] reads a file (TOML or JSON by content) and names file, line,
//! key and what is allowed; [`line`] finds the line of a value that only a rule refuses; [`panel`] places square modules on one picture and refuses modules that
//! overlap in numbers or in place. Digital geometry (channel to pixel) belongs to each detector.

pub mod line;
pub mod logical;
pub mod panel;
pub mod text;
