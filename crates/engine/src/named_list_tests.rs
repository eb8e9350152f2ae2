//! Every name that `control-and-monitoring.md` lists for a module: published here, or without a counterpart, with the reason.
//!
//! A name is in one of both, so one that is forgotten fails, and so does a reason for one that has a counterpart by now.
//! Patterns of the document (`readouts.*`, `cluster.*`, `hits.*`) name nothing and are left out.

use std::collections::BTreeSet;

use fullcount_core::naming::Naming;
use fullcount_detect::detector::registered;

use super::names;
use super::tests::entries;
use crate::config::Config;

const NOW: Naming = Naming::Efu;
const THEN: Naming = Naming::Efu2018;

/// For all that is listed, in the table of reasons.
const ANY: &str = "";

/// Section 4.3, and what section 4.5 says of all five modules, but for the names that Multi-Grid has in place of these. A producer is
/// called `event`.
const COMMON: &str = "receive.packets, receive.bytes, receive.dropped, receive.fifo_seq_errors, thread.input_idle, \
    thread.processing_idle, parser.essheader.errors.{header, buffer, cookie, pad, size, version, output_queue, type, seqno, \
    timehigh, timefrac, timing, time_status, even_fibre_sync, odd_fibre_sync}, parser.essheader.heartbeats, \
    parser.essheader.version.{v0, v1}, \
    parser.essheader.OQ.{00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11}.packets, readouts.count, \
    geometry.{ring, fen, ring_mapping, topology, validation, pixel}_errors, events.count, \
    events.timestamp.tof.{count, negative, high}, events.timestamp.prevtof.{count, negative, high}, \
    produce.cause.{timeout, pulse_change, max_events_reached, monitor_packets}, \
    producer.event.{produce_calls, produce_bytes_ok, produce_bytes_error, produce_errors}, \
    producer.event.msg.{num_of_msg_in_queue, max_num_of_msg_in_queue, bytes_in_queue, max_bytes_in_queue}, \
    producer.event.msg.{delivery_success, status_persisted, status_not_persisted, status_possibly_persisted, msg_delivery_event}, \
    producer.event.error.{msg_delivery, config, transmission, unknown_topic, unknown_partition, queue_full, timeout, \
    msg_timeout, transport, authentication, msg_size, other}, producer.event.{stat_events, error_events, memory_cleanups}, \
    producer.event.brokers.{tx_bytes, tx_req_retries}, main.uptime, \
    kafka.{produce_fails, ev_errors, ev_others, dr_errors, dr_others}, \
    memory.hitvec_storage.{alloc_count, alloc_bytes, dealloc_count, dealloc_bytes, malloc_fallback_count}, \
    memory.cluster_storage.{alloc_count, alloc_bytes, dealloc_count, dealloc_bytes, malloc_fallback_count}";

