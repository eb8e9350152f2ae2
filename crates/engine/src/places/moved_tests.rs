//! Which counters are told, on readings made by hand.

use super::*;
use fullcount_core::ledger::Place;
use fullcount_io::host::card::CardCounters;
use fullcount_io::host::snmp::UdpCounters;

fn reading() -> Reading {
    let card = |index, name: &str, kind: &str| Card {
        index,
        name: name.into(),
        kind: kind.into(),
        loopback: name == "lo",
        mtu: 1500,
        ..Card::default()
    };
    let queue = |interface, ingress, kind: &str| Qdisc {
        interface,
        ingress,
        kind: kind.into(),
        drops: u32::MAX - 1,
    };
    let cards =
        vec![card(1, "lo", ""), card(2, "eth0", ""), card(3, "eth1", ""), card(4, "ifb0", "ifb")];
    let queues = vec![
        queue(1, false, "tbf"),
        queue(2, false, "fq_codel"),
        queue(2, true, "clsact"),
        queue(3, true, "ingress"),
        queue(4, false, "tbf"),
    ];
    Reading {
        cards: Some(cards),
        qdiscs: Some(queues),
        softnet: Some(vec![(0, SoftnetBacklog::default()), (1, SoftnetBacklog::default())]),
        udp: Some(UdpCounters::default()),
        incomplete: Some(0),
    }
}

fn scope() -> Scope {
    Scope { interfaces: Some([1, 2].into()), fragments_wait: 32 }
}

fn told(own: Own, change: impl FnOnce(&mut Reading)) -> Vec<(HostWitness, u64, Option<String>)> {
    let mut after = reading();
    change(&mut after);
    let all = Movements::new(scope(), reading()).step(own, after);
    all.into_iter().map(|t| (t.moved.by, t.moved.times, t.of)).collect()
}

fn drops(drops: u64) -> Own {
    Own { drops, ..Own::default() }
}

fn udp(reading: &mut Reading) -> &mut UdpCounters {
    reading.udp.as_mut().unwrap()
}

fn counters(reading: &mut Reading, card: usize) -> &mut CardCounters {
    &mut reading.cards.as_mut().unwrap()[card].counters
}

#[test]
fn nothing_moves_of_itself() {
    assert_eq!(told(Own::default(), |_| ()), []);
}

#[test]
fn a_full_buffer_is_ours_only_if_our_socket_says_so() {
    let full = |r: &mut Reading| udp(r).receive_buffer_errors = 7;
    assert_eq!(told(drops(3), full), [(HostWitness::SocketFull, 3, None)]);
    assert_eq!(told(drops(0), full), [], "another program's");
    let memory = |r: &mut Reading| udp(r).memory_errors = 7;
    assert_eq!(told(drops(3), memory), [(HostWitness::SocketMemory, 3, None)]);
}

#[test]
fn a_wrong_checksum_moves_the_sockets_count_too_and_is_told_once() {
    let sums = |r: &mut Reading| udp(r).checksum_errors = 5;
    assert_eq!(told(drops(5), sums), [(HostWitness::Checksum, 5, None)]);
    // What the checksums cannot be was the buffer.
    let all = told(drops(9), sums);
    assert_eq!(all, [(HostWitness::SocketFull, 4, None), (HostWitness::Checksum, 5, None)]);
    // With a full buffer somewhere it may be either.
    let both = |r: &mut Reading| (udp(r).checksum_errors, udp(r).receive_buffer_errors) = (5, 2);
    let all = told(drops(5), both);
    assert_eq!(all, [(HostWitness::SocketFull, 2, None), (HostWitness::Checksum, 5, None)]);
}

#[test]
fn the_sockets_count_may_come_an_interval_later_and_no_more() {
    let mut m = Movements::new(scope(), reading());
    let mut now = reading();
    udp(&mut now).checksum_errors = 5;
    assert_eq!(m.step(drops(0), now.clone()).len(), 1, "the checksums");
    assert_eq!(m.step(drops(5), now.clone()), [], "they explain the socket's count");
    let told = m.step(drops(1), now);
    assert_eq!((told.len(), told[0].moved.by), (1, HostWitness::SocketFull));
}

#[test]
fn a_drop_of_the_backlog_is_not_the_cards_as_well() {
    let backlog = |r: &mut Reading| {
        r.softnet.as_mut().unwrap()[1].1.dropped = 6;
        counters(r, 1).dropped = 6;
    };
    assert_eq!(told(drops(0), backlog), [(HostWitness::Backlog, 6, Some("core 1".into()))]);
    let more = |r: &mut Reading| {
        r.softnet.as_mut().unwrap()[1].1.dropped = 6;
        counters(r, 1).dropped = 8;
    };
    let card = (HostWitness::CardDropped, 2, Some("eth0".to_owned()));
    assert_eq!(told(drops(0), more)[1], card);
    let squeezed = |r: &mut Reading| r.softnet.as_mut().unwrap()[1].1.squeezed = 6;
    assert_eq!(told(drops(0), squeezed), [], "nothing is lost by that");
}

