//! The three states, what can happen in each, and what then is done: one table, which the sender obeys and docs/stcp.md shows.
//!
//! Source: docs/stcp.md, "States"; RFC 9293 section 3.10 without LISTEN and without an orderly close.

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StcpState {
    /// Not connected.
    Closed,
    /// Looks for the neighbour, or has sent a SYN.
    SynSent,
    /// Sends.
    Established,
}

impl StcpState {
    /// All, in the order of the table's columns.
    pub const ALL: [StcpState; 3] = [StcpState::Closed, StcpState::SynSent, StcpState::Established];

    /// As the table calls it.
    pub const fn name(self) -> &'static str {
        match self {
            StcpState::Closed => "CLOSED",
            StcpState::SynSent => "SYN_SENT",
            StcpState::Established => "ESTABLISHED",
        }
    }
}

macro_rules! triggers {
    ($($name:ident $text:literal)*) => {
        /// What can happen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Trigger { $(#[doc = $text] $name),* }
        impl Trigger {
            /// All, in the order of the table's rows.
            pub const ALL: &'static [Trigger] = &[$(Trigger::$name),*];
            /// As the table calls it.
            pub const fn text(self) -> &'static str { match self { $(Trigger::$name => $text),* } }
        }
    };
}

triggers! {
    Open "application: open"
    Submit "application: submit a fragment"
    Flush "application: flush"
    Abort "application: abort"
    NeighbourLost "neighbour unreachable"
    SynTimer "timer: SYN"
    RtoTimer "timer: retransmission"
    PersistTimer "timer: persist"
    PushTimer "timer: coalescing, or override of silly windows"
    KeepAliveTimer "timer: keep-alive"
    Malformed "segment that is malformed or has a wrong checksum"
    SynAck "SYN+ACK that acknowledges our SYN"
    Syn "SYN (in ESTABLISHED with or without ACK)"
    BadAck "ACK of what was never sent, or of long ago"
    Reset "RST that fits (SYN_SENT: acknowledges our SYN; ESTABLISHED: exact number)"
    ResetNear "RST inside the window, not exact"
    ResetElsewhere "any other RST"
    Outside "segment outside the receive window"
    Bare "segment without ACK, or without SYN in SYN_SENT"
    Ack "ACK in range"
    Data "payload from the peer"
    Fin "FIN"
    IcmpHard "ICMP: protocol or port unreachable, quoting this connection"
    IcmpSoft "ICMP: network or host unreachable, source route, time exceeded, parameter problem"
    IcmpTooBig "ICMP: fragmentation needed"
}

macro_rules! reactions {
    ($($name:ident $text:literal)*) => {
        /// What is done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reaction { $(#[doc = $text] $name),* }
        impl Reaction {
            /// As the table says it.
            pub const fn text(self) -> &'static str { match self { $(Reaction::$name => $text),* } }
        }
    };
}

reactions! {
    Never "cannot happen"
    Nothing "nothing"
    Drop "drop, count"
    Begin "number chosen, SYN sent when the neighbour is known, SYN timer"
    AlreadyOpen "error: already open"
    NotConnected "error: not connected"
    Take "into the send buffer, or WouldBlock"
    Remember "remembered"
    PushTail "the tail may leave as a short segment"
    Leave "send buffer dropped, nothing sent"
    LocalAbort "RST, send buffer dropped"
    Unreachable "ends with HostUnreachable"
    KeepTrying "count; data is retried until the limit"
    ResendSyn "the same SYN again, interval doubled; at the limit ends with ConnectTimeout"
    Retransmit "retransmission, interval doubled; at the limit RST and SendTimeout"
    Probe "probe of 1 byte, interval doubled; without any answer until the limit RST and PeerDead"
    KeepAlive "probe; without answer to the last RST and PeerDead"
    RuleC "RST (rate limited): with ACK at SEQ = SEG.ACK, else RST+ACK of all it holds"
    Connect "options and window taken, ACK, Connected"
    NoSimultaneous "drop, count: simultaneous open is not supported"
    HalfOpen "RST with SEQ = SEG.ACK; SYN again after 10 ms, once in a period of the SYN timer"
    Refused "ends with Refused"
    PeerReset "ends with ResetByPeer"
    Challenge "challenge ACK (rate limited), drop"
    Process "window, acknowledged bytes, round trip, recovery"
    PeerData "policy: RST and PeerSentData (default), or count and ignore"
    PeerFin "policy: RST and PeerClosed (default), or acknowledge and go on sending"
    IcmpEnd "ends with IcmpError if it quotes our SYN, else count"
    IcmpCheck "RST and IcmpError if the quoted number is in flight, else count"
    Note "count"
    LowerMss "MSS lowered if the quoted number is in flight and the new one is at least 536 bytes"
}

