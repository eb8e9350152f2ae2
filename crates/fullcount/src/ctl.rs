//! `fullcount ctl`: gives a command to a running service and prints the reply, for people and scripts.
//!
//! Closes its side behind the first part of the reply, so that the reply ends where the connection does; an event formation unit
//! understands that as well. Of a refused command it asks why. Refuses nothing itself; `Error: <…>` of the service is exit
//! code 1. Source: `docs/operations.md`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use fullcount_core::text::is_control;
use fullcount_io::input_file;

use crate::exit::Failure;
use crate::{note, say};

/// Gives a command to a running service over its control port.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CtlFlags {
    /// Where the service takes commands
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8888")]
    to: String,
    /// File with the token of a service on another machine
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The command and its arguments; HELP lists them
    #[arg(required = true, value_name = "COMMAND", allow_hyphen_values = true)]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  fullcount ctl HELP
  fullcount ctl STAT_GET_NAME receive.packets
  fullcount ctl NEXUS_NEXT run43.nxs 43
  fullcount ctl --to daq7:8888 --token-file token.txt EXIT";

/// Longest wait for a connection, and for each part of the reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest first part of a reply.
const FIRST: usize = 64 << 10;
/// Longest reply.
const LARGEST: usize = 16 << 20;
/// Longest wait for a whole reply.
const WHOLE: Duration = Duration::from_secs(60);

/// Sends the command, prints what comes back.
pub fn ctl(flags: &CtlFlags) -> Result<u8, Failure> {
    let (reply, why) = ask(flags)?;
    say!("{}", shown(reply.trim_end_matches('\n')));
    if let Some(why) = why {
        note!("{}", shown(&why));
    }
    Ok(u8::from(reply.starts_with("Error: <")))
}

/// Text of a service that may be anybody's: nothing in it steers a terminal.
fn shown(text: &str) -> String {
    let safe = |c: char| if is_control(c) && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(safe).collect()
}

/// The rest of a reply, before `end` and up to a length.
fn rest(stream: &mut TcpStream, reply: &mut Vec<u8>, end: Instant) -> anyhow::Result<()> {
    let mut buffer = vec![0; FIRST];
    while reply.len() < LARGEST {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("it did not end within {} s", WHOLE.as_secs());
        }
        stream.set_read_timeout(Some(left.min(PATIENCE)))?;
        match stream.read(&mut buffer)? {
            0 => break,
            n => reply.extend_from_slice(&buffer[..n]),
        }
    }
    Ok(())
}

fn connect(to: &str) -> anyhow::Result<TcpStream> {
    let mut last = anyhow!("the name has no address");
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(e) => last = e.into(),
        }
    }
    Err(last)
}

/// The reply, and why the command was refused, if it was and the service says so.
fn ask(flags: &CtlFlags) -> anyhow::Result<(String, Option<String>)> {
    let token = flags.token_file.as_ref().map(|path| {
        let text = input_file::text(path, input_file::LARGEST_SECRET);
        text.with_context(|| format!("--token-file {}", path.display()))
    });
    let token = token.transpose()?;
    let mut stream = connect(&flags.to).with_context(|| format!("control port {}", flags.to))?;
    if let Some(token) = token {
        stream.write_all(format!("AUTH {}\n", token.trim()).as_bytes())?;
        let mut buffer = [0; 100];
        let n = stream.read(&mut buffer).context("the reply to AUTH")?;
        if &buffer[..n] != b"<OK>" {
            return Ok((String::from_utf8_lossy(&buffer[..n]).into_owned(), None));
        }
    }
    stream.write_all(flags.command.join(" ").as_bytes())?;
    let mut reply = vec![0; FIRST];
    let n = stream.read(&mut reply).context("the reply")?;
    reply.truncate(n);
    let mut why = None;
    if reply.starts_with(b"Error: <") {
        // An event formation unit does not know this.
        let asked = stream.write_all(b"WHY").and_then(|()| {
            let mut buffer = vec![0; FIRST];
            let n = stream.read(&mut buffer)?;
            Ok(String::from_utf8_lossy(&buffer[..n]).into_owned())
        });
        why = asked.ok().and_then(|said| said.strip_prefix("WHY ").map(str::to_owned));
    }
    // The service closes behind what it still has to say of the reply.
    let _ = stream.shutdown(Shutdown::Write);
    rest(&mut stream, &mut reply, Instant::now() + WHOLE).context("the reply")?;
    Ok((String::from_utf8_lossy(&reply).into_owned(), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_steers_no_terminal_and_keeps_its_lines() {
        assert_eq!(shown("a\tb\nc\u{1b}[2J"), "a\tb\nc\u{fffd}[2J");
        assert_eq!(shown("a\u{202e}b\u{2028}c\u{2066}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }
}
