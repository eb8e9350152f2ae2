//! Keys that stand together, their order, and what is refused.

use fullcount_spead::BugCompat;
use fullcount_spead::receive::{NumberSequence, PayloadCopy};

use super::*;

#[test]
fn keys_of_spead_and_of_the_transport_stand_together() {
    let url = SpeadUrl::<SpeadInput>::read(
        "spead+udp://239.1.2.3:8888?max_heaps=8&interface=10.0.0.1&item=packet&receive_buffer=8MiB",
    )
    .unwrap();
    assert_eq!(url.inner, "udp://239.1.2.3:8888?interface=10.0.0.1&receive_buffer=8MiB");
    assert_eq!(
        (url.told.config.max_heaps, url.told.item),
        (8, Some(ItemChoice::Name("packet".into())))
    );
    let url = SpeadUrl::<SpeadOutput>::read("spead+tcp://[::1]:8888?framing=heap&send_buffer=1MiB")
        .unwrap();
    assert_eq!(url.address.clone().unwrap().send_buffer, Some(1 << 20));
    assert_eq!(url.sender_config(0.0).cut.payload, PayloadSize::Heap);
    let url = SpeadUrl::<SpeadInput>::read("spead+pcap:a/b.pcapng?flat-out&compat=spead2").unwrap();
    assert_eq!((url.inner.as_str(), url.told.config.ring_heaps), ("pcap:a/b.pcapng?flat-out", 4));
}

#[test]
fn compat_may_stand_anywhere_and_memory_ring_and_numbers_can_be_set() {
    let read = |text| SpeadUrl::<SpeadInput>::read(text).unwrap().told;
    let told = read(
        "spead+udp://1.2.3.4:5?max_heaps=9&ring_heaps=7&sequence=3,2&packet_payload=1432B&compat=spead2&pyspead\
         &pool=12&pool_lower=1KiB&pool_upper=4MiB&pool_initial=8&pages_ahead=0",
    );
    let c = &told.config;
    assert_eq!((c.max_heaps, c.ring_heaps, c.allow_out_of_order), (9, 7, false));
    assert_eq!(c.sequence, Some(NumberSequence { first: 3, step: 2 }));
    assert_eq!((c.packet_payload, told.compat), (Some(1432), BugCompat::PYSPEAD));
    assert_eq!((told.pool, told.pool_range, told.pool_initial), (12, (1 << 10, 4 << 20), 8));
    assert_eq!(told.copies(), PayloadCopy::AtOnce);
    assert_eq!(SpeadInput::default().copies(), PayloadCopy::PagesAhead);
    let streaming = read("spead+udp://1.2.3.4:5?streaming=1&pages_ahead=1");
    assert_eq!(streaming.copies(), PayloadCopy::Streaming);
    let told = read("spead+udp://1.2.3.4:5?sequence=4");
    assert_eq!(told.config.sequence, Some(NumberSequence { first: 1, step: 4 }));
    let told = SpeadUrl::<SpeadOutput>::read("spead+tcp://1.2.3.4:5?bind=127.0.0.2&min_rate=8Mbps");
    let told = told.unwrap();
    assert_eq!(told.told.min_rate, Some(1e6));
    let local = |text: &str| {
        let read = SpeadUrl::<SpeadOutput>::read(text).unwrap().address.unwrap();
        assert_eq!(read.interface, None, "{text}");
        read.bind.unwrap().to_string()
    };
    for scheme in ["spead+tcp", "spead+udp"] {
        assert_eq!(local(&format!("{scheme}://1.2.3.4:5?bind=127.0.0.2")), "127.0.0.2");
        for ip in ["[2001:db8::7]", "2001:db8::7"] {
            assert_eq!(local(&format!("{scheme}://[::1]:5?bind={ip}")), "2001:db8::7");
        }
    }
}

