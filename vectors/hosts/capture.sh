#!/bin/sh
# Saves what `fullcount advise` reads of this host into a tree for `--root`: capture.sh FOLDER INTERFACE
# Leaves out addresses, routes but the default one's interface, and long identifiers. Wants ethtool.
set -u
if [ $# -ne 2 ] || [ ! -e "/sys/class/net/$2/mtu" ]; then
    echo "usage: capture.sh FOLDER INTERFACE" >&2
    exit 2
fi
to=$1
if=$2
strip() { sed -E 's/[0-9a-f]{16,}/ID/g'; }
# keep SOURCE [NAME]: one file, as it reads, if it reads.
keep() {
    name=${2:-$1}
    name=$(printf %s "$name" | sed -E 's|/[0-9a-f]{16,}|/ID|g')
    text=$(cat "$1" 2>/dev/null) || return 0
    mkdir -p "$to/$(dirname "$name")"
    printf '%s\n' "$text" >"$to/$name"
}
# some SOURCE PATTERN: the lines of a file that match.
some() {
    text=$(grep -E "$2" "$1" 2>/dev/null) || return 0
    mkdir -p "$to/$(dirname "$1")"
    printf '%s\n' "$text" >"$to/$1"
}
cd / || exit 1
for f in proc/sys/net/core/[rw]mem_* proc/sys/net/core/netdev_* proc/sys/net/ipv4/udp_mem \
    proc/sys/net/ipv4/conf/all/rp_filter "proc/sys/net/ipv4/conf/$if/rp_filter" \
    proc/sys/net/netfilter/nf_conntrack_count proc/sys/net/netfilter/nf_conntrack_max \
    proc/net/stat/nf_conntrack proc/net/ip_tables_names proc/net/softnet_stat proc/sys/kernel/osrelease; do
    case $f in *rss_key) ;; *) keep "$f" ;; esac
done
some proc/stat '^cpu'
some proc/meminfo '^MemTotal'
some proc/cpuinfo '^(processor|model name)'
some proc/net/snmp '^Udp:'
some proc/self/status '^(Uid|CapEff|Cpus_allowed_list):'
some proc/self/limits '^(Limit|Max locked memory)'
for who in self 1; do
    mkdir -p "$to/proc/$who"
    strip <"proc/$who/cgroup" >"$to/proc/$who/cgroup"
done
for c in proc/[0-9]*/comm; do
    [ "$(cat "$c" 2>/dev/null)" = irqbalance ] && keep "$c"
done
if grep -q "^$if[[:blank:]]00000000" proc/net/route; then
    mkdir -p "$to/proc/net"
    printf 'Iface\tDestination\n%s\t00000000\n' "$if" >"$to/proc/net/route"
fi
# The groups of this process and all above.
while IFS=: read -r _ sorts path; do
    case $sorts in '') tops="sys/fs/cgroup sys/fs/cgroup/unified" ;; *) tops="sys/fs/cgroup/$sorts" ;; esac
    for top in $tops; do
        folder=$top$path
        while :; do
            for f in cpu.max cpu.cfs_quota_us cpu.cfs_period_us cpu.stat memory.max memory.limit_in_bytes \
                cpuset.cpus.effective cpuset.effective_cpus; do
                keep "${folder%/}/$f"
            done
            [ "${folder%/}" = "$top" ] && break
            folder=$(dirname "$folder")
        done
    done
done <proc/self/cgroup
net=sys/class/net/$if
for f in mtu tx_queue_len speed duplex carrier type; do keep "$net/$f"; done
for f in "$net"/queues/rx-*/rps_cpus; do keep "$f"; done
# A virtio device lies one step below its slot; the tree has no links, so both become `device`.
if [ -e "$net/device" ]; then
    mkdir -p "$to/$net/device"
    for slot in "$net/device" "$net/device/.."; do
        for f in numa_node current_link_speed current_link_width max_link_speed max_link_width; do
            [ -e "$to/$net/device/$f" ] || keep "$slot/$f" "$net/device/$f"
        done
        for irq in "$slot"/msi_irqs/*; do
            [ -e "$irq" ] || continue
            n=$(basename "$irq")
            keep "$irq" "$net/device/msi_irqs/$n"
            keep "proc/irq/$n/smp_affinity_list"
            keep "proc/irq/$n/effective_affinity_list"
            grep -E "^ *$n:" proc/interrupts >>"$to/proc/interrupts"
        done
    done
fi
for f in online isolated; do keep "sys/devices/system/cpu/$f"; done
for f in sys/devices/system/node/node*/cpulist sys/devices/system/cpu/cpu*/topology/core_cpus_list \
    sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do
    keep "$f"
done
for state in sys/devices/system/cpu/cpu*/cpuidle/state*; do
    for f in name latency disable; do keep "$state/$f"; done
done
if [ -r dev/cpu_dma_latency ]; then
    mkdir -p "$to/dev"
    head -c 4 dev/cpu_dma_latency >"$to/dev/cpu_dma_latency"
fi
for f in .dockerenv run/.containerenv; do
    if [ -e "$f" ]; then
        mkdir -p "$to/$(dirname "$f")"
        : >"$to/$f"
    fi
done
mkdir -p "$to/sos_commands/networking"
for o in g k l i; do
    text=$(ethtool -$o "$if" 2>&1) || true
    printf '%s\n' "$text" | sed -E 's/^bus-info:.*/bus-info:/' >"$to/sos_commands/networking/ethtool_-${o}_$if"
done
