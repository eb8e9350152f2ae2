//! `udp://HOST:FIRST-LAST` stands for one endpoint per port.
//!
//! Refuses ranges that run backwards, hold port 0 or more than 64 ports. Source: `docs/architecture.md`,
//! "Configuration".

use crate::config::{ConfigError, refuse};

/// Most ports of a range: each has a worker of its own.
const MOST: u32 = 64;

/// The endpoints that a URL stands for: itself, unless its port is a range.
///
/// # Errors
/// What is wrong with the range.
pub fn each(url: &str) -> Result<Vec<String>, ConfigError> {
    let itself = || Ok(vec![url.to_owned()]);
    if !url.starts_with("udp://") {
        return itself();
    }
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (url, String::new()),
    };
    let Some((host, ports)) = place.rsplit_once(':') else { return itself() };
    let Some((first, last)) = ports.split_once('-') else { return itself() };
    let why = "a range of ports is FIRST-LAST, both from 1 to 65535, at most 64 ports";
    let wrong = || refuse("source.url", url, why);
    let port = |text: &str| text.parse::<u16>().ok().filter(|&p| p > 0).map(u32::from);
    let (first, last) = port(first).zip(port(last)).ok_or_else(wrong)?;
    if last < first || last - first >= MOST {
        return Err(wrong());
    }
    Ok((first..=last).map(|port| format!("{host}:{port}{query}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_url_per_port_and_anything_else_itself() {
        for url in ["udp://[::1]:9000", "pcap:a-b:1-2", "udp://host-1:9000?spin", "nonsense"] {
            assert_eq!(each(url).unwrap(), [url]);
        }
        let all = each("udp://[::1]:9000-9002?spin=1").unwrap();
        let want = [9000, 9001, 9002].map(|p| format!("udp://[::1]:{p}?spin=1"));
        assert_eq!(all, want);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused_with_the_rule() {
        for ports in ["9-8", "0-3", "1-65", "1-70000", "-3", "3-"] {
            let e = each(&format!("udp://0.0.0.0:{ports}")).unwrap_err().to_string();
            assert!(e.contains("FIRST-LAST"), "{ports}: {e}");
        }
        assert_eq!(each("udp://0.0.0.0:1-64").unwrap().len(), 64);
    }
}
