//! What is done beside the senders of a trial: the receiver's memory is read, and commands are given to its control port.
//!
//! Refuses: a reply that is neither `<OK>` nor, for a while, `Error: <BUSY>`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fullcount_child::{Asked, RunningChild};

use super::{BenchTrial, READY};
use crate::Tell;
use crate::error::TrialError;

/// Longest wait for a reply, and for a change that is under way.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts while a change is under way.
const AGAIN: Duration = Duration::from_millis(20);

/// Commands at a pace.
#[derive(Debug, Clone)]
pub struct BenchCommands {
    /// How many.
    pub count: u32,
    /// Time between two.
    pub every: Duration,
    /// The command: `{n}` is its number, from 1 on, `{n:03}` the same in three digits.
    pub text: String,
}

/// What of it is under way.
pub(super) struct Beside<'a> {
    memory_every: Option<Duration>,
    /// Second of the trial, and bytes.
    pub memory: Vec<(u64, u64)>,
    commands: Option<(&'a BenchCommands, TcpStream)>,
    given: u32,
}

impl<'a> Beside<'a> {
    pub fn new(
        trial: &'a BenchTrial,
        receiver: &mut RunningChild,
        stop: Asked<'_>,
    ) -> Result<Beside<'a>, TrialError> {
        let mut commands = None;
        if let Some(order) = &trial.commands {
            let at: SocketAddr = receiver.wait_for_line(READY, stop, |line| {
                line.strip_prefix("commands at ")?.parse().ok()
            })?;
            let stream = TcpStream::connect(at).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(stream)
            });
            let stream = stream.map_err(TrialError::when("control port"))?;
            commands = Some((order, stream));
        }
        Ok(Beside { memory_every: trial.memory_every, memory: vec![], commands, given: 0 })
    }

    /// True if no command is left to give.
    pub fn is_done(&self) -> bool {
        self.commands.as_ref().is_none_or(|(order, _)| self.given == order.count)
    }

    /// True if a receiver that is gone ends it.
    pub fn needs_receiver(&self) -> bool {
        self.memory_every.is_some() || !self.is_done()
    }

    /// Does what is due after so long of a trial.
    ///
    /// # Errors
    /// A command was refused.
    pub fn due(
        &mut self,
        passed: Duration,
        of: Duration,
        process: u32,
        tell: Tell,
    ) -> Result<(), TrialError> {
        if let Some(every) = self.memory_every {
            let due = every * (self.memory.len() as u32 + 1);
            // Not at the very end: memory under load is asked for.
            if passed >= due
                && due < of
                && let Some(bytes) = resident(process)
            {
                self.memory.push((due.as_secs(), bytes));
                let (mib, left) = (bytes as f64 / f64::from(1u32 << 20), (of - due).as_secs());
                tell(&format!("{:4} s: {mib:7.1} MiB, {left} s left", due.as_secs()));
            }
        }
        if let Some((order, stream)) = &mut self.commands
            && self.given < order.count
            && passed >= order.every * (self.given + 1)
        {
            self.given += 1;
            let n = self.given;
            let text = order.text.replace("{n:03}", &format!("{n:03}"));
            ask(stream, &text.replace("{n}", &n.to_string()))?;
        }
        Ok(())
    }
}

/// Gives a command once nothing of those before is under way.
fn ask(stream: &mut TcpStream, command: &str) -> Result<(), TrialError> {
    let (begun, mut buffer) = (Instant::now(), [0; 9000]);
    loop {
        let read = stream.write_all(command.as_bytes()).and_then(|()| stream.read(&mut buffer));
        let n = read.map_err(TrialError::when("control port"))?;
        match &buffer[..n] {
            b"<OK>" => return Ok(()),
            b"Error: <BUSY>" if begun.elapsed() < PATIENCE => std::thread::sleep(AGAIN),
            other => {
                let reason = format!("{command}: {}", String::from_utf8_lossy(other));
                return Err(TrialError::Result { program: "fullcount run".into(), reason });
            }
        }
    }
}

/// Memory of a process, bytes; `None` once it has ended.
fn resident(process: u32) -> Option<u64> {
    resident_of(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_of("Name:\tx\nVmRSS:\t   20480 kB\nThreads:\t2\n"), Some(20_971_520));
        assert_eq!(resident_of("Name:\tx\n"), None);
    }

    #[test]
    fn memory_is_read_at_its_times_while_packets_come_and_no_later() {
        let every = Duration::from_secs(1);
        let mut beside =
            Beside { memory_every: Some(every), memory: vec![], commands: None, given: 0 };
        for second in 0..8 {
            let passed = Duration::from_secs(second);
            beside.due(passed, Duration::from_secs(4), std::process::id(), |_| {}).unwrap();
        }
        let seconds: Vec<u64> = beside.memory.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [1, 2, 3]);
        assert!(beside.needs_receiver() && beside.is_done());
    }

    #[test]
    fn a_busy_service_is_asked_again_and_another_answer_is_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = vec![];
            for answer in [&b"Error: <BUSY>"[..], b"<OK>", b"Error: <NO>"] {
                let mut buffer = [0; 100];
                let n = stream.read(&mut buffer).unwrap();
                said.push(String::from_utf8_lossy(&buffer[..n]).into_owned());
                stream.write_all(answer).unwrap();
            }
            said
        });
        let order =
            BenchCommands { count: 2, every: Duration::ZERO, text: "NEXT {n:03}.nxs {n}".into() };
        let commands = Some((&order, TcpStream::connect(at).unwrap()));
        let mut beside = Beside { memory_every: None, memory: vec![], commands, given: 0 };
        let mut due = || beside.due(Duration::ZERO, Duration::ZERO, 0, |_| {});
        due().unwrap();
        let error = due().unwrap_err().to_string();
        assert_eq!(error, "fullcount run: NEXT 002.nxs 2: Error: <NO>");
        assert_eq!(answers.join().unwrap(), ["NEXT 001.nxs 1", "NEXT 001.nxs 1", "NEXT 002.nxs 2"]);
    }
}
