//! The back-channel of heaps over real sockets: lost packets again, totals, a rate that follows the receiver's reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_core::destination::Destinations;
use fullcount_core::sim::{Amount, Fault, Spec};
use fullcount_io::endpoint::UdpUrl;
use fullcount_io::fault::FaultSource;
use fullcount_io::spead::{
    BackChannel, HeapsJob, SenderSide, SpeadInput, SpeadIntake, SpeadOutlet, SpeadOutput, SpeadUrl,
    carry,
};
use fullcount_io::udp::{ReceiveOptions, UdpSource};
use fullcount_spead::feedback::{RateReason, TunerConfig, TunerDecision};
use fullcount_spead::receive::{SpeadCounter, StreamEnd};
use fullcount_spead::send::SenderConfig;

use crate::spead::{PATIENCE, any, good, output, receive, udp};

#[test]
fn lost_packets_are_sent_again_and_the_sender_says_what_it_sent() {
    let back = SenderSide::listen(any(), None).unwrap();
    let to = back.local_addr().unwrap();
    let fault = Spec { drop: Amount::Share(0.02), seed: 5, ..Spec::default() };
    let source = UdpSource::open(&UdpUrl::new(any()), &ReceiveOptions::default()).unwrap();
    let at = source.local_addr();
    let mut told = SpeadInput::default();
    told.config.max_heaps = 64;
    told.config.heap_timeout_ns = PATIENCE.as_nanos() as u64;
    let mut intake = SpeadIntake::new(&told).unwrap();
    intake.add_source(Box::new(FaultSource::new(Box::new(source), Fault::new(fault).unwrap())));
    intake.report_to(BackChannel::to(to, true).unwrap());
    let job = HeapsJob {
        heap_size: 200_000,
        heaps: Some(20),
        verify: true,
        // The stop comes when the receiver has all.
        linger: PATIENCE,
        ..HeapsJob::default()
    };
    let sent = std::thread::spawn({
        let job = job.clone();
        move || {
            let config = SpeadUrl::<SpeadOutput>::read("spead+udp://127.0.0.1:1?burst=8KiB")
                .unwrap()
                .sender_config(40e6);
            let config = SenderConfig { keep_bytes: 64 << 20, ..config };
            let mut outlet = SpeadOutlet::udp(config, &[&UdpUrl::new(at)]).unwrap();
            outlet.listen_to(back);
            job.run(&mut outlet, &|| false, &|_| {}).unwrap();
            outlet.sender().counts()
        }
    });
    let (why, all) = receive(&mut intake);
    assert_eq!((why, good(all, &job)), (StreamEnd::StopItem, 20));
    assert_eq!(intake.stream().losses().heaps, Some(0));
    assert!(sent.join().unwrap().resent_packets > 20);
}

#[test]
fn heaps_of_which_no_packet_came_are_counted_when_the_stop_ends_the_stream() {
    let back = SenderSide::listen(any(), None).unwrap();
    let to = back.local_addr().unwrap();
    // Heaps of one packet: of twenty of them some are lost whole.
    let fault = Spec { drop: Amount::Share(0.3), seed: 5, ..Spec::default() };
    let source = UdpSource::open(&UdpUrl::new(any()), &ReceiveOptions::default()).unwrap();
    let at = source.local_addr();
    let told = SpeadInput::default();
    let mut intake = SpeadIntake::new(&told).unwrap();
    intake.add_source(Box::new(FaultSource::new(Box::new(source), Fault::new(fault).unwrap())));
    intake.report_to(BackChannel::to(to, true).unwrap());
    let job = HeapsJob { heap_size: 400, heaps: Some(20), ..HeapsJob::default() };
    let sent = std::thread::spawn(move || {
        let url = SpeadUrl::<SpeadOutput>::read("spead+udp://127.0.0.1:1").unwrap();
        let mut outlet = SpeadOutlet::udp(url.sender_config(0.0), &[&UdpUrl::new(at)]).unwrap();
        outlet.listen_to(back);
        let sent = job.run(&mut outlet, &|| false, &|_| {}).unwrap();
        // A stop heap that is lost too comes again here.
        let stop = || fullcount_spead::send::OutHeap::stop(job.flavour);
        for _ in 0..20 {
            outlet.sender().send(stop(), Default::default()).unwrap();
            outlet.finish().unwrap();
        }
        sent.heaps
    });
    let (why, all) = receive(&mut intake);
    assert_eq!((why, sent.join().unwrap()), (StreamEnd::StopItem, 20));
    // The first has a packet more, for its descriptor: it may have come in part.
    let ended = intake.stream().statistics().heaps;
    assert!((5..20).contains(&ended) && all.len() as u64 <= ended, "{ended}");
    assert_eq!(intake.stream().losses().heaps, Some(20 - ended));
    assert_eq!(intake.sheet().get(SpeadCounter::LostHeaps as usize), 20 - ended);
}

