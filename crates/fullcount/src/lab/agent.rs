//! `fullcount lab agent`: the far end of a campaign with two hosts.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::agent::client::PORT;
use fullcount_lab::agent::server::{self, Agent};

use crate::exit::Failure;
use crate::note;

/// Receives or sends on this host for a campaign that runs on another one (`fullcount lab udp --where THIS-HOST`).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabAgentFlags {
    /// Address to listen on, IP or IP:PORT; the port is 9440 unless given
    #[arg(long, value_name = "ADDR")]
    listen: String,
    /// File with the token that both hosts share, at least 16 characters; nobody else may read it (chmod 600)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

const EXAMPLES: &str = "\
Runs nothing but `fullcount receive` and `fullcount send`, for one campaign at a time, until Ctrl-C.
A campaign that dies has its child killed. The token crosses the network as it is: where others can
read it, go through a tunnel (ssh -L 9440:127.0.0.1:9440 HOST) and give the measured link with
--data.

Examples:
  (umask 077; head -c 24 /dev/urandom | base64 > token)
  fullcount lab agent --listen 0.0.0.0 --token-file token
  fullcount lab agent --listen 192.168.10.2:9440 --token-file token";

/// Serves until Ctrl-C.
pub fn agent(flags: LabAgentFlags) -> Result<u8, Failure> {
    let listen = &flags.listen;
    let address = match (listen.parse::<SocketAddr>(), listen.parse::<IpAddr>()) {
        (Ok(address), _) => address,
        (_, Ok(ip)) => SocketAddr::new(ip, PORT),
        _ => {
            return Err(refuse("listen", listen, "IP or IP:PORT, e.g. 0.0.0.0:9440").into());
        }
    };
    let token = server::token(&flags.token_file).map_err(|e| Failure::Wrong(e.to_string()))?;
    let program = std::env::current_exe().context("finding this program")?;
    let agent = Agent::open(address, token, program).map_err(anyhow::Error::from)?;
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let at = agent.address().context("reading the listening address")?;
    note!("agent listening on {at}");
    agent.serve(&|| stop.requested(), &|line| note!("{line}"));
    Ok(0)
}
