//! What Multi-Blade counts: packets and readouts in the reader, hits and events in the builder.
//!
//! Four hops balance: `decode` in packets, `geometry` in readouts, `cluster` in hits, `match` in events. The
//! published names of `docs/formats/multiblade.md` section 9 are kept in dotted form (`ReadoutsInvalidAdc` is
//! `readouts.invalid_adc`); where our line means something else, the published one stands beside it as a note. Lines of
//! numbered packets are those of every format ([`numbering`](fullcount_core::sequence::numbering)).

use super::layout::Use;
use super::packet::{MultiBladeErrorClass, MultiBladeRefusal};
use crate::cluster::rules::Broken;

fullcount_core::counters! {
    /// Lines of a reader's sheet.
    pub enum MultiBladeCount {
        Packets "decode.packets" Packets Sum "decode" In "datagrams given to the decoder" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "datagrams decoded" "";
        ShortPacket "errors.bad_size.short_packet" Packets Sum "decode" Rejected
            "datagrams below 32 bytes" "something else sends to this port: look at it with `fullcount inspect`";
        Version "errors.header.version" Packets Sum "decode" Rejected
            "headers whose version is not 1.3 (published as ReadoutsErrorVersion)" "something else sends to this port, or the readout's software is of another version";
        ElementType "errors.header.element_type" Packets Sum "decode" Rejected
            "headers whose element type is not 1" "set the readout to send list-mode elements of channel, integral and time";
        LengthMismatch "errors.bad_size.length_mismatch" Packets Sum "decode" Rejected
            "datagrams that are not exactly as long as their number of elements says" "look for a device on the way that cuts or pads datagrams (MTU)";
        BadSize "errors.bad_size" Packets Sum "decode" Note
            "packets refused for their size: sum of errors.bad_size.*" "see the reasons";
        HeaderErrors "errors.header" Packets Sum "decode" Note
            "packets refused for their header: sum of errors.header.*" "see the reasons";
        ErrorVersion "readouts.error_version" Packets Sum "decode" Note
            "published ReadoutsErrorVersion: equals errors.header.version" "see errors.header.version";
        ErrorBytes "readouts.error_bytes" Bytes Sum "decode" Note
            "published ReadoutsErrorBytes: bytes of packets refused for size or element type" "see the reasons under errors.";
        SeqErrors "readouts.seq_errors" Times Sum "decode" Note
            "sequence numbers that differ from the expected one (published rule: a fresh decoder expects 0)" "see packets.lost, which tells loss from disorder";
        BadDigitizer "packet.bad_digitizer" Packets Sum "geometry" Note
            "packets of a digitiser that the geometry does not list (published as PacketBadDigitizer)" "add the digitiser to the geometry file (`fullcount inspect` shows its number)";
        Readouts "readouts.count" Readouts Sum "geometry" In "readouts of accepted packets" "";
        Good "readouts.good" Readouts Sum "geometry" Accepted "readouts that became hits" "";
        Unknown "readouts.bad_digitizer" Readouts Sum "geometry" Rejected
            "readouts of unknown digitisers" "add the digitiser to the geometry file (`fullcount inspect` shows its number)";
        TofLarge "readouts.tof_large" Readouts Sum "geometry" Rejected
            "readouts at or above the time limit of the set-up" "the digitiser's clock was not restarted: look at the readout's trigger";
        Monitor "readouts.monitor" Readouts Sum "geometry" Accepted
            "readouts of the beam monitor; never an event of a neutron pixel (published as ReadoutsMonitor and MonitorCount)" "";
        InvalidChannel "readouts.invalid_channel" Readouts Sum "geometry" Rejected
            "readouts of channels that the geometry does not have" "a few: damaged data; many: the geometry file is that of another set-up, or the readout's software is of another version";
        InvalidAdc "readouts.invalid_adc" Readouts Sum "geometry" Rejected
            "readouts with an amplitude above MaxValidADC: the integrator overflowed" "a few percent are usual; many: lower the gain or shorten the integration gate";
        DiscardStrips "readouts.discard_strips" Readouts Sum "geometry" Rejected
            "strips dropped because detector.mode is \"1d\"" "nothing: only wires make events in this mode";
        Discard1D "readouts.discard_1d" Readouts Sum "geometry" Rejected
            "readouts of cassettes without strips dropped because detector.mode is \"2d\"" "nothing: set detector.mode = \"1d\" to see them";
        TimerWraps "readouts.timer_wraps" Times Sum "geometry" Note
            "steps back of 43 ms or more within a packet: the digitiser's clock was restarted" "";
        OneY "readouts.1d_y" Readouts Sum "geometry" Note "hits of wires in mode \"1d\" (published as Readouts1DY)" "";
        TwoX "readouts.2d_x" Readouts Sum "geometry" Note "hits of plane 0 in mode \"2d\" (published as Readouts2DX)" "";
        TwoY "readouts.2d_y" Readouts Sum "geometry" Note "hits of plane 1 in mode \"2d\" (published as Readouts2DY)" "";
    }
}

