//! Tests of the endpoint parser: the documented examples, and the error of each wrong one.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn udp_of(url: &str) -> UdpUrl {
    match url.parse() {
        Ok(Endpoint::Udp(u)) => u,
        other => panic!("{url}: {other:?}"),
    }
}

fn pcap_of(url: &str) -> PcapUrl {
    match url.parse() {
        Ok(Endpoint::Pcap(p)) => p,
        other => panic!("{url}: {other:?}"),
    }
}

fn refusal(url: &str) -> String {
    url.parse::<Endpoint>().expect_err(url).to_string()
}

#[test]
fn unicast_multicast_broadcast_and_ipv6() {
    let u = udp_of("udp://0.0.0.0:9000");
    assert_eq!(u, UdpUrl::new("0.0.0.0:9000".parse().unwrap()));
    assert_eq!(u.to_string(), "udp://0.0.0.0:9000");
    let u = udp_of("udp://239.1.2.3:9000?interface=10.0.0.1&ttl=1&loop=1");
    assert_eq!(u.interface, Some(InterfaceChoice::V4(Ipv4Addr::new(10, 0, 0, 1))));
    assert_eq!((u.ttl, u.loop_, u.broadcast), (Some(1), Some(true), None));
    let u = udp_of("udp://[::]:9000");
    assert_eq!(u.resolve().unwrap(), "[::]:9000".parse().unwrap());
    assert_eq!(u.to_string(), "udp://[::]:9000");
    let u = udp_of("udp://255.255.255.255:9000?broadcast=1");
    assert_eq!(u.broadcast, Some(true));
    let u = udp_of("udp://[ff02::1]:9?interface=lo");
    assert_eq!(u.interface, Some(InterfaceChoice::Name("lo".into())));
    assert_eq!(udp_of("udp://1.2.3.4:1?interface=3").interface, Some(InterfaceChoice::Index(3)));
    assert_eq!(udp_of("UDP://localhost:9000/").host, UdpHost::Name("localhost".into()));
}

#[test]
fn socket_options() {
    let u = udp_of(
        "udp://1.2.3.4:5?receive_buffer=64MiB&send_buffer=4KiB&engine=mmsg&spin&source_ports=4",
    );
    assert_eq!((u.receive_buffer, u.send_buffer), (Some(64 << 20), Some(4096)));
    assert_eq!((u.engine, u.spin, u.source_ports), (Engine::Mmsg, true, 4));
    let u = udp_of("udp://1.2.3.4:5?engine=uring&nap=100us");
    assert_eq!((u.engine, u.nap), (Engine::Uring, Some(Duration::from_micros(100))));
    assert_eq!(udp_of("udp://1.2.3.4:5?nap=10ms").nap, Some(Duration::from_millis(10)));
}

#[test]
fn captures() {
    let p = pcap_of("pcap:run42.pcapng?preload&repeat=3&shift");
    assert_eq!(p.path, PathBuf::from("run42.pcapng"));
    assert_eq!(p.repeat, Repeat::Times(NonZeroU64::new(3).unwrap()));
    assert!(p.preload && p.shift && p.speed == PcapSpeed::Recorded);
    assert_eq!(pcap_of("pcap:a.pcap?speed=2").speed, PcapSpeed::Factor(2.0));
    let p = pcap_of("pcap:///data/a b%20.pcap?flat-out&repeat=forever&port=9000");
    assert_eq!(p.path, PathBuf::from("/data/a b%20.pcap"));
    assert_eq!((p.speed, p.repeat, p.port), (PcapSpeed::FlatOut, Repeat::Forever, Some(9000)));
    assert_eq!(pcap_of("pcap:x?flat-out=0").speed, PcapSpeed::Recorded);
}

#[test]
fn schemes_are_known_unknown_or_later() {
    let told = refusal("upd://1.2.3.4:5");
    assert!(told.contains("'upd'") && told.contains("udp, pcap, xdp, packet"), "{told}");
    for later in fullcount_core::source::registry::DESIGNED {
        let told = refusal(&format!("{later}://eth0:9000"));
        assert!(told.contains("not yet supported by this version"), "{told}");
    }
    for none in ["", "run.pcapng", "10.0.0.1:9000", "localhost:9000", "[::1]:5", "a.b:c", ":"] {
        assert!(refusal(none).contains("no scheme"), "{none}: {}", refusal(none));
    }
    for (typed, meant) in [
        ("127.0.0.1:9000", "is udp://127.0.0.1:9000 meant?"),
        ("localhost:9000?spin", "is udp://localhost:9000?spin meant?"),
        ("[::1]:9000", "is udp://[::1]:9000 meant?"),
        ("a/run.pcapng?flat-out", "is pcap:a/run.pcapng?flat-out meant?"),
        ("run42", "for example udp://0.0.0.0:9000"),
    ] {
        assert!(refusal(typed).contains(meant), "{}", refusal(typed));
    }
}

