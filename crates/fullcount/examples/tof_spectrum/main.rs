//! Live reduction by several: a time-of-flight spectrum of the events on a topic, made by the members of a consumer group.
//!
//! `cargo run --example tof_spectrum -- --help`. Members share the partitions of the event topic; each counts what it
//! reads and publishes a spectrum for each of its partitions, together with the offset up to which it has counted. Only then
//! does it commit that offset. So a member may come, go or be killed at any time: whoever takes over a partition goes on
//! from its published spectrum, and no event is counted twice or not at all. `--total` adds the partitions up.
//!
//! Refuses wrong options (exit code 2) before anything is opened. How it works, and the same in Python: `docs/scale.md`.

mod board;
mod spectrum;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::Parser;
use fullcount_engine::stop::Stop;
use fullcount_io::quantity;
use fullcount_kafka::{Consumer, ConsumerOptions, KafkaSettings, Polled, check_brokers};

use board::{Board, Share};
use spectrum::{Bins, Spectrum};

/// Makes a time-of-flight spectrum of the events (ev44, ev42) on a topic, as a member of a group
#[derive(Debug, Parser)]
#[command(name = "tof_spectrum", after_help = EXAMPLES)]
struct Flags {
    /// Kafka brokers: HOST[:PORT], several with commas between them
    #[arg(long, value_name = "HOSTS", default_value = "localhost:9092")]
    brokers: String,
    /// Topic with the events
    #[arg(long, value_name = "TOPIC")]
    events: String,
    /// Only events of this source [default: of all]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Topic for spectra (da00) [default: that of the events with _tof behind it]
    #[arg(long, value_name = "TOPIC")]
    spectra: Option<String>,
    /// Source name of the sum; a partition's spectrum has /PARTITION behind it
    #[arg(long, value_name = "NAME", default_value = "tof_spectrum")]
    name: String,
    /// Consumer group whose members share the partitions of the events
    #[arg(long, value_name = "NAME", default_value = "tof-spectrum")]
    group: String,
    /// Time since the pulse at which the first bin begins
    #[arg(long, value_name = "TIME", default_value = "0s")]
    from: String,
    /// Width of a bin, whole nanoseconds
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    width: String,
    /// Bins, 1 to 1,000,000
    #[arg(long, value_name = "N", default_value_t = 100)]
    bins: usize,
    /// Time between two publications
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: String,
    /// Count nothing: add up what the members have published, and publish the sum
    #[arg(long)]
    total: bool,
    /// End when all events that are on the topic now have been counted, by whichever member
    #[arg(long)]
    until_end: bool,
    /// librdkafka's own setting, e.g. session.timeout.ms=6000; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    kafka_set: Vec<String>,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Start as many members as there are partitions, on any hosts. Ctrl-C ends a member and prints what
it has counted itself; --total prints the sum of all.

Examples:
  tof_spectrum --brokers kafka1 --events d22_detector --width 500us --bins 200
  tof_spectrum --brokers kafka1 --events d22_detector --width 500us --bins 200 --total
  tof_spectrum --events d22_detector --total --until-end --json

Exit codes: 0 ended as told; 1 failed; 2 wrong option.";

/// Flags that were checked.
struct Plan {
    brokers: String,
    settings: KafkaSettings,
    spectra: String,
    bins: Bins,
    every: Duration,
}

impl Flags {
    fn plan(&self) -> Result<Plan> {
        let brokers = check_brokers(&self.brokers).map_err(|e| anyhow::anyhow!("--brokers {e}"))?;
        let time = |flag: &str, text: &str, least: Duration| {
            let most = Duration::from_secs(3600);
            match quantity::duration(text) {
                Ok(time) if (least..=most).contains(&time) => Ok(time),
                Ok(_) => bail!("--{flag} {text}: expected {least:?} to 1h"),
                Err(e) => bail!("--{flag} {text}: {e}"),
            }
        };
        let ns = |time: Duration| time.as_nanos() as i64;
        if !(1..=1_000_000).contains(&self.bins) {
            bail!("--bins {}: expected 1 to 1000000", self.bins);
        }
        let bins = Bins {
            from_ns: ns(time("from", &self.from, Duration::ZERO)?),
            width_ns: ns(time("width", &self.width, Duration::from_nanos(1))?),
            count: self.bins,
        };
        let pair = |text: &String| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => bail!("--kafka-set {text}: expected NAME=VALUE"),
        };
        let settings = self.kafka_set.iter().map(pair).collect::<Result<Vec<_>>>()?;
        let settings =
            KafkaSettings::read(settings).map_err(|e| anyhow::anyhow!("--kafka-set {e}"))?;
        settings.check().map_err(|e| anyhow::anyhow!("--kafka-set {e}"))?;
        Ok(Plan {
            brokers,
            settings,
            spectra: self.spectra.clone().unwrap_or_else(|| format!("{}_tof", self.events)),
            bins,
            every: time("every", &self.every, Duration::from_millis(10))?,
        })
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Ends of the event topic: partition and offset behind its last message, where there are any.
fn ends(consumer: &Consumer, topic: &str) -> Result<BTreeMap<i32, i64>> {
    let partitions = consumer.partitions(topic)?;
    if partitions == 0 {
        bail!("there is no topic {topic}");
    }
    let mut ends = BTreeMap::new();
    for partition in 0..partitions {
        let (oldest, end) = consumer.offsets(topic, partition)?;
        if end > oldest {
            ends.insert(partition, end);
        }
    }
    Ok(ends)
}

/// True if what was published covers everything up to `ends`.
fn covered(published: &BTreeMap<i32, Share>, ends: &BTreeMap<i32, i64>) -> bool {
    ends.iter().all(|(p, end)| published.get(p).is_some_and(|share| share.next >= *end))
}

/// A member of the group.
struct Member {
    consumer: Consumer,
    board: Board,
    topic: String,
    source: Option<String>,
    bins: Bins,
    /// By partition, with whether it is newer than what was published.
    shares: BTreeMap<i32, (Share, bool)>,
    /// What this process has counted itself.
    own: Spectrum,
    messages: u64,
    others: u64,
    again: u64,
    missing: i64,
}

impl Member {
    /// Reads a message, if one comes soon.
    fn step(&mut self) -> Result<()> {
        let Polled::Message(m) = self.consumer.poll(Duration::from_millis(100))? else {
            return Ok(());
        };
        let (partition, offset) = (m.partition(), m.offset());
        let known = self.shares.get(&partition).map(|(share, _)| share.next);
        if known.is_none_or(|next| offset > next) {
            // A partition that is new to us, or that somebody else had in between.
            let published = self.board.read()?.get(&partition);
            if let Some(share) = published.filter(|s| known.is_none_or(|next| s.next > next)) {
                self.shares.insert(partition, (share.clone(), false));
            }
        }
        let fresh = || (Share { spectrum: Spectrum::new(self.bins), next: offset }, false);
        let (share, changed) = self.shares.entry(partition).or_insert_with(fresh);
        if offset < share.next {
            self.again += 1;
            return Ok(());
        }
        if offset > share.next {
            let gone = offset - share.next;
            eprintln!("partition {partition}: {gone} messages are no longer there");
            self.missing += gone;
        }
        self.messages += 1;
        let mut these = Spectrum::new(self.bins);
        if !these.take(m.payload(), self.source.as_deref()) {
            self.others += 1;
        }
        share.spectrum.add(&these);
        self.own.add(&these);
        (share.next, *changed) = (offset + 1, true);
        Ok(())
    }

