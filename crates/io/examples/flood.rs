//! Sends and receives numbered datagrams on one host, one core each, and prints rate and loss.
//!
//! `flood [--to URL] [--size N] [--rate 10Gbps] [--seconds S] [--slots N] [--cores RX,TX] [--times]`.
//! Without `--rate` flat out. The measuring bench behind the numbers in this crate's comments; the
//! verbs `send` and `receive` are the tools for users.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fullcount_io::endpoint::{Endpoint, UdpUrl};
use fullcount_io::pace::Pacer;
use fullcount_io::quantity::{Rate, count, duration};
use fullcount_io::source::{Received, Source};
use fullcount_io::sys;
use fullcount_io::udp::{Receive, ReceiveOptions, SendOptions, Transmit, UdpSender, UdpSource};

type Failure = Box<dyn Error + Send + Sync>;

struct Plan {
    url: UdpUrl,
    size: usize,
    rate: Option<Rate>,
    span: Duration,
    cores: Option<(usize, usize)>,
    options: ReceiveOptions,
    touch: bool,
}

fn plan() -> Result<Plan, Failure> {
    let mut plan = Plan {
        url: UdpUrl::new("127.0.0.1:0".parse()?),
        size: 1472,
        rate: None,
        span: Duration::from_secs(2),
        cores: None,
        options: ReceiveOptions::default(),
        touch: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let mut value = || args.next().ok_or(format!("{key} wants a value"));
        match key.as_str() {
            "--to" => match value()?.parse()? {
                Endpoint::Udp(url) => plan.url = url,
                other => return Err(format!("{other} is not udp").into()),
            },
            "--size" => plan.size = count(&value()?)? as usize,
            "--rate" => plan.rate = Some(value()?.parse()?),
            "--seconds" => plan.span = duration(&format!("{}s", value()?))?,
            "--slots" => plan.options.slots = Some(count(&value()?)? as usize),
            "--cores" => {
                let text = value()?;
                let (rx, tx) = text.split_once(',').ok_or("--cores RX,TX")?;
                plan.cores = Some((rx.parse()?, tx.parse()?));
            }
            "--times" => plan.options.timestamps = true,
            "--touch" => plan.touch = true,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(plan)
}

/// Receives until the sender has ended and nothing more comes; gives its processor time and the trains.
fn receive(
    plan: &Plan,
    source: &mut UdpSource,
    stop: &AtomicBool,
    sum: &AtomicU64,
) -> Result<(sys::CpuTime, u64), Failure> {
    if let Some((core, _)) = plan.cores {
        sys::pin_thread(core)?;
    }
    let mut batch = source.batch();
    let mut trains = 0u64;
    loop {
        match source.recv(&mut batch, Duration::from_millis(100))? {
            Received::Data => {
                trains += batch.trains().len() as u64;
                if plan.touch {
                    let firsts = batch.trains().flat_map(|t| t.chunks());
                    let n: u64 = firsts.map(|c| u64::from(*c.first().unwrap_or(&0))).sum();
                    sum.fetch_add(n, SeqCst);
                }
            }
            _ if stop.load(SeqCst) => break,
            _ => {}
        }
    }
    Ok((sys::thread_cpu_time()?, trains))
}

fn main() -> Result<(), Failure> {
    let plan = plan()?;
    let mut source = UdpSource::open(&plan.url, &plan.options)?;
    // Port 0: the system's choice, so that no other program's packets are counted.
    let to = UdpUrl { port: source.local_addr().port(), ..plan.url.clone() };
    let mut sender = UdpSender::open(&to, &SendOptions::default())?;
    for fact in source.describe().iter().chain(&sender.describe()) {
        eprintln!("{fact}");
    }
    let (received, sent) = (source.sheet(), sender.sheet());
    let stop = AtomicBool::new(false);
    let sum = AtomicU64::new(0);
    let began = Instant::now();
    let (rx, tx) = std::thread::scope(|scope| {
        let rx = scope.spawn(|| receive(&plan, &mut source, &stop, &sum));
        let tx = scope.spawn(|| -> Result<_, Failure> {
            if let Some((_, core)) = plan.cores {
                sys::pin_thread(core)?;
            }
            let mut pacer = match plan.rate {
                Some(rate) => Pacer::new(rate.packets_per_second(plan.size, None), plan.size)?,
                None => Pacer::flat_out(plan.size),
            };
            let buffer = vec![0x5A; pacer.train() as usize * plan.size.max(1)];
            let began = Instant::now();
            while began.elapsed() < plan.span {
                let n = pacer.wait(Duration::from_millis(100)) as usize;
                sender.send(&buffer[..n * plan.size], plan.size)?;
            }
            stop.store(true, SeqCst);
            Ok((sys::thread_cpu_time()?, began.elapsed(), pacer.given_up()))
        });
        let both = |e| -> Failure { format!("a thread panicked: {e:?}").into() };
        Ok::<_, Failure>((rx.join().map_err(both)??, tx.join().map_err(both)??))
    })?;
    let ((rx_cpu, trains), (tx_cpu, span, given_up)) = (rx, tx);
    let s = span.as_secs_f64();
    let out = sent.get(Transmit::Packets as usize);
    let got = received.get(Receive::Packets as usize);
    let gbps = |packets: u64| packets as f64 * plan.size as f64 * 8e-9 / s;
    let share = |ns: u64, of: f64| 100.0 * ns as f64 * 1e-9 / of;
    println!(
        "size {} sent {out} ({:.3} Gb/s, {:.3} Mpps) received {got} ({:.3} Gb/s) lost {} ({:.3} %)",
        plan.size,
        gbps(out),
        out as f64 * 1e-6 / s,
        gbps(got),
        out as i64 - got as i64,
        100.0 * (out as i64 - got as i64) as f64 / out.max(1) as f64,
    );
    let total = began.elapsed().as_secs_f64();
    println!(
        "  kernel drops {} peak {} MiB, {:.1} packets/train, {:.1} trains/call, given up {given_up}, \
         rx cpu user {:.0} % system {:.0} %, tx user {:.0} % system {:.0} % preempted {}/{}",
        received.get(Receive::KernelDrops as usize),
        received.get(Receive::BufferPeak as usize) >> 20,
        got as f64 / trains.max(1) as f64,
        trains as f64 / received.get(Receive::Calls as usize).max(1) as f64,
        share(rx_cpu.user_ns, total),
        share(rx_cpu.system_ns, total),
        share(tx_cpu.user_ns, s),
        share(tx_cpu.system_ns, s),
        rx_cpu.preempted,
        tx_cpu.preempted,
    );
    Ok(())
}
