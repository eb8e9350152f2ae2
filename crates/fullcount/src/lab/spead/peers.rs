//! Whose programs a trial of `lab spead` starts. Refuses unknown peers, and one that was asked for and is not found.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_lab::spead::build;
use fullcount_lab::spead::tools::SpeadPeer;

use crate::exit::Failure;
use crate::{note, say};

/// Whose programs, and where they are.
#[derive(Debug, Args)]
pub struct PeerFlags {
    /// Whose programs, with commas: fullcount, spead2 [default: both where spead2's are found]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
    /// Folder with spead2_send and spead2_recv [default: looked for in the cache and on the path]
    #[arg(long, value_name = "DIR")]
    spead2: Option<PathBuf>,
    /// Build spead2's C++ tools from its source package first, if they are not there
    #[arg(long)]
    build_spead2: bool,
    /// Folder of the cache
    #[arg(long, value_name = "DIR", default_value = "target")]
    cache: PathBuf,
}

impl PeerFlags {
    /// The peers, ours first.
    pub fn find(&self) -> Result<Vec<SpeadPeer>, Failure> {
        for name in &self.peers {
            if !["fullcount", "spead2"].contains(&name.as_str()) {
                return Err(refuse("peers", name, "fullcount or spead2").into());
            }
        }
        let wants = |name: &str| self.peers.is_empty() || self.peers.iter().any(|p| p == name);
        let mut peers = Vec::new();
        if wants("fullcount") {
            let program = std::env::current_exe().context("finding this program")?;
            peers.push(SpeadPeer::Ours { program });
        }
        if wants("spead2") {
            let mut folder = build::find(self.spead2.as_deref(), &self.cache);
            if folder.is_none() && self.build_spead2 {
                match build::build(&self.cache, say::line) {
                    Ok(built) => folder = Some(built),
                    Err(why) => note!("spead2's tools: {why}"),
                }
            }
            match folder {
                Some(folder) => peers.push(SpeadPeer::Spead2 { folder: std::path::absolute(folder).context("the folder of spead2's tools")? }),
                None if self.peers.is_empty() => note!(
                    "spead2's tools are not found: ours alone is measured (--build-spead2 builds them, --spead2 names their folder)"
                ),
                None => return Err(refuse("peers", "spead2", "its tools are not found: --build-spead2 builds them, --spead2 names their folder").into()),
            }
        }
        Ok(peers)
    }
}