impl MultiBladeCount {
    /// The one counter of a reason.
    pub fn of(refusal: MultiBladeRefusal) -> MultiBladeCount {
        match refusal {
            MultiBladeRefusal::ShortPacket => MultiBladeCount::ShortPacket,
            MultiBladeRefusal::Version => MultiBladeCount::Version,
            MultiBladeRefusal::ElementType => MultiBladeCount::ElementType,
            MultiBladeRefusal::LengthMismatch => MultiBladeCount::LengthMismatch,
        }
    }

    /// The total of an error class.
    pub fn of_class(class: MultiBladeErrorClass) -> MultiBladeCount {
        match class {
            MultiBladeErrorClass::BadSize => MultiBladeCount::BadSize,
            MultiBladeErrorClass::Header => MultiBladeCount::HeaderErrors,
        }
    }

    /// The counter of a readout that passed all limits.
    pub fn of_use(channel: Use) -> MultiBladeCount {
        match channel {
            Use::Hit => MultiBladeCount::Good,
            Use::Monitor => MultiBladeCount::Monitor,
            Use::Nothing => MultiBladeCount::InvalidChannel,
            Use::Strip1D => MultiBladeCount::DiscardStrips,
            Use::Cassette1D => MultiBladeCount::Discard1D,
        }
    }
}

