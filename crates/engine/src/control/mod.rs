//! The control port: commands of a run over TCP, as the scripts of the event formation unit give them.
//!
//! `[control]` says where and to whom; [`desk`] holds the commands of a run, for the port and for the page's HTTP interface;
//! [`server`] is one thread over the protocol of [`fullcount_core::command`]. Refuses an address beyond this machine that nobody
//! could use (without a token and without a network that may read), and a folder for new files that is not there.
//! Source: `control-and-monitoring.md` section 3, `docs/operations.md`, `docs/decisions/0021-control-port.md`.

mod activity;
mod commands;
mod current;
mod desk;
mod record;
mod reset;
mod server;
mod version;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_core::command::{Access, ClientNetwork, ClientTrust, Desk, Token};
use fullcount_core::output::{OutputOpenError, Serving, StateOutput};
use fullcount_core::refusal::{self, Refusal};
use fullcount_core::status::StatusSource;
use fullcount_io::below::RunFolder;
use fullcount_io::input_file;
use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigError, refuse};

pub use activity::ActivityWatch;
pub use current::CurrentConfig;
pub use desk::DeskPlan;

/// Networks in `control.allow` at most.
const NETWORKS: usize = 64;

/// `[control]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlConfig {
    /// Address and port, or `off`.
    pub listen: String,
    /// File with the token that opens the port for clients of other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Networks whose clients may read without it; up to 64.
    pub allow: Vec<String>,
    /// Folder below which commands may begin new files; without it they may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl Default for ControlConfig {
    fn default() -> Self {
        ControlConfig { listen: "off".into(), token_file: None, allow: Vec::new(), folder: None }
    }
}

impl ControlConfig {
    /// `control.allow`.
    ///
    /// # Errors
    /// Too many, or something that is no network.
    pub fn networks(&self) -> Result<Vec<ClientNetwork>, Refusal> {
        if self.allow.len() > NETWORKS {
            let given = format!("{} networks", self.allow.len());
            return Err(refusal::refuse("control.allow", given, "64 networks at most"));
        }
        let network = |text: &String| {
            let why = "addresses or networks such as 10.0.0.0/8, 192.168.1.5 or fd00::/8";
            ClientNetwork::read(text).ok_or_else(|| refusal::refuse("control.allow", text, why))
        };
        self.allow.iter().map(network).collect()
    }
}

/// A checked section.
pub struct ControlPlan {
    /// `None`: there is to be no port.
    address: Option<SocketAddr>,
    trust: ClientTrust,
    token: Option<Token>,
    configuration: CurrentConfig,
}

impl ControlPlan {
    /// Checks the section.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(config: &Config) -> Result<ControlPlan, ConfigError> {
        let control = &config.control;
        let allow = control.networks()?;
        if let Some(folder) = &control.folder {
            let shown = folder.display().to_string();
            RunFolder::new(folder).map_err(|e| refuse("control.folder", shown, e.to_string()))?;
        }
        let token = control.token_file.as_deref().map(token).transpose()?;
        let address = address(control, token.is_some(), allow.is_empty())?;
        // Without a port nobody has asked for a way to change the run: the page then only tells.
        let local = if address.is_some() { Access::All } else { Access::Read };
        let trust = ClientTrust::new(allow, token.is_some(), local);
        let shown: toml::Table = toml::from_str(&config.to_toml()).unwrap_or_default();
        let configuration = CurrentConfig::new(serde_json::to_value(shown).unwrap_or_default());
        Ok(ControlPlan { address, trust, token, configuration })
    }

    /// Takes the address, if there is to be a port.
    ///
    /// # Errors
    /// It is in use.
    pub fn reserve(&self) -> Result<Option<Port>, OutputOpenError> {
        let Some(address) = self.address else { return Ok(None) };
        let wrong = |e: std::io::Error| OutputOpenError(format!("control port {address}: {e}"));
        let listener = TcpListener::bind(address).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        Ok(Some(Port { listener, address }))
    }

    /// Who may do what.
    pub fn trust(&self) -> (ClientTrust, Option<Token>) {
        (self.trust.clone(), self.token.clone())
    }

    /// The configuration without secrets; shared, as it changes.
    pub fn configuration(&self) -> CurrentConfig {
        self.configuration.clone()
    }
}

/// Where the port is; `None`: nowhere.
fn address(
    control: &ControlConfig,
    has_token: bool,
    nobody_reads: bool,
) -> Result<Option<SocketAddr>, ConfigError> {
    if control.listen == "off" {
        return Ok(None);
    }
    let why = "an address with port such as 127.0.0.1:8888, or off";
    let wrong = || refuse("control.listen", &control.listen, why);
    let address: SocketAddr = control.listen.parse().map_err(|_| wrong())?;
    if !address.ip().to_canonical().is_loopback() && !has_token && nobody_reads {
        let why = "beyond this machine it needs control.token_file (a token for all commands) or \
                   control.allow (networks that may read)";
        return Err(refuse("control.listen", &control.listen, why));
    }
    Ok(Some(address))
}

fn token(path: &Path) -> Result<Token, ConfigError> {
    let wrong = |cause: String| ConfigError::File {
        key: "control.token_file",
        path: path.display().to_string(),
        cause,
    };
    let text =
        input_file::text(path, input_file::LARGEST_SECRET).map_err(|e| wrong(e.to_string()))?;
    Token::read(&text).map_err(|e| wrong(e.to_string()))
}

/// The port, its address taken.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl StateOutput for Port {
    fn serve(
        self: Box<Self>,
        run: Arc<dyn StatusSource>,
    ) -> Result<Box<dyn Serving>, OutputOpenError> {
        let desk = run.desk().unwrap_or_else(|| Arc::new(Desk::default()));
        let served = server::Served { listener: self.listener, desk };
        let server = server::Server::start(served, self.address);
        Ok(Box::new(server.map_err(|e| OutputOpenError(format!("control port: {e}")))?))
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
