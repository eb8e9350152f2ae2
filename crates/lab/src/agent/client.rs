//! The far end of a campaign: a [`Post`] whose children another host's agent runs.
//!
//! Refuses: an agent that cannot be reached, that does not take the token, speaks another version or falls
//! silent.

use std::cell::RefCell;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use super::message::{self, AgentAnswer, AgentRequest, SCHEMA};
use super::order::Order;
use super::sample::Sampling;
use super::{ChildReport, ChildWork, Post, PostError};

/// Port of an agent unless the address says otherwise.
pub const PORT: u16 = 9440;
/// How long an agent may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);
/// How long it may take to answer: a receiver that does not open its port takes 10 s.
const ANSWER: Duration = Duration::from_secs(20);

struct Line {
    from: BufReader<TcpStream>,
    to: TcpStream,
    kept: Vec<u8>,
}

/// Another host, by its agent.
pub struct FarPost {
    name: String,
    line: RefCell<Line>,
    /// Address that the measured packets go to or come from.
    address: IpAddr,
    own: IpAddr,
    host: Value,
    buffers: (Option<u64>, Option<u64>),
}

/// `HOST` or `HOST:PORT` with the usual port.
fn with_port(text: &str) -> String {
    let bracketed = text.starts_with('[');
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{PORT}"),
        Ok(IpAddr::V4(_)) => format!("{text}:{PORT}"),
        Err(_) if bracketed && text.ends_with(']') => format!("{text}:{PORT}"),
        Err(_) if bracketed || text.contains(':') => text.to_owned(),
        Err(_) => format!("{text}:{PORT}"),
    }
}

impl FarPost {
    /// Greets the agent at `address` (`HOST` or `HOST:PORT`).
    ///
    /// # Errors
    /// It cannot be reached or refuses.
    pub fn connect(address: &str, token: &str) -> Result<FarPost, PostError> {
        let name = with_port(address);
        let lost = |cause: String| PostError::Unreachable { address: name.clone(), cause };
        let found: Vec<SocketAddr> =
            name.to_socket_addrs().map_err(|e| lost(e.to_string()))?.collect();
        let mut last = "the name has no address".to_owned();
        let mut stream = None;
        for at in found {
            match TcpStream::connect_timeout(&at, CONNECT) {
                Ok(s) => {
                    stream = Some(s);
                    break;
                }
                Err(e) => last = format!("{at}: {e}"),
            }
        }
        let stream = stream.ok_or_else(|| lost(last))?;
        let system = |e: std::io::Error| lost(e.to_string());
        stream.set_nodelay(true).map_err(system)?;
        stream.set_read_timeout(Some(ANSWER)).map_err(system)?;
        stream.set_write_timeout(Some(ANSWER)).map_err(system)?;
        let far = stream.peer_addr().map_err(system)?.ip();
        let own = stream.local_addr().map_err(system)?.ip();
        let from = BufReader::new(stream.try_clone().map_err(system)?);
        let line = RefCell::new(Line { from, to: stream, kept: Vec::new() });
        let (host, buffers) = (Value::Null, (None, None));
        let mut post = FarPost { name, line, address: far, own, host, buffers };
        let hello = AgentRequest::Hello { schema: SCHEMA.to_owned(), token: token.to_owned() };
        match post.ask(&hello)? {
            AgentAnswer::Welcome { version, host, buffers } => {
                let here = env!("CARGO_PKG_VERSION");
                if version != here {
                    let reason = format!("it is version {version}, this is {here}");
                    return Err(PostError::Refused { address: post.name, reason });
                }
                (post.host, post.buffers) = (host, buffers);
                Ok(post)
            }
            AgentAnswer::Refused { reason } => {
                Err(PostError::Refused { address: post.name, reason })
            }
            other => Err(post.strange(&other)),
        }
    }

    /// The measured packets use `address` instead of the one that the agent was reached under.
    pub fn over(self, address: IpAddr) -> FarPost {
        FarPost { address, ..self }
    }

