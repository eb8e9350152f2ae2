//! A broker to measure against: the given one, or one that is started in a folder of this run and ended with it.

use std::path::Path;

use fullcount_broker::BrokerCluster;

/// A broker that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("a broker of one's own: {0}")]
pub struct BrokerError(String);

/// Where messages go.
pub struct Broker {
    address: String,
    /// Ends with this.
    _own: Option<BrokerCluster>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Broker {
    /// One that runs already.
    pub fn given(address: &str) -> Broker {
        Broker { address: address.to_owned(), _own: None }
    }

    /// Starts one with its data in `folder`, which is made.
    ///
    /// # Errors
    /// Its own words.
    pub fn start(jars: &Path, folder: &Path) -> Result<Broker, BrokerError> {
        let own = BrokerCluster::start(jars, folder, 1, None).map_err(BrokerError)?;
        Ok(Broker { address: own.bootstrap(), _own: Some(own) })
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }
}
