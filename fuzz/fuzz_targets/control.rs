//! Any bytes as what a client of the control port sends: no panic, each receive answered, memory bounded. The input is a
//! list of receives: what may be sent at a time, who sends, length (16 bits, big-endian), bytes.
#![no_main]

use fullcount_core::command::session::LARGEST;
use fullcount_core::command::{
    Access, Answer, BadArguments, Command, Desk, Session, Token, number,
};
use libfuzzer_sys::fuzz_target;

/// Shortest reply that repeats what it was asked.
fn desk() -> Desk {
    let mut desk = Desk { token: Token::read("0123456789abcdef").ok(), ..Desk::default() };
    let echo = |arguments: &[&str]| {
        let word = *arguments.first().ok_or(BadArguments)?;
        Ok(Answer::Values(format!("{word} {}", number(word).unwrap_or(-1))))
    };
    desk.commands.register(Command::read("STAT_GET", ("I", "one"), 1..=1, echo));
    desk.commands
        .register(Command::change("EXIT", ("", "the end"), 0..=0, |_| Ok(Answer::Goodbye)));
    desk
}

fuzz_target!(|input: &[u8]| {
    let desk = desk();
    let access = [Access::Nothing, Access::Read, Access::All];
    let (mut session, mut rest) = (Session::new(Access::All), input);
    while let [part, who, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (request, behind) = tail.split_at(len);
        rest = behind;
        if session.is_over() {
            session = Session::new(access[usize::from(*who) % 3]);
        }
        assert!(session.wants_input());
        session.receive(request, &desk);
        assert!(!session.output().is_empty(), "each receive is answered");
        while !session.output().is_empty() {
            assert!(session.held() <= 4 * LARGEST, "{}", session.held());
            let n = session.output().len().min(1 + usize::from(*part));
            session.sent(n, &desk);
        }
    }
});
