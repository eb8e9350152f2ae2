//! What Gd-GEM counts: frames and words in the reader, hits and events in the builder.
//!
//! Four hops balance: `decode` in packets, `geometry` in readouts (words), `cluster` in hits, `match` in events. The
//! published names of `docs/formats/gdgem.md` section 12.1 are kept in dotted form (`FrameSeqErrors` is
//! `frames.seq_errors`, `HitsBadPlane` is `hits.bad_plane`). Lines of numbered packets are those of every format
//! ([`numbering`](fullcount_core::sequence::numbering)).

use fullcount_core::ledger::Tally;

use super::clock::Offsets;
use super::layout::VMMS;
use super::packet::{GdGemRefusal, Word};

fullcount_core::counters! {
    /// Lines of a reader's sheet.
    pub enum GdGemCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "frames whose words were read (published as GoodFrames)" "";
        NoCounter "errors.bad_size.no_counter" Packets Sum "decode" Rejected
            "datagrams below 4 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        ShortFrame "errors.bad_size.short_frame" Packets Sum "decode" Rejected
            "datagrams below 22 bytes: no word" "something else sends to this port: look at it with `fullcount inspect`";
        DataId "errors.header.data_id" Packets Sum "decode" Rejected
            "headers without VM3" "the FEC sends another data format: load the firmware for VMM3a";
        FecId "errors.header.fec_id" Packets Sum "decode" Rejected
            "headers of FEC 0" "give the FEC a number from 1 to 15";
        Ragged "errors.bad_size.ragged" Packets Sum "decode" Rejected
            "frames that end within a word" "look for a device on the way that cuts or pads datagrams (MTU)";
        BadFrames "frames.bad" Packets Sum "decode" Note "published BadFrames: sum of errors.*" "see the reasons";
        ErrorBytes "frames.error_bytes" Bytes Sum "decode" Note
            "published ErrorBytes: bytes of refused frames, and of words behind a full hit buffer" "see the reasons; a full buffer: raise detector.capacity";
        SeqErrors "frames.seq_errors" Times Sum "decode" Note
            "published FrameSeqErrors: frame counters that stepped back, per FEC" "see packets.lost, which tells loss from disorder";
        MissingErrors "frames.missing_errors" Packets Sum "decode" Note
            "published FrameMissingErrors: sum of the steps forward, per FEC" "see packets.lost, which tells loss from disorder";
        CounterOverflows "frames.counter_overflows" Times Sum "decode" Note
            "published FramecounterOverflows: frame counters that began anew at 2^32" "";
        Readouts "readouts.count" Readouts Sum "geometry" In "words of good frames (published as Readouts)" "";
        Markers "readouts.markers" Readouts Sum "geometry" Accepted "markers of good frames with a valid VMM" "";
        TriggerMarkers "readouts.trigger_time_markers" Readouts Sum "geometry" Accepted
            "markers with the absolute time of a trigger (triggered firmware)" "";
        EndMarkers "readouts.trigger_counter_markers" Readouts Sum "geometry" Accepted
            "markers with an event counter, behind the hits of a trigger (triggered firmware)" "";
        AllMarkers "readouts.all_markers" Readouts Sum "geometry" Note
            "marker words of any kind (published as Markers): readouts.count less readouts.data and readouts.after_limit" "";
        BadMarker "readouts.bad_marker" Readouts Sum "geometry" Rejected
            "markers of VMM 16 to 31, or of a relative trigger time above 4095" "is this triggered firmware? Then set detector.df = \"TRG\"";
        Data "readouts.data" Readouts Sum "geometry" Note "hit words (published as Data)" "";
        OverThreshold "readouts.over_threshold" Readouts Sum "geometry" Note
            "hit words whose strip was above threshold itself (published as OverThreshold)" "";
        Skipped "readouts.after_limit" Readouts Sum "geometry" Rejected
            "words behind the last hit that detector.n allows" "nothing: detector.n ends the reading";
        Good "hits.good" Readouts Sum "geometry" Accepted "hits for the clusterer (published as HitsGood)" "";
        BadVmm "hits.bad_vmm" Readouts Sum "geometry" Rejected
            "hits of VMM 16 to 31" "damaged data: look at the frame with `fullcount inspect`";
        Latency "hits.latency_violation" Readouts Sum "geometry" Rejected
            "hits with the offset 16, which the firmware sends when a hit comes too late to be placed" "a few are usual; many: lower the rate on this VMM. With firmware before 2020 set detector.offsets = \"0..31\"";
        BadOffset "hits.bad_offset" Readouts Sum "geometry" Rejected
            "hits with an offset from 17 to 30" "damaged data; with firmware before 2020 set detector.offsets = \"0..31\"";
        NoMarker "hits.no_marker" Readouts Sum "geometry" Rejected
            "hits of a VMM that has sent no marker yet: without time" "usual at the start of a run only";
        BadPlane "hits.bad_plane" Readouts Sum "geometry" Rejected
            "hits of channels that the geometry does not list (published as HitsBadPlane; vmm-sdat: unmapped)" "add FEC, VMM and channel to the geometry (`fullcount inspect` shows them)";
        BadGeometry "hits.bad_geometry" Readouts Sum "geometry" Rejected
            "hits of listed channels without a strip (published as HitsBadGeometry)" "check strip_offset in the geometry";
        Invalid "hits.invalid" Readouts Sum "geometry" Rejected
            "hits with TDC and amplitude 0, or above threshold with an amplitude below 16, or whose calibrated time is no number" "a few are usual; many: check the calibration file";
        BadAdc "hits.bad_adc" Readouts Sum "geometry" Rejected
            "hits below the threshold of the geometry or of detector.th, or of amplitude 0 (published as HitsBadAdc)" "nothing, if the threshold is meant";
        OutsideRegion "hits.outside_region" Readouts Sum "geometry" Rejected
            "hits outside the part of the detector that this process takes (published as HitsOutsideRegion)" "nothing: detector.region or detector.sectors is set";
        SeqTime "timestamps.seq_errors" Times Sum "geometry" Note
            "published TimestampSeqErrors: markers that stepped back" "look for lost or reordered frames";
        TimeOverflows "timestamps.overflows" Times Sum "geometry" Note
            "published TimestampOverflows: markers that began anew" "";
        LostMarkers "timestamps.lost_errors" Times Sum "geometry" Note
            "published TimestampLostErrors, if detector.marker_check is on (old firmware only)" "look for lost frames";
        ClockRestarts "timestamps.restarts" Times Sum "geometry" Note
            "markers further in the past than detector.horizon_ms: what waited was clustered, and time began anew" "a clock was reset, or a FEC came back that is behind the others: synchronise them";
    }
}

