//! Receive engines side by side on one host: the same traffic to each in turn, medians of several rounds.
//!
//! `engines [--engines gro,mmsg,uring,gro+100us] [--sizes 64,1472,8972] [--sends gro|mmsg|plain] [--rate 200kpps] [--seconds S] [--repeats N] [--cores RX,TX] [--spin]`.
//! Without `--rate` flat out. `--sends mmsg` gives the receiver one datagram a train, as a network without segmentation
//! offload does. The command behind `docs/decisions/0007-io-uring.md`.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use fullcount_io::endpoint::{Endpoint, Engine, UdpUrl};
use fullcount_io::pace::Pacer;
use fullcount_io::quantity::{Rate, count, duration};
use fullcount_io::source::{Received, Source};
use fullcount_io::sys;
use fullcount_io::udp::{Receive, ReceiveOptions, SendOptions, UdpSender, UdpSource};

type Failure = Box<dyn Error + Send + Sync>;

struct Plan {
    engines: Vec<(Engine, Option<Duration>)>,
    sizes: Vec<usize>,
    sends: Engine,
    rate: Option<Rate>,
    span: Duration,
    repeats: usize,
    cores: Option<(usize, usize)>,
    spin: bool,
}

/// One run: everything per second or per packet received.
struct Run {
    mpps: f64,
    lost: f64,
    ns: f64,
    calls: f64,
    trains_a_call: f64,
}

fn engine(name: &str) -> Result<Engine, Failure> {
    match format!("udp://127.0.0.1:0?engine={name}").parse()? {
        Endpoint::Udp(url) => Ok(url.engine),
        other => Err(format!("{other} is not udp").into()),
    }
}

/// An engine, or `ENGINE+TIME` for one that naps so long (0: never).
fn way(text: &str) -> Result<(Engine, Option<Duration>), Failure> {
    let (name, nap) = text.split_once('+').map_or((text, None), |(n, g)| (n, Some(g)));
    Ok((engine(name)?, nap.map(duration).transpose()?))
}

