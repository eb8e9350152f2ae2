//! The live page with synthetic neutrons: no detector, no network except the page itself.
//!
//! `cargo run -p fullcount-web --example page -- [ADDRESS [SECONDS [lossy] [flat|deep|blades|stack|strips]]]`, by
//! default a flat panel on `127.0.0.1:8080` for 60 s. `lossy` adds lost packets, so that the ledger has
//! something to say; `deep` shows a detector with layers, `blades` and `stack`
//! one of cassettes, `strips` one with tracks.
//! The browser check (`tests/browser.rs`) looks at this page. Source: `docs/architecture.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::ledger::{Entries, Ledger, Sheet};
use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::time::PulseTime;
use fullcount_web::server::{DEFAULT_ADDRESS, PageServer};
use fullcount_web::{Facts, LiveOptions, SinkFacts, StatusSource, live};

#[path = "made/detectors.rs"]
pub mod detectors;

use detectors::{Dice, Made};

/// Events in a packet.
const PER_PACKET: u64 = 250;

fullcount_core::counters! {
    /// The counters that a real run would have.
    enum Line {
        Packets "receive.packets" Packets Sum "receive" In "datagrams received" "";
        Taken "receive.accepted" Packets Sum "receive" Accepted "datagrams handed to the decoder" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
        Lost "receive.lost.socket" Packets Sum "receive" Missing(Socket)
            "packets missing by number while the socket buffer overflowed"
            "raise net.core.rmem_max and source.receive_buffer, or give the receiver a core of its own";
        Decoded "decode.packets" Packets Sum "decode" In "packets decoded" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "packets with readouts" "";
        BadSize "decode.bad_size" Packets Sum "decode" Rejected
            "packets whose length does not fit their header"
            "check the sender's firmware version and that nothing else sends to this port";
        Reordered "decode.reordered" Packets Sum "decode" Reordered
            "packets that were overtaken by another"
            "nothing, if they are few; many point at several network paths between the hosts";
        Readouts "readouts.count" Readouts Sum "geometry" In "readouts seen" "";
        Made "geometry.events" Readouts Sum "geometry" Accepted "readouts that became events" "";
        Geometry "events.geometry_errors" Readouts Sum "geometry" Rejected
            "readouts of a channel that the geometry does not have"
            "compare detector.geometry with the modules that are plugged in";
        Events "events.count" Events Sum "events" Accepted "events made" "";
    }
}

struct Status {
    ledger: Ledger,
    started: u64,
    lossy: bool,
    made: Made,
}

impl StatusSource for Status {
    fn entries(&self) -> Entries {
        self.ledger.read()
    }

    fn facts(&self) -> Facts {
        let events = self.entries().get("events.count").unwrap_or(0);
        let sink = |name: &str, required, queued, dropped_events| SinkFacts {
            name: name.to_owned(),
            required,
            queued,
            capacity: 64,
            dropped_events,
            events: events - dropped_events,
        };
        let dropped = if self.lossy { events / 50 } else { 0 };
        Facts {
            title: "Small-angle scattering, made up".to_owned(),
            source: vec!["udp://0.0.0.0:9000, buffer 64 MiB".to_owned()],
            detector: self.made.words().to_owned(),
            outputs: vec!["run.nxs".to_owned()],
            started: self.started,
            sinks: vec![sink("nexus", true, 3, 0), sink("live", false, 12, dropped)],
            running: true,
            ..Facts::default()
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let addr = words.next().unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()).parse()?;
    let seconds = words.next().map_or(Ok(60), |s| s.parse())?;
    let words: Vec<String> = words.collect();
    let made = words.iter().find_map(|w| Made::named(w)).unwrap_or(Made::Flat);
    show(addr, seconds, words.iter().any(|w| w == "lossy"), made)
}

/// Serves the page of the detector `made` on `addr` for `seconds` and prints its address.
pub fn show(
    addr: SocketAddr,
    seconds: u64,
    lossy: bool,
    made: Made,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut sink, view) = live(made.plots(), made.pixels(), LiveOptions::default())?;

    let sheet = Sheet::new(Line::catalogue());
    let ledger = Ledger::default();
    ledger.register(sheet.clone());
    ledger.register(sink.sheet());
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let status = Arc::new(Status { ledger, started: since.as_millis() as u64, lossy, made });
    let server = PageServer::start(addr, Some(view), status)?;
    println!("{}", server.url());

    // The same events again and again, shifted a little, so that the example needs no fast dice.
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let batches: Vec<Arc<Products>> = (0..80)
        .map(|k| {
            let mut products = Products::default();
            products.events.open_pulse(PulseTime(k));
            for _ in 0..20 * PER_PACKET {
                let (offset, pixel) = made.neutron(&mut dice);
                products.events.push(offset, pixel);
            }
            made.clusters(k, &mut products);
            Arc::new(products)
        })
        .collect();
    let start = Instant::now();
    let mut k = 0u64;
    while start.elapsed() < Duration::from_secs(seconds) {
        let products = &batches[k as usize % batches.len()];
        let (packets, events) = (20, products.events.len() as u64);
        for line in [Line::Packets, Line::Taken, Line::Decoded] {
            sheet.add(line as usize, packets);
        }
        let bad = u64::from(lossy && k % 400 == 7);
        sheet.add(Line::BadSize as usize, bad);
        sheet.add(Line::Accepted as usize, packets - bad);
        sheet.add(Line::Bytes as usize, packets * 1500);
        sheet.add(Line::Readouts as usize, events);
        sheet.add(Line::Made as usize, events);
        sheet.add(Line::Events as usize, events);
        if lossy && k % 300 == 150 {
            sheet.add(Line::Lost as usize, 17);
            sheet.add(Line::Reordered as usize, 2);
        }
        sink.push(products)?;
        sink.tick(start.elapsed())?;
        k += 1;
        // About a million events a second.
        let due = Duration::from_millis(5) * k as u32;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    sink.finish()?;
    server.stop();
    Ok(())
}