#[test]
fn totals_of_one_of_several_senders_say_nothing() {
    let back = SenderSide::listen(any(), None).unwrap();
    let to = back.local_addr().unwrap();
    let mut told = SpeadInput::default();
    (told.config.stops, told.config.readers) = (2, 2);
    let (mut intake, at) = udp(&told);
    intake.report_to(BackChannel::to(to, false).unwrap());
    // How often the sender has said its totals to somebody.
    let told = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let (say, over) = (told.clone(), done.clone());
    let sent = std::thread::spawn(move || {
        let config =
            SpeadUrl::<SpeadOutput>::read("spead+udp://127.0.0.1:1").unwrap().sender_config(0.0);
        let mut outlet = SpeadOutlet::udp(config, &[&UdpUrl::new(at)]).unwrap();
        outlet.listen_to(back);
        let job = HeapsJob { heap_size: 5000, heaps: Some(5), ..HeapsJob::default() };
        job.run(&mut outlet, &|| false, &|_| {}).unwrap();
        while !over.load(Relaxed) {
            outlet.settle(Duration::from_millis(20), &|| false).unwrap();
            say.fetch_add(u64::from(outlet.back().unwrap().counts().reports > 0), Relaxed);
        }
    });
    let (mut all, begun) = (vec![], Instant::now());
    while told.load(Relaxed) < 3 {
        intake.step(Duration::from_millis(5), &mut |heap, _| all.push(heap)).unwrap();
        assert!(begun.elapsed() < PATIENCE, "the totals have nowhere to go");
    }
    // They lie in its socket; a step in which nothing came reads them.
    for _ in 0..20 {
        intake.step(Duration::from_millis(5), &mut |heap, _| all.push(heap)).unwrap();
    }
    done.store(true, Relaxed);
    sent.join().unwrap();
    assert_eq!((all.len(), intake.stream().losses().heaps), (5, None));
}

#[test]
fn a_back_channel_has_one_receiver_and_heaps_of_its_own() {
    let mut destinations = Destinations::default();
    fullcount_io::source::register_destinations(&mut destinations);
    let url = "spead+udp://127.0.0.1:1?feedback=127.0.0.1:0".to_owned();
    let said = destinations.plan(&url).err().unwrap().to_string();
    assert!(said.contains("no back-channel") && said.contains("--source heaps"), "{said}");
    let other = "spead+udp://127.0.0.1:2".to_owned();
    assert_eq!(carry::plan_all(std::slice::from_ref(&url)).unwrap().len(), 1);
    assert_eq!(carry::plan_all(&[other.clone(), other.clone()]).unwrap().len(), 2);
    for urls in [[url.clone(), other.clone()], [other, url]] {
        let said = carry::plan_all(&urls).unwrap_err().to_string();
        assert!(said.contains("one destination only"), "{said}");
        let opened = SpeadOutlet::open(&urls.map(|url| output(&url)), 0.0);
        assert!(opened.unwrap_err().to_string().contains("one destination only"));
    }
}

/// A host that holds the sender back, or the receiver up, is found out by the tuner, again and again as it tries: then the rate need not
/// rise here, and the tests with a clock moved by hand say that it would. One such decision alone excuses nothing.
#[test]
fn a_tuned_rate_rises_by_the_receivers_reports() {
    let tune = TunerConfig { max_rate: 200e6, start_rate: 2e6, ..TunerConfig::default() };
    let back = SenderSide::listen(any(), Some(tune)).unwrap();
    let to = back.local_addr().unwrap();
    let (mut intake, at) = udp(&SpeadInput::default());
    intake.report_to(BackChannel::to(to, false).unwrap());
    let sent = std::thread::spawn(move || {
        let config =
            SpeadUrl::<SpeadOutput>::read("spead+udp://127.0.0.1:1").unwrap().sender_config(0.0);
        let mut outlet = SpeadOutlet::udp(config, &[&UdpUrl::new(at)]).unwrap();
        outlet.listen_to(back);
        // A second at the first rate.
        let job = HeapsJob { heap_size: 20_000, heaps: Some(100), ..HeapsJob::default() };
        let (mut first, begun) = (1, Instant::now());
        loop {
            let log: Vec<_> = outlet.back().unwrap().log().copied().collect();
            let most = log.iter().map(|decision| decision.to).fold(0.0, f64::max);
            let over = most > 4e6 || begun.elapsed() > Duration::from_secs(20);
            let job = HeapsJob { numbers: (first, 1), stop: over, ..job.clone() };
            job.run(&mut outlet, &|| false, &|_| {}).unwrap();
            first += 100;
            if over {
                return (most, log);
            }
        }
    });
    receive(&mut intake);
    let (most, log) = sent.join().unwrap();
    let busy = |decision: &TunerDecision| {
        matches!(decision.why, RateReason::HeldBack | RateReason::Lagging)
    };
    let excused = log.iter().filter(|decision| busy(decision)).count() >= 3;
    assert!(most > 4e6 || excused, "at most {most} B/s: {log:?}");
    assert_eq!(log.first().map(|decision| decision.from), Some(2e6), "{log:?}");
    for pair in log.windows(2) {
        assert!(pair[0].to == pair[1].from && pair[0].time_ns <= pair[1].time_ns, "{pair:?}");
    }
    for decision in &log {
        let faster = matches!(decision.why, RateReason::Good | RateReason::Probing);
        assert_eq!(decision.to > decision.from, faster, "{decision:?}");
    }
}
