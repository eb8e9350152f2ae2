//! Any bytes as what a sender of the simplified TCP is told: segments, frames, calls, time. No panic, nothing sent beyond the
//! window, nothing freed that was not sent, offsets in order, never a FIN.
//!
//! The first byte chooses settings; then come steps: what, and eight bytes of it.
#![no_main]

use fullcount_stcp::sender::Purpose;
use fullcount_stcp::settings::{Coalescing, PeerPolicy, Resend};
use fullcount_stcp::wire::icmp::IcmpKind;
use fullcount_stcp::wire::{ChecksumTrust, Inbound, Packet, TcpFlags, arp, parse};
use fullcount_stcp::{
    Borrowed, FragmentMark, StcpCounters, StcpSender, StcpSettings, StcpState, Strategy,
};
use libfuzzer_sys::fuzz_target;

const ISS: u32 = 0xffff_f000;

fn settings(choice: u8) -> StcpSettings {
    let policy = if choice & 1 == 0 { PeerPolicy::Abort } else { PeerPolicy::Tolerate };
    let strategies =
        [Strategy::SIMPLIFIED, Strategy::Free, Strategy::Reno, Strategy::Static { cwnd: 3000 }];
    StcpSettings {
        mtu: if choice & 2 == 0 { 9000 } else { 576 },
        on_fin: policy,
        on_data: policy,
        resend: if choice & 4 == 0 { Resend::GoBackN } else { Resend::First },
        coalescing: if choice & 8 == 0 { Coalescing::Nagle } else { Coalescing::Within(500) },
        strategy: strategies[usize::from(choice >> 4 & 3)],
        ..StcpSettings::daq()
    }
}

fn segment(w: [u8; 8], una: u32, ack: u32) -> Inbound {
    Inbound {
        // Near what fits, and anywhere.
        seq: 1000u32.wrapping_add((i32::from(w[0] as i8) << (w[1] % 24)) as u32),
        ack: una.wrapping_add(ack),
        flags: TcpFlags(w[2]),
        window: u16::from_be_bytes([w[3], w[4]]),
        length: u32::from(w[5] % 4) * 700,
        mss: (w[6] > 100).then_some(u16::from(w[6]) * 50),
        scale: (w[7] > 100).then_some(w[7] % 20),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else { return };
    let (mut ring, mut marks) = ([0u8; 8192], [FragmentMark::default(); 5]);
    let mut counters = StcpCounters::default();
    let memory = Borrowed::new(&mut ring, &mut marks, &mut counters, None);
    let mut sender = StcpSender::new(settings(choice), memory).expect("these can be");
    let mut now = 0u64;
    let _ = sender.open(now, ISS, true);
    while let Some((step, behind)) = rest.split_first_chunk::<9>() {
        let &[what, w @ ..] = step;
        rest = behind;
        let number = u64::from_be_bytes(w);
        let before = sender.snapshot();
        let una = ISS.wrapping_add(1).wrapping_add(before.una as u32);
        match what % 12 {
            0..3 => {
                let flight = (before.max - before.una) as u32 + 2;
                sender.receive(now, &segment(w, una, number as u32 % flight));
            }
            3 => sender.receive(now, &segment(w, una, number as u32)),
            4 => drop(sender.submit(now, &[what; 3000][..usize::from(w[0]) * 11])),
            5 => sender.flush(),
            6 => now += number % 3_000_000_000,
            7 => now = now.max(sender.deadline().unwrap_or(0)),
            8 => sender.icmp(now, IcmpKind::TooBig(u16::from(w[0]) * 40), una),
            9 => {
                let length = usize::from(w[0]).min(rest.len());
                let _ = arp::read(&rest[..length]);
                match parse(&rest[..length], [w[1]; 4], ChecksumTrust::Partial) {
                    Ok(Packet::Tcp { segment, .. }) => sender.receive(now, &segment),
                    Ok(Packet::Icmp { .. }) => {}
                    Err(e) => sender.refused(e),
                }
            }
            10 if w[0] == 0 => sender.abort(now),
            _ => drop(sender.open(now, number as u32, w[0] > 9)),
        }
        let after = sender.snapshot();
        if after.state == StcpState::Established && before.state == StcpState::Established {
            assert!(after.una <= before.max || before.end == 0, "{before:?} {after:?}");
        }
        for _ in 0..100 {
            let Some(o) = sender.poll(now, u32::from(w[7]) * 200) else { break };
            let s = sender.snapshot();
            assert!(s.una <= s.nxt && s.nxt <= s.max && s.max <= s.end, "{s:?}");
            assert!(!o.flags.has(TcpFlags::FIN));
            if o.purpose == Purpose::Data {
                assert!(o.offset + u64::from(o.length) <= s.una + s.window, "{o:?} {s:?}");
            }
        }
        while sender.notice().is_some() {}
        assert!(sender.used() <= 8192);
    }
});
