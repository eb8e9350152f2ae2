//! Keys of `[detector]` that this kind reads, as the reference has them.
//!
//! `Options` reads them and refuses what is out of range. Source: `docs/multiblade.md`.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.mode" "of the set-up" "`2d`, `1d` (`alignment`, `normal`)"
            "wires and strips in coincidence, or each wire an event";
        "detector.clustering" "`\"gap\"`" "`gap`, `fixed-window`"
            "how hits are joined";
        "detector.builders" "`\"shared\"`" "`shared`, `per-cassette`"
            "one builder for all cassettes or one for each; the events are the same";
        "detector.max_time_span" "none" "1 to 4,294,967,295 ticks"
            "longest event";
        "detector.max_wires" "none" "1 or more"
            "most hits on wires";
        "detector.max_strips" "none" "1 or more"
            "most hits on strips";
        "detector.wire_threshold" "none" "0 or more ADC counts"
            "smallest amplitude sum of the wires";
        "detector.amplitude_ratio" "none" "two numbers, 0 or more"
            "smallest and largest sum of the strips ÷ sum of the wires";
        "detector.resolve_doubles" "`false`" "`true`, `false`"
            "tell two neutrons at once apart by amplitude";
        "detector.subpixels" "`1`" "1 to 16"
            "pixels per strip";
        "detector.drop_late" "`false`" "`true`, `false`"
            "drop events later than the geometry file's `MaxTofNS`";
        "detector.monitor" "`\"count\"`" "`count`, `pixel`"
            "monitor readouts are counted, or are events of a pixel of their own";
        "detector.window" "`185`" "1 to 4,294,967,295 ticks"
            "length of the window of `fixed-window`";
        "detector.threshold" "`0`" "0 to 65,535 ADC counts"
            "smallest amplitude for `fixed-window`";
        "detector.position" "`\"weighted\"`" "`weighted`, `maximum`"
            "where `fixed-window` puts a cluster";
        "detector.max_streams" "`4096`" "1 to 1,048,576"
            "senders whose numbering is followed. Of more, the one that was silent longest [gives its place up](losses.md#many-senders), counted in `decode.streams_reused`";
}