    /// Address of this host as the agent sees it, unless something rewrites it on the way.
    pub fn own_address(&self) -> IpAddr {
        self.own
    }

    fn strange(&self, answer: &AgentAnswer) -> PostError {
        let said = serde_json::to_string(answer).unwrap_or_default().chars().take(200).collect();
        PostError::Strange { address: self.name.clone(), said }
    }

    fn ask(&self, request: &AgentRequest) -> Result<AgentAnswer, PostError> {
        let lost = |cause: String| PostError::Unreachable { address: self.name.clone(), cause };
        let line = &mut *self.line.borrow_mut();
        let gone = "the connection ended in mid-run".to_owned();
        let written = message::write(&mut line.to, request);
        written.map_err(|e| lost(format!("{gone}: {e}")))?;
        match message::read(&mut line.from, &mut line.kept, message::LONGEST) {
            Ok(Some(AgentAnswer::Failed { reason })) => {
                Err(PostError::Far { address: self.name.clone(), reason })
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(lost(gone)),
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                Err(PostError::Strange { address: self.name.clone(), said: e.to_string() })
            }
            Err(e) => Err(lost(format!("{gone}: {e}"))),
        }
    }

    fn done(&self, request: &AgentRequest) -> Result<(), PostError> {
        match self.ask(request)? {
            AgentAnswer::Done => Ok(()),
            other => Err(self.strange(&other)),
        }
    }
}

impl Post for FarPost {
    fn start(&self, order: &Order) -> Result<Box<dyn ChildWork + '_>, PostError> {
        order.check()?;
        match self.ask(&AgentRequest::Start { order: order.clone() })? {
            AgentAnswer::Started { port } => {
                Ok(Box::new(FarWork { post: self, port, ended: false }))
            }
            other => Err(self.strange(&other)),
        }
    }

    fn address(&self) -> IpAddr {
        self.address
    }

    fn host(&self) -> Value {
        self.host.clone()
    }

    fn buffers(&self) -> (Option<u64>, Option<u64>) {
        self.buffers
    }
}

/// A child on another host; ended when dropped.
struct FarWork<'a> {
    post: &'a FarPost,
    port: Option<u16>,
    ended: bool,
}

impl ChildWork for FarWork<'_> {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn poll(&mut self) -> Result<Option<ChildReport>, PostError> {
        match self.post.ask(&AgentRequest::Poll) {
            Ok(AgentAnswer::Running) => Ok(None),
            Ok(AgentAnswer::Ended { report }) => {
                self.ended = true;
                Ok(Some(report))
            }
            Ok(other) => Err(self.post.strange(&other)),
            Err(e) => {
                self.ended = true;
                Err(e)
            }
        }
    }

    fn sample(&mut self, sampling: Sampling) -> Result<(), PostError> {
        self.post.done(&AgentRequest::Sample { sampling })
    }

    fn interrupt(&mut self) -> Result<(), PostError> {
        self.post.done(&AgentRequest::Interrupt)
    }
}

impl Drop for FarWork<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // An agent that is gone has killed it already.
            let _ = self.post.ask(&AgentRequest::Drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_usual_port() {
        for (text, full) in [
            ("10.0.0.2", "10.0.0.2:9440"),
            ("10.0.0.2:1", "10.0.0.2:1"),
            ("daq2", "daq2:9440"),
            ("daq2:77", "daq2:77"),
            ("fe80::1", "[fe80::1]:9440"),
            ("[::1]", "[::1]:9440"),
            ("[::1]:5", "[::1]:5"),
        ] {
            assert_eq!(with_port(text), full);
        }
    }

    #[test]
    fn an_agent_that_is_not_there_is_named() {
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let e = FarPost::connect(&free.to_string(), "0123456789abcdef").err().unwrap();
        assert!(e.to_string().contains(&free.to_string()), "{e}");
        assert!(matches!(e, PostError::Unreachable { .. }), "{e}");
    }
}
