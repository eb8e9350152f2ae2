//! One run of the C program `crates/lab/peers/flood.c` flat out over loopback: the yardstick of `send` and `receive`.
//!
//! Refuses: a program that is not that one.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fullcount_child::{Asked, RunningChild};
use fullcount_io::host::Host;
use serde_json::{Value, json};

use super::trial::summary;
use crate::agent::engine::free_port;
use crate::error::TrialError;

/// For the program to bind, and for it to end once its peer has: it waits 1 s of silence.
const LIMIT: Duration = Duration::from_secs(60);

/// What one run of `program` received, sent and lost on the way; `cores` are the receiver's and the sender's.
///
/// # Errors
/// It did not do its part, or somebody asked to stop.
pub fn measure(
    program: &Path,
    size: u32,
    cores: (usize, usize),
    seconds: u64,
    stop: Asked<'_>,
) -> Result<Value, TrialError> {
    let port = free_port(None, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = port.map_err(TrialError::when("a free port"))?;
    let start = |verb: &str, core: usize| {
        let mut command = Command::new(program);
        command.args([verb, &port.to_string(), &size.to_string(), &core.to_string()]);
        if verb == "send" {
            command.arg(seconds.to_string());
        }
        RunningChild::start(&format!("flood {verb}"), command)
    };
    let mut receiver = start("receive", cores.0)?;
    let host = Host::default();
    let bound = || host.port(port).is_some_and(|state| state.sockets > 0);
    receiver.wait_until(LIMIT, stop, bound)?;
    let mut sender = start("send", cores.1)?;
    let (sent, _) = summary(&mut sender, LIMIT + Duration::from_secs(seconds), stop)?;
    let (received, _) = summary(&mut receiver, LIMIT, stop)?;
    let number = |of: &Value| of["datagrams"].as_u64().unwrap_or(0);
    let (left, came) = (number(&sent), number(&received));
    Ok(json!({
        "gbps": received["gbps"],
        "gbps_sent": sent["gbps"],
        "seconds": received["seconds"],
        "packets_sent": left,
        "packets_received": came,
        "packets_lost": left.saturating_sub(came),
        "segments": sent["segments"],
        "receive_buffer": received["receive_buffer"],
    }))
}