fn plan() -> Result<Plan, Failure> {
    let mut plan = Plan {
        engines: vec![(Engine::Gro, None), (Engine::Mmsg, None), (Engine::Uring, None)],
        sizes: vec![64, 1472, 8972],
        sends: Engine::Gro,
        rate: None,
        span: Duration::from_secs(2),
        repeats: 5,
        cores: None,
        spin: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let mut value = || args.next().ok_or(format!("{key} wants a value"));
        match key.as_str() {
            "--engines" => {
                plan.engines = value()?.split(',').map(way).collect::<Result<_, _>>()?;
            }
            "--sizes" => {
                let size = |s: &str| Ok::<_, Failure>(count(s)? as usize);
                plan.sizes = value()?.split(',').map(size).collect::<Result<_, _>>()?;
            }
            "--sends" => plan.sends = engine(&value()?)?,
            "--rate" => plan.rate = Some(value()?.parse()?),
            "--seconds" => plan.span = duration(&format!("{}s", value()?))?,
            "--repeats" => plan.repeats = count(&value()?)?.max(1) as usize,
            "--cores" => {
                let text = value()?;
                let (rx, tx) = text.split_once(',').ok_or("--cores RX,TX")?;
                plan.cores = Some((rx.parse()?, tx.parse()?));
            }
            "--spin" => plan.spin = true,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(plan)
}

fn run(
    plan: &Plan,
    (engine, nap): (Engine, Option<Duration>),
    size: usize,
) -> Result<Run, Failure> {
    let any = UdpUrl::new("127.0.0.1:0".parse()?);
    let any = UdpUrl { engine, spin: plan.spin, nap, ..any };
    let mut source = UdpSource::open(&any, &ReceiveOptions::default())?;
    let to = UdpUrl { engine: plan.sends, ..UdpUrl::new(source.local_addr()) };
    let mut sender = UdpSender::open(&to, &SendOptions::default())?;
    let sheet = source.sheet();
    let stop = AtomicBool::new(false);
    let (cpu, trains, sent, span) = std::thread::scope(|scope| {
        let rx = scope.spawn(|| -> Result<_, Failure> {
            if let Some((core, _)) = plan.cores {
                sys::pin_thread(core)?;
            }
            let (mut batch, mut trains) = (source.batch(), 0u64);
            loop {
                match source.recv(&mut batch, Duration::from_millis(100))? {
                    Received::Data => trains += batch.trains().len() as u64,
                    _ if stop.load(SeqCst) => break,
                    _ => {}
                }
            }
            let cpu = sys::thread_cpu_time()?;
            Ok((cpu.user_ns + cpu.system_ns, trains))
        });
        let tx = scope.spawn(|| -> Result<_, Failure> {
            if let Some((_, core)) = plan.cores {
                sys::pin_thread(core)?;
            }
            let mut pacer = match plan.rate {
                Some(rate) => Pacer::new(rate.packets_per_second(size, None), size)?,
                None => Pacer::flat_out(size),
            };
            let buffer = vec![0x5A; pacer.train() as usize * size.max(1)];
            let began = std::time::Instant::now();
            while began.elapsed() < plan.span {
                let n = pacer.wait(Duration::from_millis(100)) as usize;
                sender.send(&buffer[..n * size], size)?;
            }
            stop.store(true, SeqCst);
            Ok((sender.packets(), began.elapsed().as_secs_f64()))
        });
        let both = |e| -> Failure { format!("a thread panicked: {e:?}").into() };
        let (sent, span) = tx.join().map_err(both)??;
        let (cpu, trains) = rx.join().map_err(both)??;
        Ok::<_, Failure>((cpu, trains, sent, span))
    })?;
    let of = |counter: Receive| sheet.get(counter as usize) as f64;
    let got = of(Receive::Packets).max(1.0);
    Ok(Run {
        mpps: got * 1e-6 / span,
        lost: 100.0 * (sent as f64 - of(Receive::Packets)) / sent.max(1) as f64,
        ns: cpu as f64 / got,
        calls: of(Receive::SystemCalls) / got,
        trains_a_call: trains as f64 / of(Receive::Calls).max(1.0),
    })
}

/// Median, smallest and largest.
fn spread(runs: &[Run], what: impl Fn(&Run) -> f64) -> (f64, f64, f64) {
    let mut all: Vec<f64> = runs.iter().map(what).collect();
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0], all[all.len() - 1])
}

fn main() -> Result<(), Failure> {
    let plan = plan()?;
    println!(
        "| size, B | engine | received, Mpps (least–most) | Gb/s | lost, % | receiver's CPU, ns a packet (least–most) \
         | system calls a packet | trains a call |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for &size in &plan.sizes {
        let mut runs: Vec<Vec<Run>> = plan.engines.iter().map(|_| Vec::new()).collect();
        for _ in 0..plan.repeats {
            for (engine, runs) in plan.engines.iter().zip(&mut runs) {
                runs.push(run(&plan, *engine, size)?);
            }
        }
        for ((engine, nap), runs) in plan.engines.iter().zip(&runs) {
            let name = engine.name();
            let name = nap.map_or(name.into(), |g| format!("{name}, nap={g:?}"));
            let (mpps, least, most) = spread(runs, |r| r.mpps);
            let (ns, ns_least, ns_most) = spread(runs, |r| r.ns);
            println!(
                "| {size} | {name} | {mpps:.3} ({least:.3}–{most:.3}) | {:.2} | {:.2} | \
                 {ns:.0} ({ns_least:.0}–{ns_most:.0}) | {:.4} | {:.1} |",
                mpps * size as f64 * 8e-3,
                spread(runs, |r| r.lost).0,
                spread(runs, |r| r.calls).0,
                spread(runs, |r| r.trains_a_call).0,
            );
        }
    }
    Ok(())
}
