//! Keys of `[detector]` that this kind reads, as the reference has them.
//!
//! `Options` reads them and refuses what is out of range. Source: `docs/gdgem.md`.

fullcount_core::key_rows! {
    /// Rows of the reference.
    pub const KEYS =
        "detector.offsets" "`\"-1..15\"`" "`-1..15`, `0..31`"
            "what the offset of a hit says; with a geometry of the online chain (`srs_mappings`) the default is `0..31`";
        "detector.capacity" "`1500` in the online chain, else no limit" "1 or more"
            "hits that are read of one frame";
        "detector.horizon_ms" "`2000`" "0.001 to 60,000 ms"
            "time after which a silent VMM is not waited for";
        "detector.late_frames" "`8`" "0 to 64 frames"
            "places that a frame may come late without loss";
        "detector.max_waiting" "`8000000`" "1000 to 1,073,741,824 hits"
            "hits that may wait for the border";
        "detector.max_run_hits" "`4096`" "2 to 65,536 hits"
            "longest run of hits without a gap";
        "detector.max_run_span_us" "`1000`" "0.001 to 1,000,000 µs"
            "longest time of such a run";
        "detector.marker_check" "`false`" "`true`, `false`"
            "the published check for lost markers";
        "detector.position" "`\"center-of-mass\"`" "`center-of-mass`, `charge2`, `utpc`, `algo`; online `utpc-2018`"
            "what makes pixel and time";
        "detector.one_picture" "`false`" "`true`, `false`"
            "the detectors are parts of one picture, strips are numbered throughout";
        "detector.sectors" "all" "number, or list, of detectors of the geometry"
            "those that this process takes; pixels stay those of the whole ([several instances](scale.md#gd-gem))";
        "detector.geometry_x" "of the strips" "1 or more"
            "pixels side by side";
        "detector.geometry_y" "of the strips" "1 or more"
            "pixels one above the other";
        "detector.pitch_mm" "`[0.4, 0.4]`" "two numbers, 0.001 to 1000 mm"
            "from strip to strip, or pad to pad, in x and in y";
        "detector.distance_m" "`0`" "0 to 1000 m"
            "from the sample to the strips";
        "detector.bc" "`40`" "1 to 1000 MHz"
            "bunch-crossing clock";
        "detector.tac" "`60`" "0 to 100,000 ns"
            "TAC slope";
        "detector.th" "`0`" "number, or list by detector"
            "smallest amplitude without the over-threshold flag";
        "detector.cs" "`1`" "number, or list by detector"
            "smallest number of hits of a plane cluster";
        "detector.ccs" "`1`" "number, or list by detector"
            "smallest number of hits of all planes";
        "detector.dt" "`200`" "0 to 1e9 ns, or list by detector"
            "largest time between consecutive hits";
        "detector.mst" "`1`" "number, or list by detector"
            "strips that may be missing";
        "detector.mp0" "`1`" "number, or list by detector"
            "the same for pads";
        "detector.mp1" "`1`" "number, or list by detector"
            "pad rows that may be missing";
        "detector.spc" "`500`" "ns, or list by detector"
            "largest span of a cluster";
        "detector.dp" "`200`" "0 to 1e9 ns, or list by detector"
            "largest time between matched planes";
        "detector.coin" "`\"center-of-mass\"`" "`utpc`, `charge2`, any other word"
            "time for matching";
        "detector.crl" "`0.5`" "number, or list by detector"
            "smallest charge ratio of planes 0 and 1";
        "detector.cru" "`2`" "number, or list by detector"
            "largest charge ratio of planes 0 and 1";
        "detector.algo" "`0`" "0 to 7, 10, 100"
            "further position of a cluster; 100 is [ours](gdgem.md#which-position)";
        "detector.hm" "`0`" "0, 1"
            "every pair that fits is an event";
        "detector.df" "`\"SRS\"`" "`SRS`, `TRG`"
            "firmware";
        "detector.t0" "none" "list of [FEC, VMM, ns or \"run\"]"
            "subtracted from the times";
        "detector.n" "`0`" "hits"
            "end of reading; 0: never";
        "detector.clock" "`\"exact\"`" "`exact`, `published`"
            "online chain only: period of the clock";
        "detector.matcher" "of the file" "`gap`, `overlap`, `end`, `center`"
            "online chain only";
        "detector.region" "`[0, 1279, 0]`" "three strips"
            "online chain only: part of plane 0 and overlap";
}
