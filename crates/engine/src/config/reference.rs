//! Keys of `[source]`, `[time]`, `[detector]`, `[output]` and `[engine]` that belong to no kind, as the reference has them.
//!
//! The sections' types read them and refuse what is out of range. Source: `docs/architecture.md`, "Contracts and configuration".

fullcount_core::key_rows! {
    /// `[source]`.
    pub const SOURCE =
        "source.url" ["`--source`"] "{usual source}" "{schemes}: [an endpoint](configuration.md#endpoints); several of {several} as a list (the flag: given again)"
            "where packets come from";
        "source.workers" ["`--workers`"] "`1`" "1 to 64 in all endpoints together; above 1 only with {several}"
            "threads that receive at each endpoint; they share out the senders among them";
        "source.steer" ["`--steer`"] "`\"sender\"`" "`sender`, `address`"
            "what keeps packets together on one worker: the sender's address and port, or its address alone";
        "source.redundant" ["`--redundant`"] "`false`" "`true`, `false`; only with numbered packets, two endpoints or more, and 1 worker"
            "the endpoints are links that carry the same numbered packets: each number counts once, whichever link brought it; the ledger says of each link how many it brought and how many did not come over it";
        "source.receive_buffer" ["`--receive-buffer`"] "`\"64MiB\"`" "4 KiB to 1 GiB"
            "receive buffer of the socket. What the system granted is said at the start: it is limited by `net.core.rmem_max` unless the process has CAP_NET_ADMIN";
        "source.engine" ["`--engine`"] "`\"auto\"`" "`auto`, `plain`, `mmsg`, `gro`, `uring`"
            "how datagrams are received: one a call; many a call (`recvmmsg`); many a call and joined by the kernel (UDP GRO); by io_uring's multishot receive. `auto` takes the fastest that the system offers";
        "source.core" ["`--core`"] "–" "0 to number of CPUs − 1; with several workers a list, one for each (the flag: `2,3`)"
            "CPU that the receiving thread is pinned to";
        "source.busy_poll" ["`--busy-poll`"] "`false`" "`true`, `false`"
            "poll without sleeping: lowest loss, costs a whole core";
        "source.nap" ["`--nap`"] "–" "`0s` to `10ms`"
            "in the middle of a stream, how long the receiver sleeps on a timer instead of being woken by each arrival: less CPU on both sides and a higher rate, for that much latency. Without it 0.2 to 1 ms, the longer the less comes; less where the receive buffer is small, none below 1 MB or with the engine `plain`; `0s` switches it off";
        "source.timestamps" ["`--timestamps`"] "`false`" "`true`, `false`"
            "ask the kernel for the time at which each packet came; `detector.latency` needs it. Where packets have numbers of few bits it is asked for in any case, because only the time tells [how often a number wrapped in a stall](losses.md#short-numbers); the start says so";
        "source.fault" ["`--fault`"] "–" "[a fault](configuration.md#faults)"
            "seeded faults put into the stream, for tests";
        "source.options" "–" "table"
            "only with {options}. Unknown names and values are refused";
}

fullcount_core::key_rows! {
    /// `[time]`.
    pub const TIME =
        "time.pulse" ["`--pulse`"] "`\"none\"`" "`none`, `data`, `grid(PERIOD)`, `grid(PERIOD, PHASE)`"
            "when pulses are. `data`: when the readouts say so (external triggers; the default of detectors that have them); events before the first are written in reference blocks. PERIOD is a whole number of hertz (`14Hz`, exact: no rounding adds up) or of `ns`, `us`, `ms`, `s`, from 1 ns to 2,147,483,647 ns; PHASE a length of time behind the epoch, negative ones before it. `none`: events are written in reference blocks of 2³⁰ ns (1.07 s) from the epoch; of 2²⁶ ns (67 ms) with `time.epoch = \"now\"`";
        "time.epoch" ["`--epoch`"] "`\"auto\"`" "`now`, `auto`, or years 1677 to 2262; 1970 or later with a NeXus file"
            "when the detector's tick 0 was: a time such as `2026-01-31T12:00:00Z`, or nanoseconds since 1970 as text. `now`: times are those of the [host's clock](time.md), for live sources only. `auto`: `now` for a live source whose format has no absolute time, the clock that a capture carries for its replay, else 1970";
        "time.tick" ["`--tick`"] "–" "`N ns` or `N/M ns`, N and M 1 to 2,147,483,647"
            "length of a tick, for formats that do not state one. Without it 1 ns is assumed, and every output says that it is assumed";
}

