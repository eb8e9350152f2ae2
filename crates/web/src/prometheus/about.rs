//! What runs: version, processor time, memory, files. Names as other programs have them, so that usual dashboards fit.
//!
//! Refuses nothing: what the system does not tell is not there. Sources: proc(5); Prometheus' list of process metrics.

use std::collections::BTreeMap;
use std::fs;

use fullcount_io::host::Host;
use fullcount_io::sys;

use super::text::ExpositionText;

/// Adds what this process is and uses.
pub fn write(out: &mut ExpositionText) {
    let name = "fullcount_build_info";
    out.family(name, "gauge", "1; the labels say which program this is");
    let labels = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", option_env!("FULLCOUNT_COMMIT").unwrap_or("unknown").to_owned()),
        ("system", std::env::consts::OS.to_owned()),
        ("processor", std::env::consts::ARCH.to_owned()),
    ];
    out.sample(name, &labels, "1");
    if let Ok(time) = sys::process_cpu_time() {
        let name = "process_cpu_seconds_total";
        out.family(name, "counter", "Processor time of this process, user and system");
        out.seconds(name, &[], time.user_ns + time.system_ns, 1_000_000_000);
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let memory = [
        ("process_resident_memory_bytes", "Memory of this process that is in use", "VmRSS"),
        ("process_virtual_memory_bytes", "Address space of this process", "VmSize"),
    ];
    for (name, about, key) in memory {
        if let Some(kib) = field(key) {
            out.family(name, "gauge", about);
            out.sample(name, &[], &(kib * 1024).to_string());
        }
    }
    if let Some(threads) = field("Threads") {
        let name = "process_threads";
        out.family(name, "gauge", "Threads of this process");
        out.sample(name, &[], &threads.to_string());
    }
    threads(out);
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        let name = "process_open_fds";
        out.family(name, "gauge", "Open files and sockets of this process");
        // The folder itself is open while it is read.
        out.sample(name, &[], &open.count().saturating_sub(1).to_string());
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let most = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = most.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(most) = most {
        let name = "process_max_fds";
        out.family(name, "gauge", "Files and sockets that this process may have open");
        out.sample(name, &[], &most.to_string());
    }
    super::host::write(out, &Host::default());
}

/// Threads that are told of at most; those of one name are one.
const THREADS: usize = 256;

/// Adds the processor time of each thread by its name: how near a worker is to its limit.
fn threads(out: &mut ExpositionText) {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // The first number: ns on a processor.
        let time = read("schedstat").split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        let name = read("comm").trim().to_owned();
        if let Some(time) = time
            && (all.len() < THREADS || all.contains_key(&name))
        {
            *all.entry(name).or_default() += time;
        }
    }
    let name = "fullcount_thread_cpu_seconds_total";
    out.family(name, "counter", "Processor time of the threads of that name that are there now");
    for (thread, ns) in all {
        out.seconds(name, &[("thread", thread)], ns, 1_000_000_000);
    }
}