/// Sections 4.4 and 4.5.
const LISTS: [(&str, Naming, &str); 8] = [
    (
        "sonde",
        NOW,
        "transmit.bytes, readouts.seq_errors, ideas.packets.{triggertime, singleevent, multievent, unsupported}, events.count, \
         events.geometry_errors, thread.input_idle, thread.processing_idle, thread.fifo_synch_errors",
    ),
    (
        "multiblade",
        NOW,
        "transmit.bytes, receive.idle, receive.fifo_seq_errors, headers.{packet_bad_header, error_version, seq_errors}, \
         readouts.{count, 2D_x, 2D_y, 1D_y, discard.1D, discard.strips, count_valid, invalid_ch, invalid_adc, invalid_plane, \
         large_tof, timer_wraps, error_bytes}, monitor.{count, txbytes}, thread.processing_idle, \
         events.{count, 2D, 1D, 1DDiscard, geometry_errors, no_coincidence, wiremult_single, wiremult_twoplus, matched_clusters, \
         strip_gaps, wiregap.count, wiregap.invalid, max_tof_ns}",
    ),
    (
        "multigrid",
        NOW,
        "rx_packets, rx_bytes, rx_idle, tx_bytes, readouts_total, rx_discarded_bytes, parser_triggers, \
         builder_{glitch_rejects, filter_rejects, geometry_errors}, hits_{total, time_seq_err, bad_plane, used}, wire_clusters, \
         grid_clusters, events_{total, multiplicity_rejects, bad, geometry_err}, tx_events",
    ),
    (
        "gdgem",
        NOW,
        "transmit.bytes, receive.fifo_seq_errors, thread.{input_idle, processing_idle}, readouts.{good_frames, bad_frames, error_bytes, \
         frame_seq_errors, frame_missing_errors, framecounter_overflows, timestamp_seq_errors, timestamp_lost_errors, \
         timestamp_overflows, count, markers, data}, hits.{good, outside_roi, over_threshold, bad_plane, bad_geometry, bad_adc}, \
         clusters.{total, x, y, x_and_y}, events.{good, bad, outside_region, filter_rejects, geom_errors, good_hits}",
    ),
    (
        "sonde",
        THEN,
        "input.rx_packets, input.rx_bytes, input.dropped, input.rx_seq_errors, processing.idle, processing.rx_events, \
         processing.rx_geometry_errors, processing.rx_seq_errors, output.tx_bytes",
    ),
    (
        "multiblade",
        THEN,
        "input.rx_packets, input.rx_bytes, input.fifo1_push_errors, processing.rx_readouts, processing.rx_idle1, processing.tx_bytes, \
         processing.rx_events, processing.rx_geometry_errors, processing.fifo_seq_errors",
    ),
    (
        "multigrid",
        THEN,
        "rx_packets, rx_bytes, readouts, triggers, badtriggers, readouts_parse_errors, readouts_discarded, geometry_errors, events, \
         tx_bytes",
    ),
    (
        "gdgem",
        THEN,
        "rx_packets, rx_bytes, i2pfifo_dropped, readouts, readouts_error_bytes, readouts_discarded, clusters_discarded, \
         clusters_events, clusters_x, clusters_y, clusters_xy, processing_idle, fifo_seq_errors, unclustered, geom_errors, \
         lost_frames, bad_frames, good_frames, tx_bytes",
    ),
];

/// Modules of the document that are no detector of this program, by their names of 2018.
const NO_MODULE: [(&str, &str); 3] = [
    ("cspec2", "Multi-Grid with the CNCS readout: no decoder reads it"),
    ("jalousie", "no decoder reads it"),
    ("adcreadout", "an ADC's samples: no decoder reads them"),
];

const WAITS: &str = "such a message waits in the spool and is sent again; what is refused for good is in sink.kafka.refused";
const OWN: &str = "of librdkafka itself, and not counted";

/// Names that have no counterpart, and why.
const NONE: &[(&str, Naming, &str, &str)] = &[
    (
        ANY,
        NOW,
        "parser.essheader.errors.{header, buffer, cookie, pad, size, version, output_queue, type, seqno, timehigh, timefrac, timing, \
         time_status, even_fibre_sync, odd_fibre_sync}, parser.essheader.heartbeats, parser.essheader.version.{v0, v1}, \
         parser.essheader.OQ.{00, 01, 02, 03, 04, 05, 06, 07, 08, 09, 10, 11}.packets",
        "the header of the ESS readout, which none of these detectors has",
    ),
    (
        ANY,
        NOW,
        "geometry.{ring, fen, ring_mapping, topology, validation, pixel}_errors",
        "rings and FENs of the ESS readout; what fits no geometry here has a counter of its detector",
    ),
    (
        ANY,
        NOW,
        "events.timestamp.tof.{count, negative, high}, events.timestamp.prevtof.{count, negative, high}",
        "events have their times and are not judged by the time of flight",
    ),
    (ANY, NOW, "produce.cause.monitor_packets", "raw packets are an output of their own"),
    (
        ANY,
        NOW,
        "producer.event.{produce_bytes_error, produce_errors}, kafka.{produce_fails, dr_errors}, \
         producer.event.msg.{status_not_persisted, status_possibly_persisted}",
        WAITS,
    ),
    (
        ANY,
        NOW,
        "producer.event.msg.max_num_of_msg_in_queue",
        "the spool has a limit of bytes, and none of messages",
    ),
    (
        ANY,
        NOW,
        "producer.event.error.{msg_delivery, config, transmission, unknown_topic, unknown_partition, queue_full, timeout, \
         msg_timeout, transport, authentication, msg_size, other}",
        "one counter has all kinds (producer.event.error_events), and the messages of the run name them",
    ),
    (
        ANY,
        NOW,
        "producer.event.{stat_events, memory_cleanups}, producer.event.brokers.{tx_bytes, tx_req_retries}, \
         producer.event.msg.msg_delivery_event, kafka.{ev_others, dr_others}",
        OWN,
    ),
    (
        ANY,
        NOW,
        "memory.hitvec_storage.{alloc_count, alloc_bytes, dealloc_count, dealloc_bytes, malloc_fallback_count}, \
         memory.cluster_storage.{alloc_count, alloc_bytes, dealloc_count, dealloc_bytes, malloc_fallback_count}",
        "there are no such pools",
    ),
    (
        "multiblade",
        NOW,
        "readouts.invalid_plane",
        "the plane is made of the channel, so these are in readouts.invalid_ch",
    ),
    ("multiblade", NOW, "monitor.txbytes", "the beam monitor has no messages of its own"),
    (
        "multiblade",
        NOW,
        "events.1DDiscard",
        "candidates of one plane alone are in events.no_coincidence",
    ),
    (
        "multigrid",
        THEN,
        "badtriggers",
        "triggers that made no event, those of the pulses included; here hits of several triggers can make one event",
    ),
    ("gdgem", THEN, "unclustered", "it stays 0 there: nothing sets it"),
];

