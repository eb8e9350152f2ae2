//! The simplified TCP in a user namespace of somebody without any capability: packet socket and AF_XDP on interfaces of its own, with the
//! readout unit at the far end. Source: `docs/stcp.md`, "Without root". TAP devices: `stcp_live.rs`.

use std::path::Path;
use std::process::{Command, Output};

use crate::service::Said;
use crate::stcp_live::skipped;

/// As root in a mount namespace of its own: the program where anybody may run it, and then the second script as nobody. What is
/// left of root there is nothing: no capability, no group, no way to get them but a user namespace.
const NOBODY: &str = r#"set -e
mount -t tmpfs -o mode=755 tmpfs /mnt
touch /mnt/fullcount
mount --bind "$1" /mnt/fullcount
mount -t tmpfs -o mode=1777 tmpfs /tmp
cd /
script=$2
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    sh -c 'grep CapEff /proc/self/status >&2; exec unshare -Urnm sh -c "$@"' sh "$script" sh "$@""#;

/// As docs/stcp.md says it: a network of one link, the unit behind it, the sender with this driver before it.
const NETWORK: &str = r#"set -e
echo within >&2
mount -t tmpfs tmpfs /run
ip netns add far
ip link add v0 mtu 9000 type veth peer name v0 mtu 9000 netns far
ip link set v0 up
ip address add 10.77.0.1/24 dev v0
ip -n far link set v0 up
ip -n far address add 10.77.0.2/24 dev v0
ip netns exec far /mnt/fullcount run --source 'tcp://10.77.0.2:5000?until=closed' --detector fragments \
    --set detector.sources=4 --web off --sink null --json >/tmp/unit &
n=0
until ip netns exec far ss -Hltn | grep -q :5000; do n=$((n + 1)); test $n -lt 600; sleep 0.1; done
/mnt/fullcount send --to "stcp://10.77.0.2:5000?interface=v0&address=10.77.0.9&driver=$1" \
    --source fragments --sources 4 --count 4000 >&2
wait $!
cat /tmp/unit"#;

fn nobody(driver: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", NOBODY, "sh"]);
    command.args([env!("CARGO_BIN_EXE_fullcount"), NETWORK, driver]);
    command.output().expect("unshare is there")
}

/// What a kernel that forbids user namespaces to users says, before anything of ours runs.
fn forbidden(said: &Output) -> Option<String> {
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    let within = err.lines().any(|line| line == "within");
    // Some let them be made, and then give no right in them.
    let no_right = Path::new("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let restricted = std::fs::read_to_string(no_right).is_ok_and(|text| text.trim() == "1");
    (!said.status.success() && (!within || restricted)).then_some(err)
}

#[test]
fn a_user_without_capabilities_sends_over_packet_sockets_in_a_network_of_his_own() {
    if skipped() {
        return;
    }
    for driver in ["packet", "xdp"] {
        let out = nobody(driver);
        if let Some(why) = forbidden(&out) {
            println!("skipped: this kernel gives users no user namespaces: {why}");
            return;
        }
        let said = Said {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
        };
        assert_eq!(said.code, 0, "{driver}: {}", said.err);
        assert!(said.err.contains("CapEff:\t0000000000000000"), "{}", said.err);
        let built = ["events.count", "events.incomplete", "fragments.wrong_crc", "fragments.lost"];
        assert_eq!(built.map(|name| said.counter(name)), [1000, 0, 0, 0], "{driver}: {}", said.err);
    }
}
