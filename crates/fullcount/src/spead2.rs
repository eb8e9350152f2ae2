//! `fullcount spead2 send|recv`: takes the options of spead2_send and spead2_recv, does the same, and prints their lines.
//!
//! Standard output has spead2's own lines, standard error the command of Fullcount that does the same. Options that have no effect here
//! (threads, non-temporal copies, ibverbs) are taken and said. Exit codes are spead2's: 2 for wrong options, 1 for a mismatch.
//! Source: `docs/formats/spead.md`, section 14.

mod lines;
mod recv;
mod send;

use std::net::IpAddr;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// The front ends for people who know spead2's tools.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fullcount spead2 recv 8888
  fullcount spead2 send 127.0.0.1:8888 --heaps 10")]
pub struct Spead2Flags {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Takes the options of spead2_send
    Send(send::Spead2Send),
    /// Takes the options of spead2_recv
    Recv(recv::Spead2Recv),
}

/// Runs the tool.
pub fn spead2(flags: &Spead2Flags) -> Result<u8, Failure> {
    match &flags.tool {
        Tool::Send(flags) => send::send(flags),
        Tool::Recv(flags) => recv::recv(flags),
    }
}

/// Host and port of `[host]:port`; the host may be empty or an IPv6 address in brackets.
fn place(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| port.parse().ok()).flatten().map(|port| (host, port))
}

/// Whether the host of a place is a multicast group. An IPv6 address stands in brackets.
fn group(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok_and(|ip| ip.is_multicast())
}

/// As a shell takes it.
fn shown(arguments: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_ends_in_a_port_and_everything_else_is_a_file() {
        assert_eq!(place("127.0.0.1:8888"), Some(("127.0.0.1", 8888)));
        assert_eq!(place(":8888"), Some(("", 8888)));
        assert_eq!(place("[::1]:8888"), Some(("[::1]", 8888)));
        for file in ["run.pcap", "a:b.pcap", "x:", "y:99999"] {
            assert_eq!(place(file), None, "{file}");
        }
        let groups = ["239.1.2.3", "[ff15::7]", "192.0.2.1", "[::1]", "", "rx.example"].map(group);
        assert_eq!(groups, [true, true, false, false, false, false]);
        assert_eq!(shown(&["a".into(), "b?c".into()]), "a 'b?c'");
    }
}
