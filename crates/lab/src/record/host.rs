//! What a result depends on: processor, kernel, memory and the network limits in force.
//!
//! Reads text files below a root (`/` in use, a directory in tests) and leaves out what is not there,
//! so that it works, emptily, on every system. No names or addresses of the host are noted.

use std::path::Path;

use serde_json::{Map, Value};

/// Limits that decide how much a socket can hold and how the kernel shares out its work.
const LIMITS: [&str; 7] = [
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/busy_poll",
    "net/ipv4/udp_mem",
];

/// The TCP congestion control that connections have which ask for none.
pub fn congestion_control() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Snapshot of the host below `root`.
pub fn snapshot(root: &Path) -> Value {
    let read = |path: &str| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let mut host = Map::new();
    let mut note = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            host.insert(key.to_owned(), value);
        }
    };
    note("os", Some(std::env::consts::OS.into()));
    note("arch", Some(std::env::consts::ARCH.into()));
    note("kernel", read("proc/sys/kernel/osrelease").map(Value::from));
    let cpuinfo = read("proc/cpuinfo").unwrap_or_default();
    note("cpu", field(&cpuinfo, "model name").map(Value::from));
    let cpus = cpuinfo.lines().filter(|l| key_of(l) == Some("processor")).count();
    note("cpus", (cpus > 0).then(|| cpus.into()));
    note("hypervisor", cpuinfo.contains(" hypervisor").then(|| true.into()));
    let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    note("governor", read(governor).map(Value::from));
    let smt = read("sys/devices/system/cpu/smt/active");
    note("smt", smt.map(|s| (s == "1").into()));
    let meminfo = read("proc/meminfo").unwrap_or_default();
    let kib = |text: String| text.trim_end_matches(" kB").parse::<u64>().ok();
    let memory = field(&meminfo, "MemTotal").and_then(kib);
    note("memory_mib", memory.map(|k| (k / 1024).into()));
    let load = read("proc/loadavg").and_then(|l| l.split(' ').next()?.parse::<f64>().ok());
    note("load_1min", load.map(Value::from));
    let limits: Map<String, Value> = LIMITS
        .iter()
        .filter_map(|name| {
            let value = read(&format!("proc/sys/{name}"))?;
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            Some((name.replace('/', "."), value.into()))
        })
        .collect();
    note("sysctl", (!limits.is_empty()).then(|| Value::Object(limits)));
    Value::Object(host)
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once(':').map(|(key, _)| key.trim())
}

/// Value of the first `key: value` line.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|l| key_of(l) == Some(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_what_is_there_and_leaves_out_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut expected = json!({"os": std::env::consts::OS, "arch": std::env::consts::ARCH});
        assert_eq!(snapshot(dir.path()), expected);
        put("proc/sys/kernel/osrelease", "6.1.0\n");
        let cpu = "processor\t: 0\nmodel name\t: Example CPU\nflags\t: fpu hypervisor\n\n";
        put("proc/cpuinfo", &format!("{cpu}{cpu}"));
        put("proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n");
        put("proc/loadavg", "0.50 0.40 0.30 1/100 4242\n");
        put("proc/sys/net/core/rmem_max", "212992\n");
        put("proc/sys/net/ipv4/udp_mem", "1\t2\t3\n");
        let more = json!({
            "kernel": "6.1.0", "cpu": "Example CPU", "cpus": 2, "hypervisor": true,
            "memory_mib": 16000, "load_1min": 0.5,
            "sysctl": {"net.core.rmem_max": "212992", "net.ipv4.udp_mem": "1 2 3"},
        });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(snapshot(dir.path()), expected);
    }
}