/// `a.{b, c}_d, e` as `a.b_d`, `a.c_d`, `e`.
fn expanded(list: &str) -> Vec<String> {
    let (mut all, mut rest) = (Vec::new(), list);
    while !rest.is_empty() {
        let comma = rest.find(", ").unwrap_or(rest.len());
        let (name, end) = match rest.find('{').filter(|&open| open < comma) {
            None => (&rest[..comma], comma),
            Some(open) => {
                let close = rest.find('}').expect("a brace that closes");
                let end = rest[close..].find(", ").map_or(rest.len(), |at| close + at);
                let (before, after) = (&rest[..open], &rest[close + 1..end]);
                let middle = rest[open + 1..close].split(", ");
                all.extend(middle.map(|part| format!("{before}{part}{after}")));
                ("", end)
            }
        };
        all.extend((!name.is_empty()).then(|| name.to_owned()));
        rest = rest[end..].trim_start_matches(", ");
    }
    all
}

/// Every name for which a kind has reasons.
fn reasons(kind: &str, naming: Naming) -> Vec<String> {
    let of = |line: &&(&str, Naming, &str, &str)| [ANY, kind].contains(&line.0) && line.1 == naming;
    NONE.iter().filter(of).flat_map(|line| expanded(line.2)).collect()
}

#[test]
fn every_name_of_the_document_is_published_or_has_a_reason_why_not() {
    assert_eq!(expanded("a, b.{c, d.e}_f, g"), ["a", "b.c_f", "b.d.e_f", "g"]);
    let (mut n, mut wrong) = (0, Vec::new());
    for (kind, naming, list) in LISTS {
        let mut config = Config::default();
        let word = Naming::ALL.into_iter().find(|(_, known)| *known == naming).expect("known").0;
        config.metrics.insert("names".into(), word.into());
        let values = names(&config, kind).values(&entries(kind), 7);
        let published: BTreeSet<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        let mut listed = expanded(list);
        listed.extend((naming == NOW).then(|| expanded(COMMON)).into_iter().flatten());
        let none = reasons(kind, naming);
        for name in &listed {
            match (published.contains(name.as_str()), none.contains(name)) {
                (false, false) => wrong.push(format!("{kind} {word}: {name} is forgotten")),
                (true, true) => wrong.push(format!("{kind} {word}: {name} has a counterpart")),
                _ => {}
            }
        }
        let unknown = none.iter().filter(|name| !listed.contains(name));
        wrong.extend(unknown.map(|name| format!("{kind} {word}: {name} is not in the document")));
        n += listed.len();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(n > 400, "{n}");
    for (module, why) in NO_MODULE {
        assert!(!why.is_empty());
        let taken = registered().kinds().filter_map(|kind| kind.published());
        assert!(taken.into_iter().all(|p| p.module_2018 != module), "{module} has a decoder now");
    }
}

#[test]
fn the_page_says_which_names_of_a_module_are_not_there() {
    let page = include_str!("../../../docs/operations.md");
    for (kind, _, list, why) in NONE {
        assert!(!why.is_empty(), "{list}");
        for name in expanded(list).iter().filter(|_| !kind.is_empty()) {
            assert!(page.contains(&format!("`{name}`")), "docs/operations.md does not say {name}");
        }
    }
}
