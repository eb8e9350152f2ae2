//! Flags that are key paths of the configuration, shared by the verbs that run the engine.
//!
//! A flag only lays its value over the file's, in an [`Overlay`].

use clap::Args;
pub use fullcount_engine::config::Overlay;
use toml::Value;

/// Where chunks come from.
#[derive(Debug, Default, Args)]
pub struct SourceFlags {
    /// Socket receive buffer [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Source")]
    pub receive_buffer: Option<String>,
    /// How datagrams are received: auto, plain (one a call), mmsg, gro or uring (io_uring) [default: auto]
    #[arg(long, value_name = "ENGINE", help_heading = "Source")]
    pub engine: Option<String>,
    /// CPU that the receiving thread is pinned to; with several workers one for each: 2,3
    #[arg(long, value_name = "CPU", value_delimiter = ',', help_heading = "Source")]
    pub core: Vec<usize>,
    /// Poll without sleeping: lowest loss, costs a whole core
    #[arg(long, help_heading = "Source")]
    pub busy_poll: bool,
    /// Sleep so long in the middle of a stream rather than be woken by each arrival; 0s: off [default: 0.2 to 1 ms,
    /// less where the receive buffer is small]
    #[arg(long, value_name = "TIME", help_heading = "Source")]
    pub nap: Option<String>,
    /// Ask the kernel for the receive time of each packet: a clock read per packet. Asked for in any case with detectors
    /// whose packets have short numbers
    #[arg(long, help_heading = "Source")]
    pub timestamps: bool,
    /// Threads that receive at each endpoint and share out the senders [default: 1]
    #[arg(long, value_name = "N", help_heading = "Source")]
    pub workers: Option<u32>,
    /// What keeps packets together on one worker: sender (address and port) or address [default: sender]
    #[arg(long, value_name = "WHAT", help_heading = "Source")]
    pub steer: Option<String>,
    /// The endpoints are links that carry the same numbered packets: each number counts once
    #[arg(long, help_heading = "Source")]
    pub redundant: bool,
    /// Seeded faults put into the stream, e.g. loss=0.01,seed=7
    #[arg(long, value_name = "SPEC", help_heading = "Source")]
    pub fault: Option<String>,
}

/// How the work is done and when it ends.
#[derive(Debug, Default, Args)]
pub struct EngineFlags {
    /// 1: one thread receives and decodes; 2: one each, joined by a ring [default: 1]
    #[arg(long, value_name = "1|2", help_heading = "Engine")]
    pub threads: Option<u32>,
    /// CPU that the second thread is pinned to; with several workers one for each: 2,3
    #[arg(long, value_name = "CPU", value_delimiter = ',', help_heading = "Engine")]
    pub process_core: Vec<usize>,
    /// Threads that make events of hits; above 1 with detectors that are exact on several [default: 1]
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub build_threads: Option<u32>,
    /// CPUs that the further ones of them are pinned to: 2,3
    #[arg(long, value_name = "CPU", value_delimiter = ',', help_heading = "Engine")]
    pub build_core: Vec<usize>,
    /// Time between two readings of the host's loss counters, 100ms to 60s, or off [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = "Engine")]
    pub probes: Option<String>,
    /// End after this time, e.g. 60s
    #[arg(long, value_name = "TIME", help_heading = "Engine")]
    pub duration: Option<String>,
    /// End when packets have come and then none for this time, e.g. 2s
    #[arg(long, value_name = "TIME", help_heading = "Engine")]
    pub idle_exit: Option<String>,
    /// End after this many packets
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub packets: Option<u64>,
    /// Let end marks end the run once so many senders have come and all are complete [default: 1]
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub senders: Option<u32>,
}

/// One number, or a list of them; `None` if the flag was not given.
fn cores(given: &[usize]) -> Option<Value> {
    let value = |n: &usize| Value::from(*n as i64);
    match given {
        [] => None,
        [one] => Some(value(one)),
        all => Some(Value::Array(all.iter().map(value).collect())),
    }
}

/// One endpoint, or a list of them; `None` if none was given.
pub fn endpoints(given: &[String]) -> Option<Value> {
    match given {
        [] => None,
        [one] => Some(one.clone().into()),
        all => Some(Value::Array(all.iter().cloned().map(Value::from).collect())),
    }
}

/// Lays groups of flags over a configuration.
pub trait LayFlags {
    /// Adds the flags of a source.
    fn source(&mut self, f: &SourceFlags) -> &mut Self;
    /// Adds the flags of the engine.
    fn engine(&mut self, f: &EngineFlags) -> &mut Self;
}

impl LayFlags for Overlay {
    fn source(&mut self, f: &SourceFlags) -> &mut Self {
        self.put("source.receive_buffer", f.receive_buffer.clone())
            .put("source.engine", f.engine.clone())
            .put("source.core", cores(&f.core))
            .put("source.busy_poll", f.busy_poll.then_some(true))
            .put("source.nap", f.nap.clone())
            .put("source.timestamps", f.timestamps.then_some(true))
            .put("source.workers", f.workers.map(i64::from))
            .put("source.steer", f.steer.clone())
            .put("source.redundant", f.redundant.then_some(true))
            .put("source.fault", f.fault.clone())
    }

    fn engine(&mut self, f: &EngineFlags) -> &mut Self {
        self.put("engine.threads", f.threads.map(i64::from))
            .put("engine.process_core", cores(&f.process_core))
            .put("engine.build_threads", f.build_threads.map(i64::from))
            .put("engine.build_core", cores(&f.build_core))
            .put("engine.probes", f.probes.clone())
            .put("engine.duration", f.duration.clone())
            .put("engine.idle_exit", f.idle_exit.clone())
            .put("engine.packets", f.packets.map(|n| n as i64))
            .put("engine.senders", f.senders.map(i64::from))
    }
}