#[test]
fn cards_speak_only_where_the_packets_come_in() {
    let told = told(drops(0), |r| {
        *counters(r, 1) =
            CardCounters { packets: 9, missed: 1, damaged: 2, ..CardCounters::default() };
        let other = CardCounters { packets: 9, dropped: 7, ..CardCounters::default() };
        *counters(r, 2) = CardCounters { missed: 7, damaged: 7, ..other };
    });
    let eth0 = || Some("eth0".to_owned());
    assert_eq!(told, [(HostWitness::Damaged, 2, eth0()), (HostWitness::Missed, 1, eth0())]);
}

#[test]
fn a_card_that_begins_anew_or_appears_says_nothing() {
    let mut before = reading();
    counters(&mut before, 1).missed = 100;
    let mut after = reading();
    counters(&mut after, 1).missed = 1;
    after.cards.as_mut().unwrap()[0].index = 77;
    assert_eq!(Movements::new(Scope::default(), before).step(drops(0), after), []);
}

#[test]
fn queues_speak_only_where_packets_pass_on_their_way_to_us() {
    let told = told(drops(0), |r| {
        // Past the end of the 32 bits.
        r.qdiscs.as_mut().unwrap().iter_mut().for_each(|q| q.drops = q.drops.wrapping_add(3));
    });
    let named: Vec<_> = told.into_iter().map(|(by, n, of)| (by, n, of.unwrap())).collect();
    let all = ["tbf on lo", "clsact on eth0", "tbf on ifb0"];
    assert_eq!(named, all.map(|of| (HostWitness::Qdisc, 3, of.to_owned())));
}

#[test]
fn fragments_concern_only_large_datagrams_and_wait_until_the_end() {
    let failed = |r: &mut Reading| {
        udp(r).reassembly_errors = 3;
        r.incomplete = Some(2);
    };
    assert_eq!(told(Own::default(), failed), []);
    let large = Own { fragments: true, ..Own::default() };
    assert_eq!(told(large, failed), [(HostWitness::Reassembly, 3, None)]);
    assert_eq!(told(Own { last: true, ..large }, failed), [(HostWitness::Reassembly, 5, None)]);
    let all = [(0, true), (1472, false), (1473, true)];
    assert!(all.iter().all(|&(size, may)| may_be_fragments(size) == may));
}

#[test]
fn a_host_that_tells_nothing_still_has_our_own_socket() {
    let mut m = Movements::new(Scope::default(), Reading::default());
    let told = m.step(drops(4), Reading::default());
    assert_eq!(told[0].moved, Moved { by: HostWitness::SocketFull, times: 4, back: BACK });
    assert_eq!(told[0].moved.by.place(), Some(Place::Socket));
}

#[test]
fn a_receiver_of_frames_tells_its_own_counts_and_not_the_kernels() {
    let frames = Some(Frames { damaged: 3, uncut: 2, fragments: 5 });
    let all = told(Own { drops: 7, frames, fragments: true, last: true }, |r| {
        // Other programs' datagrams, or copies.
        udp(r).checksum_errors = 9;
        udp(r).receive_buffer_errors = 9;
        udp(r).reassembly_errors = 9;
        r.incomplete = Some(4);
        udp(r).header_errors = 1;
        // Seven of eight drops of the interface were for want of our memory.
        counters(r, 1).dropped = 8;
    });
    let eth0 = Some("eth0".to_owned());
    assert_eq!(
        all,
        [
            (HostWitness::FrameMemory, 7, None),
            (HostWitness::FrameDamaged, 3, None),
            (HostWitness::FrameUncut, 2, None),
            (HostWitness::FrameFragments, 5, None),
            (HostWitness::IpHeader, 1, None),
            (HostWitness::CardDropped, 1, eth0),
        ]
    );
}

#[test]
fn packet_memory_that_is_told_later_than_the_interfaces_drops_still_explains_them() {
    let step = |m: &mut Movements, own: u64, total: u64, last: bool| {
        let mut after = reading();
        counters(&mut after, 1).dropped = total;
        let frames = Some(Frames::default());
        let all = m.step(Own { drops: own, frames, fragments: false, last }, after);
        all.into_iter().map(|t| (t.moved.by, t.moved.times)).collect::<Vec<_>>()
    };
    let mut m = Movements::new(scope(), reading());
    assert_eq!(step(&mut m, 60, 100, false), [(HostWitness::FrameMemory, 60)], "40 are left");
    // 40 of before and 960 of 1000 now.
    assert_eq!(step(&mut m, 1000, 1100, false), [(HostWitness::FrameMemory, 1000)], "40 are left");
    // One of them was for want of memory; the others were dropped by the interface itself.
    let both = [(HostWitness::FrameMemory, 1), (HostWitness::CardDropped, 39)];
    assert_eq!(step(&mut m, 1, 1102, false), both, "2 are left");
    assert_eq!(
        step(&mut m, 0, 1105, true),
        [(HostWitness::CardDropped, 5)],
        "nothing waits any more"
    );
}