fullcount_core::counters! {
    /// Lines of a builder's sheet.
    pub enum MultiBladeBuilt {
        Hits "cluster.hits" Hits Sum "cluster" In "hits given to the builder" "";
        Used "cluster.used" Hits Sum "cluster" Accepted "hits in events" "";
        Unused "cluster.unused" Hits Sum "cluster" Rejected
            "hits of clusters that became no event: noise, dark counts, single planes" "compare with events.no_coincidence; many: raise the thresholds in the digitiser";
        Open "cluster.open" Hits Sum "cluster" Queued
            "hits in windows that are still open (clustering = \"fixed-window\")" "";
        Candidates "events.candidates" Events Sum "match" In "groups of clusters after matching both planes" "";
        Events "events.count" Events Sum "match" Accepted "events (published as Events)" "";
        NoCoincidence "events.no_coincidence" Events Sum "match" Rejected
            "candidates with wires only or strips only" "some are usual (noise, dark counts); nearly all: the two planes do not meet in time";
        GapPlane1 "events.gap_plane1" Events Sum "match" Rejected
            "candidates dropped because coordinates are missing in plane 1" "a few percent: two neutrons at once; half of them: the set-up is MB16 instead of MB18, or the other way round";
        GapPlane0 "events.gap_plane0" Events Sum "match" Rejected
            "candidates dropped because coordinates are missing in plane 0" "a few percent: two neutrons at once; half of them: the set-up is MB16 instead of MB18, or the other way round";
        TimeSpan "events.filter.time_span" Events Sum "match" Rejected
            "candidates longer than detector.max_time_span" "raise the limit if real events are this long";
        Multiplicity "events.filter.multiplicity" Events Sum "match" Rejected
            "candidates with more wires or strips than detector.max_wires and max_strips" "raise the limits if real events are this large";
        Ratio "events.filter.amplitude_ratio" Events Sum "match" Rejected
            "candidates whose amplitudes on wires and strips do not belong together (detector.amplitude_ratio)" "look at the recorded ratios before tightening the limits";
        WireThreshold "events.filter.wire_threshold" Events Sum "match" Rejected
            "candidates whose wires stay below their threshold" "look at the thresholds in the geometry file";
        MaxTofDropped "events.filter.max_tof" Events Sum "match" Rejected
            "candidates later than MaxTofNS, with detector.drop_late = true" "raise MaxTofNS, or leave detector.drop_late out";
        GeometryErrors "events.geometry_errors" Events Sum "match" Rejected
            "candidates outside the pixel grid, or with a plane without weight (published as GeometryErrors)" "a few: readouts of amplitude 0; many: the grid in the geometry file is too small";
        Matched "events.matched_clusters" Events Sum "match" Note
            "candidates that passed gaps and filters (published as EventsMatchedClusters): equals events.count + events.geometry_errors + events.filter.max_tof" "";
        InvalidStripGap "events.invalid_strip_gap" Events Sum "match" Note
            "published EventsInvalidStripGap: equals events.gap_plane1, whichever plane the strips are" "see events.gap_plane1";
        InvalidWireGap "events.invalid_wire_gap" Events Sum "match" Note
            "published EventsInvalidWireGap: equals events.gap_plane0, whichever plane the wires are" "see events.gap_plane0";
        WireGapCount "events.wire_gap_count" Events Sum "match" Note
            "candidates with missing coordinates in plane 1, kept or not (published as EventsWireGapCount)" "";
        WireGapInvalid "events.wire_gap_invalid" Events Sum "match" Note
            "published EventsWireGapInvalid: equals events.gap_plane1 with AMOR B, else 0" "see events.gap_plane1";
        WireMultSingle "events.wire_mult_single" Events Sum "match" Note
            "matched events with one hit in plane 1 (published as EventsWireMultSingle)" "";
        WireMultTwoPlus "events.wire_mult_two_plus" Events Sum "match" Note
            "matched events with more hits in plane 1 (published as EventsWireMultTwoPlus)" "";
        MaxTof "events.max_tof" Events Sum "match" Note
            "matched events later than MaxTofNS (published as EventsMaxTofNS); sent unless detector.drop_late = true" "";
        OneD "events.1d" Events Sum "match" Note "events of single wires (published as Events1D)" "";
        TwoD "events.2d" Events Sum "match" Note "events of both planes (published as Events2D)" "";
        Resolved "events.resolved_doubles" Events Sum "match" Note
            "pairs of neutrons at the same time in one cassette told apart by amplitude (detector.resolve_doubles)" "";
        MonitorEvents "events.monitor" Times Sum "match" Note
            "monitor readouts written as events of the monitor's own pixel (detector.monitor = \"pixel\")" "";
        BelowThreshold "cluster.below_threshold" Hits Sum "cluster" Rejected
            "hits below detector.threshold (clustering = \"fixed-window\")" "lower detector.threshold if they are wanted";
    }
}

impl MultiBladeBuilt {
    /// The one counter of a broken rule.
    pub fn of(broken: Broken) -> MultiBladeBuilt {
        match broken {
            Broken::TimeSpan => MultiBladeBuilt::TimeSpan,
            Broken::Multiplicity => MultiBladeBuilt::Multiplicity,
            Broken::Ratio => MultiBladeBuilt::Ratio,
        }
    }
}
