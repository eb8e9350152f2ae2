//! The readout unit as its users run it: `fullcount run --detector fragments --sink null` as a child process, so that the engine and an output
//! are in the figure.
//!
//! What it has received by when is asked over its control port. The senders then end with the same event, and it by itself once it has read all;
//! refuses a run that does not end with exit code 0 and a balance of 0.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use fullcount_child::RunningChild;

use super::senders::ReadoutSenders;
use super::site::ReadoutSite;
use super::{Around, CHECKED, ReadoutTrial, WARM};
use crate::agent::post::{last_summary, port_of};
use crate::error::LabError;

/// How long the program may take to be ready and to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to read what the senders and the kernel still have.
const REST: Duration = Duration::from_secs(120);
/// Between two looks whether somebody wants the trial to end.
const LOOK: Duration = Duration::from_millis(50);
/// What is asked.
const ASKED: &str = "STAT_GET_NAME receive.bytes";

impl ReadoutTrial {
    /// Bytes a second into the whole program.
    pub(super) fn whole(
        &self,
        around: Around<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let (site, _) = around;
        let mut command = site.command(&self.program);
        command.args(["run", "--source"]).arg(format!("{}&until=closed", self.address(site)));
        command.args(["--detector", "fragments", "--sink", "null", "--web", "off", "--json"]);
        command.args(["--control", "127.0.0.1:0"]);
        command.args(["--set", &format!("detector.sources={}", self.streams)]);
        command.args(["--set", &format!("detector.crc_every={CHECKED}")]);
        let mut run = RunningChild::start("fullcount run", command).map_err(anyhow::Error::from)?;
        // Either line may be the first.
        let seen = Cell::new(None);
        let listens = |line: &str| port_of(line.split(',').next().unwrap_or(line));
        let control = run.wait_for_line(PATIENCE, stop, |line| {
            seen.set(seen.get().or(listens(line)));
            line.strip_prefix("commands at ")?.parse::<SocketAddr>().ok()
        });
        let control = control.map_err(anyhow::Error::from)?;
        let port = match seen.get() {
            Some(port) => port,
            None => run.wait_for_line(PATIENCE, stop, listens).map_err(anyhow::Error::from)?,
        };
        let to = SocketAddr::from((site.reader(), port));
        let senders = ReadoutSenders::start(to, self, around)?;
        let rate = self.received(control, site, &|| !stop() && !senders.failed());
        senders.stop();
        // With no rate there is nothing to wait for.
        let ended = match &rate {
            Ok(_) => run.end(REST, stop).map_err(anyhow::Error::from),
            Err(_) => Ok(None),
        };
        if !matches!(ended, Ok(Some(_))) {
            run.kill();
        }
        // Nobody reads any more.
        let rate = senders.end_after(rate, stop)?;
        let ended = ended?.ok_or_else(|| anyhow!("fullcount run does not end"))?;
        if !ended.status.success() {
            return Err(anyhow::Error::from(ended.failed()).into());
        }
        let summary = last_summary(&ended.output).map_err(|e| anyhow!("fullcount run: {e}"))?;
        let sound = || {
            let counter = |name: &str| summary["counters"][name].as_u64();
            ensure!(summary["balance"] == 0, "the balance is {}", summary["balance"]);
            ensure!(counter("fragments.lost") == Some(0), "fragments are lost");
            ensure!(counter("events.count") > Some(0), "no event came");
            Ok(())
        };
        sound()?;
        Ok(rate)
    }

    /// Bytes a second that it receives, without the first [`WARM`] from the first byte on.
    fn received(
        &self,
        control: SocketAddr,
        site: &ReadoutSite,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<f64, LabError> {
        let connected = site.beside_reader(|| TcpStream::connect_timeout(&control, PATIENCE))?;
        let port = connected.context("the control port")?;
        port.set_read_timeout(Some(PATIENCE)).context("the control port")?;
        let begun = Instant::now();
        while bytes_by_now(&port)?.1 == 0 {
            if !goes_on() || begun.elapsed() > PATIENCE {
                return Err(anyhow!("fullcount run received nothing").into());
            }
            std::thread::sleep(LOOK);
        }
        let wait = |time: Duration| {
            let until = Instant::now() + time;
            while goes_on() && Instant::now() < until {
                std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
            }
        };
        wait(WARM);
        let (first, before) = bytes_by_now(&port)?;
        wait(self.time);
        let (last, bytes) = bytes_by_now(&port)?;
        Ok((bytes - before) as f64 / (last - first).as_secs_f64())
    }
}

/// What it has received, and when it said so.
fn bytes_by_now(mut port: &TcpStream) -> Result<(Instant, u64), LabError> {
    // In one piece: one receive is one command.
    port.write_all(ASKED.as_bytes()).context("the control port")?;
    let mut reply = [0; 256];
    let len = port.read(&mut reply).context("the control port")?;
    let now = Instant::now();
    let reply = String::from_utf8_lossy(&reply[..len]);
    let value = reply.trim().rsplit(' ').next().and_then(|value| value.parse().ok());
    Ok((now, value.with_context(|| format!("{ASKED} was answered with {reply:?}"))?))
}