/// What a reader counts of one batch.
pub(super) type Counts = Tally<{ GdGemCount::LINES }>;

impl GdGemCount {
    /// The one counter of a reason.
    pub fn of(refusal: GdGemRefusal) -> GdGemCount {
        match refusal {
            GdGemRefusal::NoCounter => GdGemCount::NoCounter,
            GdGemRefusal::ShortFrame => GdGemCount::ShortFrame,
            GdGemRefusal::DataId => GdGemCount::DataId,
            GdGemRefusal::FecId => GdGemCount::FecId,
            GdGemRefusal::Ragged => GdGemCount::Ragged,
        }
    }

    /// Why a hit has no time, the first reason that there is.
    pub(super) fn untimed(word: Word, convention: Offsets) -> GdGemCount {
        match convention.periods(word.offset()) {
            _ if word.vmm() >= VMMS => GdGemCount::BadVmm,
            Some(_) => GdGemCount::NoMarker,
            None if word.offset() == 16 => GdGemCount::Latency,
            None => GdGemCount::BadOffset,
        }
    }
}

fullcount_core::counters! {
    /// Lines of a builder's sheet.
    pub enum GdGemBuilt {
        Hits "cluster.hits" Hits Sum "cluster" In "hits from the readers" "";
        Used "cluster.used" Hits Sum "cluster" Accepted "hits of event candidates" "";
        Late "cluster.late" Hits Sum "cluster" Rejected
            "hits that came after their time was clustered" "frames out of order: raise detector.late_frames; a FEC that lags: raise detector.horizon_ms, or find out why its data come so late";
        Small "cluster.small" Hits Sum "cluster" Rejected
            "hits of clusters with fewer than detector.cs or min_cluster_size hits, or without amplitude" "nothing, if that number is meant";
        Unmatched "cluster.unmatched" Hits Sum "cluster" Rejected
            "hits of clusters without a partner in the other plane" "many: check detector.dp, detector.crl, detector.cru, and that both planes are alive";
        Waiting "cluster.waiting" Hits Sum "cluster" Queued "hits that wait for later ones" "";
        Planes "cluster.planes" Times Sum "cluster" Note "clusters of one plane" "";
        CutHits "cluster.cut_hits" Times Sum "cluster" Note
            "runs of hits without a gap that were cut at detector.max_run_hits" "a plane is hot: mask noisy channels";
        CutSpan "cluster.cut_span" Times Sum "cluster" Note
            "runs of hits without a gap that were cut at detector.max_run_span_us" "a plane is hot: mask noisy channels";
        CutSearch "match.cut_search" Times Sum "cluster" Note
            "searches for a partner that ended after 4096 clusters" "the rate is too high for detector.dp: lower one of them";
        CutPairs "match.cut_pairs" Events Sum "match" Note
            "pairs that detector.hm = 1 would make beyond 64 of one cluster, and that were not made" "a plane is hot or detector.dp too long: mask noisy channels, or lower it";
        Forced "cluster.forced" Times Sum "cluster" Note
            "times that all hits were clustered at once because detector.max_waiting was reached" "FECs lag or their clocks differ: synchronise them; a FEC is silent: lower detector.horizon_ms";
        Idle "cluster.idle" Times Sum "cluster" Note
            "times that all hits were clustered because nothing came for detector.horizon_ms and a second more (live only)" "";
        Candidates "events.candidates" Events Sum "match" In "event candidates (published as ClustersTotal)" "";
        Events "events.count" Events Sum "match" Accepted "events (published as EventsGood)" "";
        XOnly "events.x_only" Events Sum "match" Rejected
            "candidates without plane 1 (published as ClustersXOnly)" "many: check that plane 1 is alive, and matcher_max_delta_time";
        YOnly "events.y_only" Events Sum "match" Rejected
            "candidates without plane 0 (published as ClustersYOnly)" "many: check that plane 0 is alive, and matcher_max_delta_time";
        Bad "events.bad" Events Sum "match" Rejected
            "candidates without a position (published as EventsBad)" "look at the amplitudes with `fullcount inspect`";
        FilterHits "events.filter.minimum_hits" Events Sum "match" Rejected
            "candidates with fewer than minimum_hits in a plane" "nothing, if the filter is meant";
        FilterRatio "events.filter.charge_ratio" Events Sum "match" Rejected
            "candidates whose charge ratio is outside its limits" "nothing, if the filter is meant";
        FilterUncertainty "events.filter.lower_uncertainty" Events Sum "match" Rejected
            "candidates of the micro-TPC of 2018 whose lower uncertainty is at its limit or above" "nothing, if the filter is meant";
        OutsideRegion "events.outside_region" Events Sum "match" Rejected
            "events outside the part of plane 0 that this process takes (published as EventsOutsideRegion)" "nothing: detector.region is set";
        GeometryErrors "events.geometry_errors" Events Sum "match" Rejected
            "events outside the picture" "check geometry_x and geometry_y";
        GeomErrors "events.geom_errors" Events Sum "match" Note
            "published EventsGeomErrors: events.geometry_errors and events.outside_region together" "see these two";
        Both "events.x_and_y" Events Sum "match" Note "candidates with both planes (published as ClustersXAndY)" "";
        GoodHits "events.good_hits" Hits Sum "match" Note "hits of the events (published as EventsGoodHits)" "";
    }
}

/// What a builder counts of one call.
pub(super) type BuiltCounts = Tally<{ GdGemBuilt::LINES }>;
