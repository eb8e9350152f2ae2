//! Whose programs a trial of `lab spead` starts. Refuses unknown peers, and one that was asked for and is not found.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_lab::spead::build;
use fullcount_lab::spead::reassembly::Spead2Memory;
use fullcount_lab::spead::tools::SpeadPeer;

use crate::exit::Failure;
use crate::{note, say};

/// What `--peers` takes.
const PEERS: [&str; 5] = ["fullcount", "spead2", "pypi", "fullcount-pypi", "pypi-fullcount"];

/// Whose programs, and where they are.
#[derive(Debug, Args)]
pub struct PeerFlags {
    /// Whose programs, with commas: fullcount, spead2 (C++), pypi (Python), fullcount-pypi and
    /// pypi-fullcount (the first one sends) [default: the first two where spead2's are found]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
    /// Folder with spead2_send, spead2_recv and spead2_bench [default: looked for in the cache and on the path]
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
    fn wants(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|p| p == name)
    }

    /// The folder of spead2's tools; they are built if that was asked for and `enough` says no.
    fn folder(&self, enough: impl Fn(Option<&Path>) -> bool) -> Option<PathBuf> {
        let folder = build::find(self.spead2.as_deref(), &self.cache);
        if enough(folder.as_deref()) || !self.build_spead2 {
            return folder;
        }
        match build::build(&self.cache, say::line) {
            Ok(built) => Some(built),
            Err(why) => {
                note!("spead2's tools: {why}");
                folder
            }
        }
    }

    /// What of spead2's feeds heaps from memory.
    pub fn memory(&self) -> Result<Spead2Memory, Failure> {
        self.known()?;
        if let Some(name) = self.peers.iter().find(|name| PEERS[2..].contains(&name.as_str())) {
            let why = "fullcount or spead2 in `memory`, which measures the Python package beside spead2's tools";
            return Err(refuse("peers", name, why).into());
        }
        if !self.wants("fullcount") {
            return Err(refuse("peers", "spead2", "fullcount as well: ratios are of ours").into());
        }
        if !self.wants("spead2") {
            return Ok(Spead2Memory::default());
        }
        let both = |folder: &Path| [build::bench(folder), build::bench_plain(folder)];
        let all =
            |folder: Option<&Path>| folder.is_some_and(|f| both(f).iter().all(|b| b.is_some()));
        let found = self.folder(all).map(std::path::absolute).transpose();
        let found = found.context("the folder of spead2's tools")?;
        let memory = Spead2Memory::with(found.as_deref());
        let how = "--build-spead2 builds it, --spead2 names its folder";
        if memory.bench.is_none() {
            if !self.peers.is_empty() {
                let why = format!("spead2_bench is not found: {how}");
                return Err(refuse("peers", "spead2", why).into());
            }
            note!("spead2_bench is not found: no figure of spead2 with a memory pool ({how})");
        }
        match &memory {
            Spead2Memory { plain: Some(_), .. } => {}
            Spead2Memory { python: Some(_), .. } => note!(
                "spead2_bench_plain is not found: the Python package stands for spead2 without a memory pool ({how})"
            ),
            _ => note!(
                "neither spead2_bench_plain nor a Python with numpy and spead2 is found: no figure of spead2 without a memory pool ({how}, FULLCOUNT_PYTHON names a Python)"
            ),
        }
        Ok(memory)
    }

    fn known(&self) -> Result<(), Failure> {
        let other = self.peers.iter().find(|name| !PEERS.contains(&name.as_str()));
        other.map_or(Ok(()), |name| Err(refuse("peers", name, PEERS.join(", ")).into()))
    }

    /// With the scripts of the PyPI package at one end or both.
    fn with_pypi(&self) -> Result<Vec<SpeadPeer>, Failure> {
        let asked = PEERS[2..].iter().filter(|name| self.peers.iter().any(|p| p == *name));
        asked
            .map(|&name| {
                let why = "the scripts spead2_send.py and spead2_recv.py are not found: pip install spead2; FULLCOUNT_PYTHON names another Python";
                let folder = build::find_pypi().ok_or_else(|| refuse("peers", name, why))?;
                let folder = std::path::absolute(folder).context("the folder of spead2's scripts")?;
                let pypi = SpeadPeer::Pypi { folder };
                let program = std::env::current_exe().context("finding this program")?;
                let ours = SpeadPeer::Ours { program };
                Ok(match name {
                    "pypi" => pypi,
                    "fullcount-pypi" => SpeadPeer::Pair { name, sender: ours.into(), receiver: pypi.into() },
                    _ => SpeadPeer::Pair { name, sender: pypi.into(), receiver: ours.into() },
                })
            })
            .collect()
    }

    /// The peers, ours first.
    pub fn find(&self) -> Result<Vec<SpeadPeer>, Failure> {
        self.known()?;
        let mut peers = Vec::new();
        if self.wants("fullcount") {
            let program = std::env::current_exe().context("finding this program")?;
            peers.push(SpeadPeer::Ours { program });
        }
        if self.wants("spead2") {
            match self.folder(|folder| folder.is_some()) {
                Some(folder) => peers.push(SpeadPeer::Spead2 { folder: std::path::absolute(folder).context("the folder of spead2's tools")? }),
                None if self.peers.is_empty() => note!(
                    "spead2's tools are not found: ours alone is measured (--build-spead2 builds them, --spead2 names their folder)"
                ),
                None => return Err(refuse("peers", "spead2", "its tools are not found: --build-spead2 builds them, --spead2 names their folder").into()),
            }
        }
        peers.extend(self.with_pypi()?);
        Ok(peers)
    }
}