    /// Publishes what is new, and commits it when the broker has it.
    fn settle(&mut self) -> Result<()> {
        let mut settled = Vec::new();
        for (&partition, (share, _)) in self.shares.iter().filter(|(_, (_, changed))| *changed) {
            self.board.publish(partition, share)?;
            settled.push((partition, share.next));
        }
        self.board.confirm()?;
        let next: Vec<_> = settled.iter().map(|&(p, at)| (self.topic.as_str(), p, at)).collect();
        // A partition that was given to another member is theirs: what they have counted already, they pass over.
        if let Err(e) = self.consumer.commit(&next, true) {
            eprintln!("{e}");
        }
        for (partition, _) in settled {
            if let Some((_, changed)) = self.shares.get_mut(&partition) {
                *changed = false;
            }
        }
        Ok(())
    }
}

/// Counts until it is told to end. What this process has counted itself, and the end of the JSON object.
fn member(flags: &Flags, plan: &Plan, board: Board, stop: &Stop) -> Result<(Spectrum, String)> {
    let options = ConsumerOptions {
        group: Some(flags.group.clone()),
        settings: plan.settings.clone(),
        news: |text| eprintln!("{text}"),
        ..ConsumerOptions::new(plan.brokers.as_str())
    };
    let consumer = Consumer::new(&options)?;
    let ends = flags.until_end.then(|| ends(&consumer, &flags.events)).transpose()?;
    consumer.subscribe(&[&flags.events])?;
    eprintln!("counting events of topic {} as a member of group {}", flags.events, flags.group);
    let mut member = Member {
        consumer,
        board,
        topic: flags.events.clone(),
        source: flags.source.clone(),
        bins: plan.bins,
        shares: BTreeMap::new(),
        own: Spectrum::new(plan.bins),
        messages: 0,
        others: 0,
        again: 0,
        missing: 0,
    };
    let mut due = Instant::now() + plan.every;
    while !stop.requested() {
        member.step()?;
        if Instant::now() < due {
            continue;
        }
        member.settle()?;
        if let Some(ends) = &ends
            && covered(member.board.read()?, ends)
        {
            break;
        }
        due = Instant::now() + plan.every;
    }
    member.settle()?;
    let Member { own, messages, others, again, missing, .. } = member;
    let more = format!(
        ",\"messages\":{messages},\"other_messages\":{others},\"passed_over\":{again},\"missing\":{missing}"
    );
    Ok((own, more))
}

/// Adds up what the members publish.
fn total(flags: &Flags, plan: &Plan, mut board: Board, stop: &Stop) -> Result<(Spectrum, String)> {
    let options = ConsumerOptions {
        settings: plan.settings.clone(),
        ..ConsumerOptions::new(plan.brokers.as_str())
    };
    let events = Consumer::new(&options)?;
    let ends = flags.until_end.then(|| ends(&events, &flags.events)).transpose()?;
    let mut last = None;
    loop {
        let done = {
            let shares = board.read()?;
            ends.as_ref().is_some_and(|ends| covered(shares, ends)) || stop.requested()
        };
        let sum = board.total();
        if last.as_ref() != Some(&sum) {
            board.publish_total()?;
            eprintln!("{} events", sum.events());
            last = Some(sum);
        }
        if done {
            board.confirm()?;
            return Ok((board.total(), String::new()));
        }
        std::thread::sleep(plan.every);
    }
}

fn print(spectrum: &Spectrum, more: &str, json: bool) {
    let [below, above] = spectrum.outside;
    if json {
        let Bins { from_ns, width_ns, .. } = spectrum.bins;
        println!(
            "{{\"schema\":\"fullcount/tof-spectrum/1\",\"events\":{},\"below\":{below},\"above\":{above},\
             \"from_ns\":{from_ns},\"width_ns\":{width_ns},\"counts\":{:?}{more}}}",
            spectrum.events(),
            spectrum.counts
        );
        return;
    }
    println!("{:>14} {:>14} {:>14}", "from (us)", "to (us)", "events");
    let us = |ns: i64| ns as f64 / 1000.0;
    let edges = spectrum.bins.edges();
    for (edge, count) in edges.windows(2).zip(&spectrum.counts) {
        println!("{:>14.3} {:>14.3} {count:>14}", us(edge[0]), us(edge[1]));
    }
    println!(
        "{} events, {below} of them before the first bin, {above} behind the last",
        spectrum.events()
    );
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let plan = match flags.plan() {
        Ok(plan) => plan,
        Err(e) => {
            eprintln!("error: {e}");
            return ExitCode::from(2);
        }
    };
    let run = || {
        let stop = Stop::on_signals()?;
        let board =
            Board::new(&plan.brokers, &plan.settings, &plan.spectra, &flags.name, plan.bins)?;
        let count = if flags.total { total } else { member };
        count(&flags, &plan, board, &stop)
    };
    match run() {
        Ok((spectrum, more)) => {
            print(&spectrum, &more, flags.json);
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(1)
        }
    }
}
