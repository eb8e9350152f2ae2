//! Keys of `[detector]` that this kind reads, as the reference has them.
//!
//! `Options` reads them and refuses what is out of range. Source: `docs/sonde.md`.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.sequence_state" "`\"per_stream\"`" "`per_stream`, `one`"
            "packets of one address, port and system number count together, or all do (for files that were made that way)";
        "detector.max_streams" "`4096`" "1 to 1,048,576"
            "streams whose numbering is followed. Of more, the one that was silent longest [gives its place up](losses.md#many-senders), counted in `decode.streams_reused`";
}