fullcount_core::key_rows! {
    /// `[detector]`, for every kind.
    pub const DETECTOR =
        "detector.kind" ["`--detector`"] "{first kind}" "{kinds}"
            "what the packets are";
        "detector.geometry" ["`--geometry`"] "–" "path of a TOML or JSON file"
            "which module is where; its keys stand on the detector's page. Some kinds take none";
        "detector.calibration" "–" "path of a JSON or TOML file"
            "calibration of the electronics, for {calibrated}; `cal` and `-cal` are the same key, as `geo` and `-geo` are `detector.geometry`";
}

fullcount_core::key_rows! {
    /// `[output]`, beside the sections of the outputs.
    pub const OUTPUT =
        "output.sink" ["`--sink`"] "–" "`null`"
            "count events and drop them; not together with another output";
}

fullcount_core::key_rows! {
    /// `[engine]`.
    pub const ENGINE =
        "engine.threads" ["`--threads`"] "`1`" "1, 2"
            "1: one thread receives and decodes. 2: one each, joined by a ring; the same events either way. Each worker has so many";
        "engine.process_core" ["`--process-core`"] "–" "0 to number of CPUs − 1, only with 2 threads; with several workers a list, one for each"
            "CPU that the second thread is pinned to";
        "engine.build_threads" ["`--build-threads`"] "`1`" "1 to 64; above 1 only with a detector whose events may be made on several threads"
            "threads that make events of hits, the one that decodes included; the same events whatever the number";
        "engine.build_core" ["`--build-core`"] "–" "0 to number of CPUs − 1; one, or a list, for each of the `build_threads` − 1 further threads"
            "CPUs that they are pinned to";
        "engine.queue" "`64`" "1 to 4096 batches"
            "length of the queue in front of each output";
        "engine.probes" ["`--probes`"] "`\"1s\"`" "100ms to 60s, off"
            "time between two readings of the host's counters, which name the [places of losses](losses.md)";
        "engine.duration" ["`--duration`"] "–" "0 to 10 years"
            "end the run after this time";
        "engine.idle_exit" ["`--idle-exit`"] "–" "0 to 10 years"
            "end the run when packets have come and then none for this time";
        "engine.packets" ["`--packets`"] "–" "whole number"
            "end the run with the batch that completes this many packets";
        "engine.senders" ["`--senders`"] "`1`" "1 to 65,536"
            "end marks of numbered packets end the run once so many streams have come and all are complete";
        "engine.module_silent" "`\"10s\"`" "1 s to 24 h"
            "a module or stream that has sent and then sends nothing for this time is [listed as silent](operations.md#modules)";
        "engine.max_refused" "`\"50%\"`" "0% to 100%"
            "part of the packets received, and of the fragments of a readout unit, that the detector may refuse. A run with more of them ends with exit code 3, and says what they look like: another detector's packets, or their first bytes, lengths and sender. `receive` and `demo` only count them";
        "engine.instructions" "`\"auto\"`" "`auto`, `portable`, `x86-64-v3`, `x86-64-v4-vbmi`, as far as this processor has them"
            "which [instructions](engines.md#instructions-of-the-processor) decoders use whose loops are compiled for several sets: `auto` is the largest that the processor has, `portable` switches the choice off. The same events either way";
}

fullcount_core::key_rows! {
    /// `[control]`.
    pub const CONTROL =
        "control.listen" ["`--control`"] "`\"off\"`" "address and port (`127.0.0.1:8888`; port 0: a free one), or `off`; beyond this machine only with `control.token_file` or `control.allow`"
            "where commands are taken ([control port](operations.md#control-port))";
        "control.token_file" "–" "path of a file with 16 to 256 visible ASCII characters"
            "what a client of another machine sends first (`AUTH TOKEN`) to be allowed all commands";
        "control.allow" "`[]`" "up to 64 addresses or networks: `10.0.0.0/8`, `192.168.1.5`, `fd00::/8`"
            "clients that may read without the token, as existing scripts do";
        "control.folder" "–" "path of a folder that is there"
            "commands may begin new files below it (`NEXUS_START`, `CAPTURE_NEXT`, …), and nowhere else; without it there are no such commands";
}
