//! Names and addresses that the page answers to, and the check before every request.
//!
//! Another site can make a browser ask this server: after its page is loaded, it gives its own name this machine's
//! address (DNS rebinding), and then both are one site for the browser. Only the name in the request distinguishes
//! them. So the check refuses, with 421, every `Host` that is not this machine's: `localhost`, an address of this
//! machine, its host name, or a name of `web.hosts`; and, with 403, changes requested by another site's page. Source:
//! `docs/page.md`, "Who may ask".

use std::net::{IpAddr, SocketAddr, UdpSocket};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// What a browser may load: this server's files only.
const POLICY: &str =
    "default-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Names that the page is asked for under, in lower case and without a dot at the end.
#[derive(Debug, Clone)]
pub struct PageNames {
    names: Vec<String>,
    own: Option<String>,
    listen: SocketAddr,
}

/// Lower case, without the dot of a complete domain name.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// An address as in `Host`: `127.0.0.1`, `[::1]`, or bare.
fn address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    inner.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// True if this machine has the address: only then a socket can be bound to it. Checked each time, because addresses
/// change.
fn of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// The machine's name, if the system has one.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = plain(name.trim());
    (!name.is_empty() && name != "(none)").then_some(name)
}

impl PageNames {
    /// Names for a server at `listen`, with those of `web.hosts`.
    pub fn new(listen: SocketAddr, configured: &[String]) -> PageNames {
        let own = host_name();
        let mut names = vec!["localhost".to_owned()];
        if let Some(own) = &own {
            // `daq1.example.org` is called `daq1` by its neighbours.
            names.extend([own.clone(), own.split('.').next().unwrap_or(own).to_owned()]);
        }
        names.extend(configured.iter().map(|name| plain(name)));
        PageNames { names, own, listen }
    }

    /// Whether the page answers to this host, without its port: a tunnel or a gateway may change that.
    fn knows(&self, host: &str) -> bool {
        let name = plain(host);
        match address(&name) {
            Some(ip) => self.names.iter().any(|n| address(n) == Some(ip)) || of_this_machine(ip),
            None => self.names.contains(&name),
        }
    }

    /// Addresses that a viewer may use instead, for the refusal.
    fn instead(&self) -> String {
        let port = self.listen.port();
        let open_to_all = !self.listen.ip().is_loopback();
        match self.own.as_ref().filter(|_| open_to_all) {
            Some(own) => format!("http://localhost:{port}/ or http://{own}:{port}/"),
            None => format!("http://localhost:{port}/"),
        }
    }

    /// Why the request is not for this server; `None` if it is.
    fn refuses(&self, request: &Request) -> Option<(StatusCode, String)> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (first, second) = (hosts.next(), hosts.next());
        if second.is_some() || (first.is_none() && request.version() >= Version::HTTP_11) {
            let text = "refused: a request has one Host header\n".to_owned();
            return Some((StatusCode::BAD_REQUEST, text));
        }
        let wanted = first.map(|h| h.to_str().unwrap_or("?"));
        // A complete address in the request line says it once more.
        let wanted = wanted.into_iter().chain(request.uri().authority().map(Authority::as_str));
        for text in wanted {
            let host = match text.parse::<Authority>() {
                Ok(authority) if !text.contains('@') => authority.host().to_owned(),
                _ => text.to_owned(),
            };
            if !self.knows(&host) {
                // It is returned to the sender, as plain text.
                let shown: String = host.chars().filter(char::is_ascii_graphic).take(100).collect();
                let text = format!(
                    "refused: this server is not called '{shown}'. Open {}, or add the name to web.hosts\n",
                    self.instead()
                );
                return Some((StatusCode::MISDIRECTED_REQUEST, text));
            }
        }
        None
    }
}

/// Refuses requests for other names, and changes asked for by other sites' pages; adds the headers that
/// every answer carries.
pub async fn guard(
    State(names): State<std::sync::Arc<PageNames>>,
    request: Request,
    next: Next,
) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = if let Some(refusal) = names.refuses(&request) {
        refusal.into_response()
    } else if changes && !same_site(request.headers()) {
        let text = "refused: this request comes from another site's page\n";
        (StatusCode::FORBIDDEN, text).into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A browser always says where a POST comes from; programs like curl say nothing and are let in.
fn same_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    let fetched = text("sec-fetch-site").is_none_or(|s| s == "same-origin" || s == "none");
    let origin = text("origin").is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == text("host")
    });
    fetched && origin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(configured: &[&str]) -> PageNames {
        let configured: Vec<String> = configured.iter().map(|&n| n.to_owned()).collect();
        PageNames::new("0.0.0.0:8080".parse().unwrap(), &configured)
    }

    #[test]
    fn this_machines_names_and_addresses_are_known() {
        let n = names(&[]);
        for host in
            ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.5.6.7", "[::1]", "0.0.0.0"]
        {
            assert!(n.knows(host), "{host}");
        }
        let own = host_name().expect("Linux tells its name");
        assert!(n.knows(&own) && n.knows(&own.to_uppercase()), "{own}");
        assert!(n.instead().contains(&own), "{}", n.instead());
    }

    #[test]
    fn other_names_are_not() {
        let n = names(&[]);
        let own = host_name().unwrap();
        // Addresses for documentation are nobody's.
        let like_own = format!("{own}.evil.example");
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            &like_own,
            "",
            "?",
            "203.0.113.77",
            "[2001:db8::1]",
            "2130706433",
            "0x7f.1",
            "[::1",
            "localhost..",
            "*",
        ] {
            assert!(!n.knows(host), "{host}");
        }
    }

    #[test]
    fn configured_names_are_known_as_written_and_in_any_case() {
        let n = names(&["DAQ.example.org", "203.0.113.77", "2001:db8::1"]);
        for host in [
            "daq.example.org",
            "daq.EXAMPLE.org.",
            "203.0.113.77",
            "[2001:db8::1]",
            "[2001:db8:0::1]",
        ] {
            assert!(n.knows(host), "{host}");
        }
        assert!(!n.knows("other.example.org") && !n.knows("203.0.113.78"));
    }
}
