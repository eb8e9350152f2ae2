//! `[web]`: where the live page is served, and under which names.
//!
//! Refuses addresses without a port, and names with a scheme or a port. Source: `docs/configuration.md`.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, OneOrMore, refuse};

/// Names in `web.hosts` at most.
const HOSTS_MAX: usize = 64;

/// `[web]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Address and port, or `off`.
    pub listen: String,
    /// Names and addresses that browsers ask for it under, beside this machine's own; up to 64.
    pub hosts: OneOrMore<String>,
}

impl Default for WebConfig {
    fn default() -> Self {
        WebConfig { listen: "127.0.0.1:8080".into(), hosts: OneOrMore::More(Vec::new()) }
    }
}

/// A host as a `Host` header has it, without port.
fn is_host(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let label = |part: &str| (1..=63).contains(&part.len()) && part.chars().all(letter);
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

impl Config {
    /// Address of the page, `None` if it is switched off.
    ///
    /// # Errors
    /// If it is neither `off` nor an address with port.
    pub fn web_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        if self.web.listen == "off" {
            return Ok(None);
        }
        let why = "an address with port such as 127.0.0.1:8080, or off";
        self.web.listen.parse().map(Some).map_err(|_| refuse("web.listen", &self.web.listen, why))
    }

    /// Names that the page answers to beside this machine's own.
    ///
    /// # Errors
    /// More than 64, or one that is no host name or address.
    pub fn web_hosts(&self) -> Result<Vec<String>, ConfigError> {
        let hosts = self.web.hosts.as_slice();
        if hosts.len() > HOSTS_MAX {
            let given = format!("{} names", hosts.len());
            return Err(refuse("web.hosts", given, "64 names at most"));
        }
        if let Some(bad) = hosts.iter().find(|host| !is_host(host)) {
            let why = "host names or addresses such as daq.example.org or 10.0.0.5, without http:// and port";
            return Err(refuse("web.hosts", bad, why));
        }
        Ok(hosts.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_page_are_hosts_and_nothing_else() {
        let with = |hosts: &[&str]| {
            let mut config = Config::default();
            config.web.hosts = OneOrMore::More(hosts.iter().map(|&h| h.to_owned()).collect());
            config.web_hosts().map_err(|e| e.to_string())
        };
        let good = ["daq", "DAQ-1.example.org", "10.0.0.5", "fd00::5", "xn--bcher-kva.example"];
        assert_eq!(with(&good).unwrap(), good);
        for bad in [
            "",
            "http://daq",
            "daq:8080",
            "a b",
            "*",
            ".daq",
            "daq.",
            "[fd00::5]",
            "d\u{e4}q",
            "a\nb",
        ] {
            let said = with(&[bad]).unwrap_err();
            assert!(
                said.contains("web.hosts") && said.contains("without http://"),
                "{bad}: {said}"
            );
        }
        assert!(with(&["a"; 65]).unwrap_err().contains("64 names at most"));
        let one: Config = toml::from_str("web.hosts = \"daq\"").unwrap();
        assert_eq!(one.web_hosts().unwrap(), ["daq"]);
    }
}
