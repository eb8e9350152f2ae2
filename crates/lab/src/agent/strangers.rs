//! Connections to an agent that have not said the token: a bounded table without threads, with a clock from outside.
//!
//! A newcomer always gets in; where [`MOST`] are there, the oldest one of the address with the most goes. So
//! passers-by cannot keep a campaign out, nor take threads, memory (4 KiB each) or descriptors. What is told of them is
//! bounded as well. Refuses: a first line that is no greeting, another version, a wrong token; hangs up on who has
//! not greeted after [`HELLO`].

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::message::{self, AgentAnswer, AgentRequest, SCHEMA};

/// Strangers at a time.
pub const MOST: usize = 64;
/// How long a stranger may take to say the token.
pub const HELLO: Duration = Duration::from_secs(5);
/// Guessing is slow: a wrong token is answered after this time.
const GUESS: Duration = Duration::from_millis(500);
/// Lines told about strangers in a [`MINUTE`]; the others are counted.
const TOLD: u32 = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// The other side's words as they come.
pub struct PeerLine {
    /// The connection.
    pub from: BufReader<TcpStream>,
    /// A line that is not complete.
    pub kept: Vec<u8>,
}

struct Stranger {
    line: PeerLine,
    address: SocketAddr,
    since: Instant,
    /// What it will be told, and when.
    refusal: Option<(Instant, String)>,
}

impl Stranger {
    /// Says why it is refused. The answer fits into an empty send buffer, so it never waits.
    fn refuse(self, reason: &str) {
        let _gone = message::write(
            &mut self.line.from.get_ref(),
            &AgentAnswer::Refused { reason: reason.to_owned() },
        );
    }
}

/// What became of a stranger.
enum Fate {
    Stays,
    Known,
    /// Wrong in a way that is answered, at once or later.
    Refused(Duration, String),
    Left(String),
}

/// Bounds what is told of strangers.
#[derive(Debug, Default)]
struct Telling {
    minute: Option<Instant>,
    told: u32,
    left_out: u32,
}

impl Telling {
    fn tell(&mut self, now: Instant, tell: &dyn Fn(&str), line: &str) {
        self.tick(now, tell);
        self.minute.get_or_insert(now);
        if self.told < TOLD {
            self.told += 1;
            tell(line);
        } else {
            self.left_out += 1;
        }
    }

    /// Says how many lines were left out, once their minute is over.
    fn tick(&mut self, now: Instant, tell: &dyn Fn(&str)) {
        if self.minute.is_some_and(|begun| now.duration_since(begun) >= MINUTE) {
            if self.left_out > 0 {
                tell(&format!(
                    "{} more connections without the token within a minute",
                    self.left_out
                ));
            }
            *self = Telling::default();
        }
    }
}

/// All of them.
pub struct Strangers {
    token: String,
    here: Vec<Stranger>,
    telling: Telling,
}

impl Strangers {
    /// Nobody yet.
    pub fn new(token: String) -> Strangers {
        Strangers { token, here: Vec::new(), telling: Telling::default() }
    }

    /// Tells a line about strangers, within the bound.
    pub fn tell(&mut self, now: Instant, tell: &dyn Fn(&str), line: &str) {
        self.telling.tell(now, tell, line);
    }

