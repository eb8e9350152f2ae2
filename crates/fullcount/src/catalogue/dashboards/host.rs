//! Graphs of the host and of each module.

use super::Panel;

/// In Graphite; legends are made of the names that are there.
pub fn in_graphite() -> Vec<Panel> {
    let named = |query: &str, what: &str, to: &str| {
        (format!("aliasSub({query}, '^.*{what}', '{to}')"), String::new())
    };
    let lost = |of: &str| {
        named(&format!("perSecond($prefix.machine.{of})"), r"\.machine\.([^ )]+).*$", r"\1")
    };
    let module =
        |of: &str, query: &str| named(query, &format!(r"\.module\.([^.]+)\.{of}.*$"), r"\1");
    let lost = ["softnet.*.dropped", "nic.*.missed", "udp.receive_buffer_errors"].map(lost);
    let busy = named(
        "scale(perSecond($prefix.machine.cpu.*.busy_ms), 0.001)",
        r"\.cpu\.([0-9]+)\..*$",
        r"CPU \1",
    );
    let moved = [("bytes", "received"), ("sent_bytes", "sent")].map(|(of, way)| {
        let what = format!(r"\.nic\.([^.]+)\.{of}.*$");
        named(&format!("perSecond($prefix.machine.nic.*.{of})"), &what, &format!(r"\1 {way}"))
    });
    let packets = module("packets", "perSecond($prefix.module.*.packets)");
    let age = module("age_ms", "$prefix.module.*.age_ms");
    let panel = |title, unit, queries| Panel { title, unit, queries };
    vec![
        panel("Processor, core by core", "percentunit", vec![busy]),
        panel("Losses that the host counts", "pps", lost.into()),
        panel("Bytes of each network interface", "Bps", moved.into()),
        panel("Packets of each module", "pps", vec![packets]),
        panel("Age of each module's newest packet", "ms", vec![age]),
    ]
}

/// In Prometheus, and what is wrong now.
pub fn in_prometheus() -> Vec<Panel> {
    let mut all = Vec::new();
    let at = "job=~\"$job\",instance=~\"$instance\"";
    let busy = format!(
        "1 - rate(fullcount_host_cpu_seconds_total{{mode=\"idle\",{at}}}[$__rate_interval])"
    );
    all.push(Panel {
        title: "Processor, core by core",
        unit: "percentunit",
        queries: vec![(busy, "{{instance}} CPU {{cpu}}".into())],
    });
    let host = format!(
        "rate({{__name__=~\"fullcount_host_(softnet_dropped|nic_receive_missed|udp_receive_buffer_errors)_total\",{at}}}[$__rate_interval]) > 0"
    );
    let legend = "{{instance}} {{__name__}} {{cpu}}{{interface}}";
    all.push(Panel {
        title: "Losses that the host counts",
        unit: "pps",
        queries: vec![(host, legend.into())],
    });
    let moved = [("receive", "received"), ("transmit", "sent")].map(|(way, said)| {
        let name = format!("fullcount_host_nic_{way}_bytes_total");
        let rate = format!("rate({name}{{{at}}}[$__rate_interval])");
        (rate, format!("{{{{instance}}}} {{{{interface}}}} {said}"))
    });
    all.push(Panel {
        title: "Bytes of each network interface",
        unit: "Bps",
        queries: moved.into(),
    });
    let rate = format!("rate(fullcount_module_packets_total{{{at}}}[$__rate_interval])");
    all.push(Panel {
        title: "Packets of each module",
        unit: "pps",
        queries: vec![(rate, "{{instance}} {{module}}".into())],
    });
    let age = format!("fullcount_module_age_seconds{{{at}}}");
    all.push(Panel {
        title: "Age of each module's newest packet",
        unit: "s",
        queries: vec![(age, "{{instance}} {{module}}".into())],
    });
    let state = format!(
        "{{__name__=~\"fullcount_(output_failed|mostly_refused|spool_nearly_full|module_silent)\",{at}}} > 0"
    );
    let legend = "{{instance}} {{__name__}} {{output}}{{module}}";
    all.push(Panel {
        title: "What is wrong now",
        unit: "short",
        queries: vec![(state, legend.into())],
    });
    all
}
