//! ns10: an entry of the cache of a control system, NICOS.
//!
//! Source: `docs/formats/flatbuffers.md` section 4.2.

use super::field::table;

table! {
    /// A value of a device, as text (ns10).
    pub struct CacheEntry<'a>: ns10 CacheEntry CacheEntryArgs {
        /// Device and parameter, for example `nicos/temperature/value`.
        pub key: Option<&'a str>,
        /// When it was set, s since 1970 UTC.
        pub time: f64,
        /// How long it holds, s.
        pub ttl: f64,
        /// True if it holds no longer.
        pub expired: bool,
        /// The value as Python writes it.
        pub value: Option<&'a str>,
    }
}