#[test]
fn what_is_refused_is_named_with_what_is_allowed() {
    for (text, told) in [
        ("spead+udp://x", "port is missing"),
        ("spead+udp://1.2.3.4:5?size=1", "unknown key 'size' for spead+udp"),
        ("spead+udp://1.2.3.4:5?max_heaps=0", "max_heaps=0 is not allowed; 1 to 4096"),
        ("spead+udp://1.2.3.4:5?item=5", "item=5 is not allowed; an item id from 7"),
        ("spead+tcp://1.2.3.4:5?ttl=2", "unknown key 'ttl' for spead+tcp"),
        ("spead+tcp://1.2.3.4:5?framing=frames", "packets or heap"),
        ("spead+udp://1.2.3.4:5?sequence=1,0", "sequence=1,0 is not allowed; FIRST,STEP"),
        ("spead+udp://1.2.3.4:5?pool_upper=0B", "pool_upper=0B is not allowed; a size from 1B"),
        ("spead+smoke://x", "it does not begin with spead+ and a transport"),
    ] {
        let said = SpeadUrl::<SpeadInput>::read(text).unwrap_err().to_string();
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn compat_comes_first_wherever_it_stands() {
    let read = |keys: &str| {
        SpeadUrl::<SpeadInput>::read(&format!("spead+udp://127.0.0.1:8888?{keys}")).unwrap().told
    };
    for keys in ["max_heaps=8", "heap_timeout=2s", "stall_timeout=9s", "in_order=0", "incomplete"] {
        let (before, behind) =
            (read(&format!("{keys}&compat=spead2")), read(&format!("compat=spead2&{keys}")));
        assert_eq!(before, behind);
        assert_ne!(before, read("compat=spead2"), "{keys} counts");
    }
    assert_eq!(read("max_heaps=8&compat=spead2").config.max_heaps, 8);
}

#[test]
fn a_lost_stop_or_a_silent_sender_ends_a_stream_unless_the_url_says_otherwise() {
    for (url, ends) in [
        ("spead+udp://127.0.0.1:8888", true),
        ("spead+udp://127.0.0.1:8888?max_heaps=8", true),
        ("spead+xdp://eth0:8888", true),
        ("spead+udp://127.0.0.1:8888?stall_timeout=0s", false),
        ("spead+udp://127.0.0.1:8888?stall_timeout=1h", false),
        ("spead+udp://127.0.0.1:8888?compat=spead2", false),
        ("spead+udp://127.0.0.1:8888?ignore_stop", true),
        ("spead+tcp://127.0.0.1:8888", true),
        ("spead+tcp://127.0.0.1:8888?framing=heap", true),
        ("spead+tcp://127.0.0.1:8888?stall_timeout=0s", false),
        ("spead+tcp://127.0.0.1:8888?compat=spead2", false),
        ("spead+pcap:x.pcap", false),
    ] {
        let mut urls = [SpeadUrl::<SpeadInput>::read(url).unwrap()];
        let told = urls[0].told.config.clone();
        assert_eq!(end_when_stalled(&mut urls, Duration::from_secs(7)), ends, "{url}");
        let config = &urls[0].told.config;
        match ends {
            true => assert_eq!((config.stall_timeout_ns, config.stall_ends), (7_000_000_000, true)),
            false => assert_eq!(*config, told),
        }
    }
}

#[test]
fn a_source_counts_stalls_of_datagrams_and_goes_on_unless_the_url_says_otherwise() {
    for (url, counts) in [
        ("spead+udp://127.0.0.1:8888", true),
        ("spead+packet://eth0:8888", true),
        ("spead+udp://127.0.0.1:8888?stall_timeout=0s", false),
        ("spead+udp://127.0.0.1:8888?stall_timeout=9s", false),
        ("spead+udp://127.0.0.1:8888?compat=spead2", false),
        ("spead+tcp://127.0.0.1:8888", false),
    ] {
        let mut url = SpeadUrl::<SpeadInput>::read(url).unwrap();
        let told = url.told.config.clone();
        count_stalls(&mut url, Duration::from_secs(7));
        let config = &url.told.config;
        match counts {
            true => {
                assert_eq!((config.stall_timeout_ns, config.stall_ends), (7_000_000_000, false))
            }
            false => assert_eq!(*config, told),
        }
    }
}

#[test]
fn memory_of_all_heaps_is_at_least_that_of_the_longest() {
    let read = |keys: &str| {
        SpeadUrl::<SpeadInput>::read(&format!("spead+udp://127.0.0.1:8888?{keys}"))
            .map(|url| (url.told.config.max_heap_bytes, url.told.config.max_live_bytes))
            .map_err(|e| e.to_string())
    };
    assert_eq!(read("max_heaps=4"), Ok((1 << 30, 4 << 30)));
    assert_eq!(read("max_heap=8GiB"), Ok((8 << 30, 8 << 30)));
    assert_eq!(read("max_live=64MiB"), Ok((64 << 20, 64 << 20)));
    assert_eq!(read("max_live=64GiB"), Ok((1 << 30, 64 << 30)));
    for keys in ["max_live=2MiB&max_heap=1MiB", "max_heap=1MiB&max_live=2MiB"] {
        assert_eq!(read(keys), Ok((1 << 20, 2 << 20)), "{keys}");
    }
    for keys in ["max_live=1MiB&max_heap=2MiB", "max_heap=2MiB&max_live=1MiB"] {
        let said = read(keys).unwrap_err();
        assert!(said.contains("max_live") && said.contains("at least max_heap"), "{said}");
    }
}

/// What is said of several URLs of one stream.
fn agreed(urls: [&str; 2]) -> Result<(), String> {
    shared::agree(&urls.map(str::to_owned)).map_err(|e| e.to_string())
}

#[test]
fn keys_of_a_stream_are_those_of_its_first_url_and_another_value_is_refused() {
    for (first, second) in [
        ("spead+udp://1.2.3.4:5?max_heaps=8", "spead+tcp://1.2.3.4:6"),
        ("spead+udp://1.2.3.4:5?max_heaps=8", "spead+tcp://1.2.3.4:6?max_heaps=8"),
        ("spead+udp://1.2.3.4:5", "spead+tcp://1.2.3.4:6?max_heaps=4&max_heap=1GiB&pool=16"),
        ("spead+udp://1.2.3.4:5?compat=spead2", "spead+udp://1.2.3.4:6?ring_heaps=4&compat=spead2"),
        ("spead+udp://1.2.3.4:5?heap_timeout=2s", "spead+udp://1.2.3.4:6?heap_timeout=2000ms"),
        ("spead+udp://1.2.3.4:5?incomplete", "spead+udp://1.2.3.4:6?incomplete=1"),
        // Each endpoint has these for itself.
        (
            "spead+udp://1.2.3.4:5?senders=2&max_packet=1kB",
            "spead+tcp://1.2.3.4:6?senders=0&max_packet=2kB&framing=heap&low_water=0B&receive_buffer=1MiB",
        ),
        ("spead+udp://1.2.3.4:5", "spead+udp://1.2.3.4:6?sockets=2&interface=10.0.0.1"),
    ] {
        assert_eq!(agreed([first, second]), Ok(()), "{first} {second}");
    }
    for (first, second, key, there) in [
        ("?max_heaps=8", "max_heaps=4", "max_heaps = 4: ", "says max_heaps=8: "),
        ("", "max_heaps=8", "max_heaps = 8: ", "does not say it (default: 4)"),
        ("", "compat=spead2", "compat = spead2: ", "does not say it"),
        ("?compat=spead2", "ring_heaps=64", "ring_heaps = 64: ", "with compat=spead2: 4"),
        ("", "stall_timeout=0s", "stall_timeout = 0s: ", "does not say it"),
        ("?incomplete", "incomplete=0", "incomplete = 0: ", "says incomplete: "),
        ("", "ignore_stop", "ignore_stop = 1: ", "default: 0"),
        ("?max_heap=1MiB", "max_live=1KiB", "max_live = 1KiB: ", "does not say it"),
    ] {
        let (first, second) =
            (format!("spead+udp://1.2.3.4:5{first}"), format!("spead+udp://1.2.3.4:6?{second}"));
        let said = agreed([&first, &second]).unwrap_err();
        assert!(said.starts_with(key) && said.contains(there) && said.contains(&second), "{said}");
    }
}

/// A key of the stream or of one endpoint: none is forgotten.
#[test]
fn the_keys_of_one_endpoint_are_keys() {
    for name in shared::OF_ONE_ENDPOINT {
        assert!(SpeadInput::KEYS.iter().any(|key| key.name == name), "{name}");
    }
}