    /// Lets a connection in.
    pub fn admit(
        &mut self,
        stream: TcpStream,
        address: SocketAddr,
        now: Instant,
        tell: &dyn Fn(&str),
    ) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        if self.here.len() >= MOST {
            let mut counts = HashMap::new();
            for stranger in &self.here {
                *counts.entry(stranger.address.ip()).or_insert(0usize) += 1;
            }
            let crowd = counts.into_iter().max_by_key(|&(_, n)| n).map(|(ip, _)| ip);
            // They stand in the order of their coming.
            if let Some(oldest) = self.here.iter().position(|s| Some(s.address.ip()) == crowd) {
                let oldest = self.here.remove(oldest);
                let line = format!("{}: made room for a newer connection", oldest.address);
                self.telling.tell(now, tell, &line);
                oldest.refuse("too many connections have not greeted: try again");
            }
        }
        let line = PeerLine { from: BufReader::with_capacity(4096, stream), kept: Vec::new() };
        self.here.push(Stranger { line, address, since: now, refusal: None });
        Ok(())
    }

    /// Listens to all of them once; gives those who know the token.
    pub fn look(&mut self, now: Instant, tell: &dyn Fn(&str)) -> Vec<(PeerLine, SocketAddr)> {
        self.telling.tick(now, tell);
        let mut known = Vec::new();
        for mut stranger in std::mem::take(&mut self.here) {
            if let Some((due, reason)) = &stranger.refusal {
                if now < *due {
                    self.here.push(stranger);
                } else {
                    let reason = reason.clone();
                    stranger.refuse(&reason);
                }
                continue;
            }
            match self.hear(&mut stranger, now) {
                Fate::Stays => self.here.push(stranger),
                Fate::Known => known.push((stranger.line, stranger.address)),
                Fate::Left(how) => {
                    self.telling.tell(now, tell, &format!("{}: {how}", stranger.address));
                }
                Fate::Refused(after, reason) => {
                    let line = format!("{}: refused: {reason}", stranger.address);
                    self.telling.tell(now, tell, &line);
                    if after.is_zero() {
                        stranger.refuse(&reason);
                    } else {
                        stranger.refusal = Some((now + after, reason));
                        self.here.push(stranger);
                    }
                }
            }
        }
        known
    }

    fn hear(&self, stranger: &mut Stranger, now: Instant) -> Fate {
        let PeerLine { from, kept } = &mut stranger.line;
        match message::read(from, kept, message::LONGEST_HELLO) {
            Ok(Some(AgentRequest::Hello { schema, .. })) if schema != SCHEMA => {
                let shown: String = schema.chars().take(40).collect();
                let shown = shown.escape_debug();
                let reason =
                    format!("this agent speaks {SCHEMA}, not {shown}: use the same version");
                Fate::Refused(Duration::ZERO, reason)
            }
            Ok(Some(AgentRequest::Hello { token, .. })) if same(&token, &self.token) => Fate::Known,
            Ok(Some(AgentRequest::Hello { .. })) => {
                let reason = "wrong token: both hosts need the same --token-file";
                Fate::Refused(GUESS, reason.to_owned())
            }
            Ok(Some(_)) => {
                Fate::Refused(Duration::ZERO, "the first line is not a greeting".to_owned())
            }
            Ok(None) => Fate::Left("left without a word".to_owned()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if now.duration_since(stranger.since) < HELLO {
                    return Fate::Stays;
                }
                Fate::Left(format!("did not greet within {} s: hung up", HELLO.as_secs()))
            }
            // The words of a stranger do not belong into our log.
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                Fate::Refused(Duration::ZERO, "the first line is not a greeting".to_owned())
            }
            Err(e) => Fate::Left(e.to_string()),
        }
    }
}

