//! Keys of `[detector]` that this kind reads, as the reference has them.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.sources" "`1`" "a number from 1 to 4096, or ids and ranges such as `\"512-527,600\"`"
            "sources that have a fragment of every event: a number stands for the ids from 0 on. Others are refused";
        "detector.event_timeout" "`\"off\"`" "`off`, or a time from 10ms to 1h"
            "an event leaves incomplete, and is with the outputs, when its first fragment is so old, not earlier; later by 20 ms at most where a stream of a missing one was paused by the unit or an output is behind, by 10 ms with a long queue (docs/fragments.md has all). `off`: events wait, and nothing is lost. A replay is always `off`";
        "detector.memory" "`\"256MiB\"`" "a size from 1MiB to 1TiB"
            "bytes of fragments that may wait for others; when they are there, streams that are ahead are paused";
        "detector.crc_every" "`1`" "0 to 16,777,215"
            "checksums are computed for events whose number is a multiple of it; 0: for none";
        "detector.first_event" "–" "a number from 0, of which the lower 24 bits count"
            "number of the first event that is expected, for a unit that goes on after another one: what is missing before the first event that comes is lost (`fragments.lost.down`). Without it the run begins with whatever comes first";
        "detector.rows" "`true`" "`true`, `false`"
            "fragments that follow each other and are alike are taken and merged together; `false`: one by one, with the same outcome";
}
