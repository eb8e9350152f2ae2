//! Keys of `[detector]` that this kind reads, as the reference has them.
//!
//! `Options` reads them and refuses what is out of range. Source: `docs/simulators.md`.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.window" "`4096`" "a power of two, 64 to 1,048,576"
            "numbers that are waited for before one counts as lost";
        "detector.verify" "`false`" "`true`, `false`"
            "compare every byte with the sender's pattern; costs CPU. `fullcount receive` has the flag `--verify`";
        "detector.latency" "`false`" "`true`, `false`"
            "measure the kernel's receive time − the sender's time; needs `source.timestamps`";
        "detector.max_streams" "`4096`" "1 to 65,536"
            "streams followed at most. Of more, the one that was silent longest [gives its place up](losses.md#many-senders), counted in `decode.streams_reused`";
        "detector.key" "`\"origin\"`" "`origin`, `id`"
            "what makes a stream: the sender's address and port with the stream's number, or the number alone (one stream that comes over several paths; 1 worker). `fullcount receive` has the flag `--key`";
}
