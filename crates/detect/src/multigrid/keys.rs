//! Keys of `[detector]` that this kind reads, as the reference has them.
//!
//! `Options` reads them and refuses what is out of range. Source: `docs/multigrid.md`.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.glitch_limit" "`40`" "1 to 65,535"
            "a trigger with more readouts than this is a bus glitch and dropped";
        "detector.release_ms" "`200`" "1 to 60,000"
            "an event leaves after so many milliseconds at the latest; in a capture the data alone decide";
        "detector.max_waiting" "`16384`" "256 to 1,048,576"
            "when so many entries wait to be put in order, the older half leaves";
}
