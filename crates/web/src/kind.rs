//! The output `live`: the page and `/metrics`. Refuses addresses without a port, and names with a scheme or a port.
//!
//! Source: `docs/page.md`, `docs/configuration.md`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Text, Value};
use fullcount_core::output::{
    DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan, Serving,
    StateOutput,
};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::Sink;
use fullcount_core::status::StatusSource;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_io::section;
use serde::{Deserialize, Serialize};

use crate::server::{PageServer, Reserved};
use crate::{LiveCounter, LiveOptions, LiveView, live};

/// Path of the section.
const SECTION: &str = "web";
/// Names in `web.hosts` at most.
const HOSTS_MAX: usize = 64;

/// One name or several.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(untagged, expecting = "one value, or a list of values in square brackets")]
enum Hosts {
    One(String),
    More(Vec<String>),
}

impl Hosts {
    fn as_slice(&self) -> &[String] {
        match self {
            Hosts::One(one) => std::slice::from_ref(one),
            Hosts::More(all) => all,
        }
    }
}

/// `[web]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct WebSection {
    /// Address and port, or `off`.
    listen: String,
    /// Further names and addresses that browsers may use, besides this machine's own; up to 64.
    hosts: Hosts,
}

impl Default for WebSection {
    fn default() -> Self {
        WebSection { listen: "127.0.0.1:8080".into(), hosts: Hosts::More(Vec::new()) }
    }
}

/// A host as a `Host` header has it, without port.
fn is_host(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let label = |part: &str| (1..=63).contains(&part.len()) && part.chars().all(letter);
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(label))
}

impl WebSection {
    /// Address of the page, `None` if it is switched off.
    fn address(&self) -> Result<Option<SocketAddr>, Refusal> {
        if self.listen == "off" {
            return Ok(None);
        }
        let why = "an address with port such as 127.0.0.1:8080, or off";
        self.listen.parse().map(Some).map_err(|_| refuse("web.listen", &self.listen, why))
    }

    /// Names that the page answers to, besides this machine's own.
    fn hosts(&self) -> Result<Vec<String>, Refusal> {
        let hosts = self.hosts.as_slice();
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

/// The live page.
#[derive(Debug)]
pub struct Page;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || vec![("output: live page", LiveCounter::catalogue())],
    always: true,
    takes_events: false,
    ..DeclaredOutput::new(
        "live",
        SECTION,
        "the live page and /metrics for Prometheus",
        section::reading::<WebSection>(),
    )
};

impl OutputKind for Page {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: WebSection = section::read(SECTION, setup.section)?;
        let hosts = section.hosts()?;
        let Some(address) = section.address()? else { return Ok(None) };
        let (plots, pixels) = (setup.plots.to_vec(), setup.pixels.clone());
        Ok(Some(Box::new(PagePlan { address, hosts, plots, pixels, reserved: None })))
    }
}

/// A checked section.
struct PagePlan {
    address: SocketAddr,
    hosts: Vec<String>,
    plots: Vec<Plot>,
    pixels: PixelMap,
    reserved: Option<Reserved>,
}

impl Plan for PagePlan {
    fn reserve(&mut self) -> Result<(), OutputOpenError> {
        let reserved =
            PageServer::reserve(self.address).map_err(|e| OutputOpenError(e.to_string()))?;
        self.reserved = Some(reserved.called(&self.hosts));
        Ok(())
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        if self.reserved.is_none() {
            self.reserve()?;
        }
        let (sink, view) = live(self.plots.clone(), self.pixels.clone(), LiveOptions::default())
            .map_err(|e| OutputOpenError(e.to_string()))?;
        let page = self.reserved.take().map(|listener| {
            let page: Box<dyn StateOutput> = Box::new(Taken { listener, view });
            page
        });
        let sink: Box<dyn Sink> = Box::new(sink);
        Ok(Opened { page, ..sink.into() })
    }
}

/// The page with its address.
struct Taken {
    listener: Reserved,
    view: LiveView,
}

impl StateOutput for Taken {
    fn serve(
        self: Box<Self>,
        run: Arc<dyn StatusSource>,
    ) -> Result<Box<dyn Serving>, OutputOpenError> {
        let server = PageServer::start_on(self.listener, Some(self.view), run);
        Ok(Box::new(server.map_err(|e| OutputOpenError(e.to_string()))?))
    }
}

impl Serving for PageServer {
    fn address(&self) -> Option<SocketAddr> {
        Some(self.addr())
    }

    fn fact(&self) -> String {
        format!("live page http://{}/", self.addr())
    }
}

/// Keys of the section.
const KEYS: &[Key] = &[
    Key::new(Text, "web.listen", "`\"127.0.0.1:8080\"`", "address and port (`[::1]:8080` for IPv6; port 0: a free one), or `off`", "where the live page and `/metrics` for Prometheus are served. There is no password: keep it on 127.0.0.1 or in a trusted network")
        .flag("web", "ADDR", "Address of the live page and /metrics, or off [default: 127.0.0.1:8080]"),
    Key::new(Value, "web.hosts", "`[]`", "up to 64 host names or addresses, without `http://` and port", "names that browsers and Prometheus ask for it under, beside this machine's own ones ([which](page.md#who-may-ask))"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_page_are_hosts_and_nothing_else() {
        let with = |hosts: &[&str]| {
            let hosts = Hosts::More(hosts.iter().map(|&h| h.to_owned()).collect());
            WebSection { hosts, ..WebSection::default() }.hosts().map_err(|e| e.to_string())
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
        let one: WebSection = section::read(SECTION, "hosts = \"daq\"").unwrap();
        assert_eq!(one.hosts().unwrap(), ["daq"]);
    }
}