#[test]
fn each_wrong_address_gets_its_own_sentence() {
    for (url, part) in [
        ("udp:1.2.3.4:5", "'//' is missing"),
        ("udp://1.2.3.4", "the port is missing"),
        ("udp://[::1]", "port"),
        ("udp://:9000", "the address is missing"),
        ("udp://1.2.3.4:70000", "70000"),
        ("udp://1.2.3.4:http", "'http' is not a number"),
        ("udp://1.2.3:5", "'1.2.3' is not an IPv4 address"),
        ("udp://::1:5", "brackets: [::1]"),
        ("udp://[::g]:5", "'::g' is not an IPv6 address"),
        ("udp://a b:5", "'a b' is neither"),
        ("udp://1.2.3.4:+5", "'+5' is not a number"),
    ] {
        let told = refusal(url);
        assert!(told.contains(part) && told.contains(url), "{told}");
    }
}

#[test]
fn each_wrong_key_or_value_is_named_with_what_is_allowed() {
    for (url, parts) in [
        ("udp://1.2.3.4:5?tll=1", ["'tll'", "ttl"]),
        ("udp://1.2.3.4:5?preload", ["'preload' for udp", "interface"]),
        ("udp://1.2.3.4:5?ttl=256", ["ttl=256", "0 to 255"]),
        ("udp://1.2.3.4:5?ttl", ["ttl=", "0 to 255"]),
        ("udp://1.2.3.4:5?loop=maybe", ["loop=maybe", "1 or 0"]),
        ("udp://1.2.3.4:5?ttl=1&ttl=2", ["'ttl'", "cannot both"]),
        ("udp://1.2.3.4:5?engine=dpdk", ["engine=dpdk", "auto, plain, mmsg, gro"]),
        ("udp://1.2.3.4:5?receive_buffer=1KiB", ["receive_buffer=1KiB", "4KiB to 1GiB"]),
        ("udp://1.2.3.4:5?receive_buffer=big", ["'big'", "64KiB"]),
        ("udp://1.2.3.4:5?source_ports=0", ["source_ports=0", "1 to 64"]),
        ("udp://1.2.3.4:5?nap=20ms", ["nap=20ms", "10ms"]),
        ("udp://1.2.3.4:5?nap=11ms", ["nap=11ms", "10ms"]),
        ("udp://1.2.3.4:5?nap=100", ["'100'", "8s"]),
        ("udp://1.2.3.4:5?interface=", ["interface=", "name"]),
        ("pcap:x?repeat=0", ["repeat=0", "from 1"]),
        ("pcap:x?speed=0", ["speed=0", "0.000001"]),
        ("pcap:x?speed=nan", ["speed=nan", "1000000"]),
        ("pcap:x?speed=2&flat-out", ["'flat-out'", "'speed'"]),
        ("pcap:x?flat_out", ["'flat_out' for pcap", "flat-out"]),
        ("pcap:x?port=0", ["port=0", "1 to 65535"]),
        ("pcap:x?ip=v6", ["ip=v6", "any, whole-v4 or plain-v4"]),
        ("pcap:", ["names no file", "pcap:"]),
        ("pcap:?preload", ["names no file", "pcap:"]),
    ] {
        let told = refusal(url);
        assert!(parts.iter().all(|p| told.contains(p)), "{told}");
    }
}

#[test]
fn a_range_of_ports_is_one_url_per_port_and_anything_else_itself() {
    for url in
        ["udp://[::1]:9000", "pcap:a-b:1-2", "udp://host-1:9000?spin", "udp://a-b", "nonsense"]
    {
        assert_eq!(each_port(url).unwrap(), [url]);
    }
    let all = each_port("udp://[::1]:9000-9002?spin=1").unwrap();
    let want = [9000, 9001, 9002].map(|p| format!("udp://[::1]:{p}?spin=1"));
    assert_eq!(all, want);
    for ports in ["9-8", "0-3", "1-65", "1-70000", "-3", "3-"] {
        let e = each_port(&format!("udp://0.0.0.0:{ports}")).unwrap_err();
        assert!(e.contains("FIRST-LAST"), "{ports}: {e}");
    }
    assert_eq!(each_port("udp://0.0.0.0:1-64").unwrap().len(), 64);
}

proptest! {
    #[test]
    fn no_text_panics(
        head in prop::sample::select(vec!["udp://", "udp:", "pcap:", "xdp://", "packet://", "", "tcp://"]),
        rest in "[ -~µ]{0,40}",
    ) {
        let _ = format!("{head}{rest}").parse::<Endpoint>();
    }

    #[test]
    fn printed_addresses_read_back(ip: [u8; 4], port: u16) {
        let addr = SocketAddr::from((ip, port));
        let url = UdpUrl::new(addr);
        prop_assert_eq!(url.to_string().parse(), Ok(Endpoint::Udp(url.clone())));
    }
}
