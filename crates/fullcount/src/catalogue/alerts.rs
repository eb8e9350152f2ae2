//! Alert rules for Prometheus: `deploy/monitoring/alerts.yaml` is what is printed here.
//!
//! Losses are found by their role in the catalogue, so that a new counter of a loss is alerted on without anybody's help.

/// Name, expression, how long it must hold, severity, sentence for people.
const RULES: [(&str, &str, &str, &str, &str); 7] = [
    (
        "FullcountLoss",
        "increase({__name__=~\"fullcount_.+_total\",role=~\"missing|dropped\"}[5m]) > 0",
        "0m",
        "warning",
        "{{ $labels.instance }} lost {{ $value | humanize }} {{ $labels.unit }} in 5 min ({{ $labels.name }}): see docs/losses.md",
    ),
    (
        "FullcountOutputFailed",
        "fullcount_output_failed == 1",
        "0m",
        "critical",
        "output {{ $labels.output }} of {{ $labels.instance }} has failed: what it does not take is lost",
    ),
    (
        "FullcountRefused",
        "fullcount_mostly_refused == 1",
        "10s",
        "critical",
        "{{ $labels.instance }} refuses most packets: is it the detector that is configured?",
    ),
    (
        "FullcountSilent",
        "rate(fullcount_receive_packets_total[2m]) == 0 and on (instance, job) fullcount_running == 1",
        "2m",
        "warning",
        "nothing comes to {{ $labels.instance }}: is the detector on, and does it send here?",
    ),
    (
        "FullcountModuleSilent",
        "fullcount_module_silent == 1 and on (instance, job) fullcount_running == 1",
        "30s",
        "warning",
        "{{ $labels.module }} sends nothing to {{ $labels.instance }} any more: is it on, and its cable in?",
    ),
    (
        "FullcountSpoolNearlyFull",
        "fullcount_spool_nearly_full == 1",
        "0m",
        "warning",
        "the spool of output {{ $labels.output }} of {{ $labels.instance }} is 80 % full: is its broker there?",
    ),
    (
        "FullcountHostDrops",
        "increase({__name__=~\"fullcount_host_(softnet_dropped|nic_receive_missed|udp_receive_buffer_errors)_total\"}[5m]) > 0",
        "0m",
        "warning",
        "the host of {{ $labels.instance }} drops packets: run fullcount advise there",
    ),
];

/// The rules as a file.
pub fn yaml() -> String {
    let mut text = "# Made by `fullcount catalogue --alerts`; a test compares them.\ngroups:\n- name: fullcount\n  rules:\n".to_owned();
    for (name, expression, time, severity, said) in RULES {
        text += &format!(
            "  - alert: {name}\n    expr: '{expression}'\n    for: {time}\n    labels:\n      severity: {severity}\n    \
             annotations:\n      summary: '{said}'\n"
        );
    }
    text
}