/// One field of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// What is done.
    pub reaction: Reaction,
    /// States that the connection may be in afterwards.
    pub next: &'static [StcpState],
}

const C: &[StcpState] = &[StcpState::Closed];
const S: &[StcpState] = &[StcpState::SynSent];
const E: &[StcpState] = &[StcpState::Established];
const SC: &[StcpState] = &[StcpState::SynSent, StcpState::Closed];
const EC: &[StcpState] = &[StcpState::Established, StcpState::Closed];

const fn cell(reaction: Reaction, next: &'static [StcpState]) -> Response {
    Response { reaction, next }
}

/// What `trigger` does in `state`.
pub const fn response(state: StcpState, trigger: Trigger) -> Response {
    use Reaction as R;
    let row = match trigger {
        Trigger::Open => [cell(R::Begin, S), cell(R::AlreadyOpen, S), cell(R::AlreadyOpen, E)],
        Trigger::Submit => [cell(R::NotConnected, C), cell(R::Take, S), cell(R::Take, E)],
        Trigger::Flush => [cell(R::Nothing, C), cell(R::Remember, S), cell(R::PushTail, E)],
        Trigger::Abort => [cell(R::Nothing, C), cell(R::Leave, C), cell(R::LocalAbort, C)],
        Trigger::NeighbourLost => {
            [cell(R::Nothing, C), cell(R::Unreachable, C), cell(R::KeepTrying, E)]
        }
        Trigger::SynTimer => [cell(R::Never, C), cell(R::ResendSyn, SC), cell(R::Never, E)],
        Trigger::RtoTimer => [cell(R::Never, C), cell(R::Never, S), cell(R::Retransmit, EC)],
        Trigger::PersistTimer => [cell(R::Never, C), cell(R::Never, S), cell(R::Probe, EC)],
        Trigger::PushTimer => [cell(R::Never, C), cell(R::Never, S), cell(R::PushTail, E)],
        Trigger::KeepAliveTimer => [cell(R::Never, C), cell(R::Never, S), cell(R::KeepAlive, EC)],
        Trigger::Malformed => [cell(R::Drop, C), cell(R::Drop, S), cell(R::Drop, E)],
        Trigger::SynAck => [cell(R::RuleC, C), cell(R::Connect, EC), cell(R::Challenge, E)],
        Trigger::Syn => [cell(R::RuleC, C), cell(R::NoSimultaneous, S), cell(R::Challenge, E)],
        Trigger::BadAck => [cell(R::RuleC, C), cell(R::HalfOpen, S), cell(R::Challenge, E)],
        Trigger::Reset => [cell(R::Drop, C), cell(R::Refused, C), cell(R::PeerReset, C)],
        Trigger::ResetNear => [cell(R::Drop, C), cell(R::Drop, S), cell(R::Challenge, E)],
        Trigger::ResetElsewhere => [cell(R::Drop, C), cell(R::Drop, S), cell(R::Drop, E)],
        Trigger::Outside => [cell(R::RuleC, C), cell(R::Drop, S), cell(R::Challenge, E)],
        Trigger::Bare => [cell(R::RuleC, C), cell(R::Drop, S), cell(R::Drop, E)],
        Trigger::Ack => [cell(R::RuleC, C), cell(R::Drop, S), cell(R::Process, E)],
        Trigger::Data => [cell(R::RuleC, C), cell(R::Drop, S), cell(R::PeerData, EC)],
        Trigger::Fin => [cell(R::RuleC, C), cell(R::Drop, S), cell(R::PeerFin, EC)],
        Trigger::IcmpHard => [cell(R::Nothing, C), cell(R::IcmpEnd, SC), cell(R::IcmpCheck, EC)],
        Trigger::IcmpSoft => [cell(R::Nothing, C), cell(R::Note, S), cell(R::Note, E)],
        Trigger::IcmpTooBig => [cell(R::Nothing, C), cell(R::Note, S), cell(R::LowerMss, E)],
    };
    match state {
        StcpState::Closed => row[0],
        StcpState::SynSent => row[1],
        StcpState::Established => row[2],
    }
}

/// Writes the table in Markdown.
///
/// # Errors
/// Those of `to`.
pub fn markdown(to: &mut impl core::fmt::Write) -> core::fmt::Result {
    writeln!(to, "| what happens | CLOSED | SYN_SENT | ESTABLISHED |\n|---|---|---|---|")?;
    for &trigger in Trigger::ALL {
        write!(to, "| {}", trigger.text())?;
        for state in StcpState::ALL {
            let Response { reaction, next } = response(state, trigger);
            write!(to, " | {}", reaction.text())?;
            if next != [state] {
                write!(to, " → ")?;
                for (at, next) in next.iter().enumerate() {
                    write!(to, "{}{}", if at > 0 { " or " } else { "" }, next.name())?;
                }
            }
        }
        writeln!(to, " |")?;
    }
    Ok(())
}