/// Compares in a time that depends on the given text's length alone.
fn same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    let mut differing = u8::from(given.len() != token.len()) | u8::from(token.is_empty());
    for (i, byte) in given.iter().enumerate() {
        let other = token.get(i % token.len().max(1)).copied().unwrap_or(0);
        // Opaque, so that no compiler makes an early end of it.
        differing = black_box(differing | (byte ^ other));
    }
    differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const TOKEN: &str = "0123456789abcdef";

    struct Door {
        listener: TcpListener,
        strangers: Strangers,
        told: RefCell<Vec<String>>,
        begun: Instant,
    }

    impl Door {
        fn new() -> Door {
            Door {
                listener: TcpListener::bind("127.0.0.1:0").unwrap(),
                strangers: Strangers::new(TOKEN.to_owned()),
                told: RefCell::default(),
                begun: Instant::now(),
            }
        }

        /// A stranger who has sent `words` by `second`.
        fn come(&mut self, words: &[u8], second: f64) -> TcpStream {
            let mut theirs = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            theirs.write_all(words).unwrap();
            let (ours, address) = self.listener.accept().unwrap();
            // What was sent is there: loopback delivers before `accept` of a later one; be sure of it.
            if !words.is_empty() {
                assert!(ours.peek(&mut [0]).unwrap() > 0);
            }
            let now = self.begun + Duration::from_secs_f64(second);
            let tell = |line: &str| self.told.borrow_mut().push(line.to_owned());
            self.strangers.admit(ours, address, now, &tell).unwrap();
            theirs
        }

        fn look(&mut self, second: f64) -> usize {
            let now = self.begun + Duration::from_secs_f64(second);
            let tell = |line: &str| self.told.borrow_mut().push(line.to_owned());
            self.strangers.look(now, &tell).len()
        }
    }

    fn hello(token: &str) -> Vec<u8> {
        let mut line = Vec::new();
        let hello = AgentRequest::Hello { schema: SCHEMA.into(), token: token.into() };
        message::write(&mut line, &hello).unwrap();
        line
    }

    /// Until the other side hangs up; a reset is an end as well.
    fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        let mut part = [0; 512];
        while let Ok(n @ 1..) = stream.read(&mut part) {
            bytes.extend_from_slice(&part[..n]);
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_campaign_gets_in_however_many_strangers_drip() {
        let mut door = Door::new();
        let many: Vec<TcpStream> = (0..300).map(|_| door.come(b"{", 0.0)).collect();
        assert_eq!(door.strangers.here.len(), MOST);
        let _campaign = door.come(&hello(TOKEN), 0.1);
        assert_eq!(door.look(0.1), 1);
        assert!(door.told.borrow().len() <= TOLD as usize, "{:?}", door.told);
        // Who drips on has no more time for it.
        for mut stream in &many {
            let _ended = stream.write_all(b" ");
        }
        assert_eq!(door.look(4.9), 0);
        assert_eq!(door.strangers.here.len(), MOST - 1);
        assert_eq!(door.look(5.0), 0);
        assert_eq!(door.strangers.here.len(), 0);
        door.look(61.0);
        let told = door.told.borrow();
        assert!(told.last().unwrap().contains("more connections without the token"), "{told:?}");
    }

    #[test]
    fn wrong_words_are_refused_and_guessing_is_slow() {
        let mut door = Door::new();
        let wrong = door.come(&hello("fedcba9876543210"), 0.0);
        let poll = door.come(b"{\"ask\":\"poll\"}\n", 0.0);
        let nonsense = door.come(b"GET / HTTP/1.1\r\n\r\n", 0.0);
        let long = door.come(&[b'x'; 5000], 0.0);
        let old = door
            .come(b"{\"ask\":\"hello\",\"schema\":\"fullcount/agent/0\",\"token\":\"\"}\n", 0.0);
        assert_eq!(door.look(0.0), 0);
        assert_eq!(door.strangers.here.len(), 1, "the guess waits");
        for stream in [poll, nonsense, long] {
            assert!(matches!(
                rest(stream).as_str(),
                "" | "{\"say\":\"refused\",\"reason\":\"the first line is not a greeting\"}\n"
            ));
        }
        assert!(rest(old).contains("use the same version"));
        door.look(0.49);
        assert_eq!(door.strangers.here.len(), 1);
        door.look(0.5);
        assert!(rest(wrong).contains("wrong token"));
        assert!(!door.told.borrow().iter().any(|line| line.contains("GET /")), "{:?}", door.told);
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(same("ab", "ab") && !same("ab", "abc") && !same("abab", "ab") && !same("ab", "aB"));
        assert!(!same("", "a") && !same("a", "") && !same("", ""));
    }
}
