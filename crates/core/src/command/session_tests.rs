//! The protocol as its document has it, and against what nobody should send.

use super::*;
use proptest::prelude::*;

const TOKEN: &str = "0123456789abcdef";

fn desk() -> Desk {
    let mut commands = Commands::default();
    let get = |arguments: &[&str]| match arguments {
        [n] => Ok(Answer::Values(format!("{n} 5"))),
        _ => Ok(Answer::Values("5".into())),
    };
    commands.register(Command::read("A_GET", ("[N]", "an a"), 0..=1, get));
    commands.register(Command::change("A_SET", ("", "sets it"), 0..=0, |_| Ok(Answer::Done)));
    commands.register(Command::change("EXIT", ("", "the end"), 0..=0, |_| Ok(Answer::Goodbye)));
    let token = Some(Token::read(TOKEN).unwrap());
    Desk { commands, token, ..Desk::default() }
}

/// All that is said to one receive.
fn ask(session: &mut Session, request: &[u8], desk: &Desk) -> String {
    session.receive(request, desk);
    let mut all = Vec::new();
    while !session.output().is_empty() {
        let part = session.output().to_vec();
        all.extend_from_slice(&part);
        session.sent(part.len(), desk);
    }
    String::from_utf8(all).unwrap()
}

fn once(request: &str) -> String {
    ask(&mut Session::new(Access::All), request.as_bytes(), &desk())
}

#[test]
fn one_receive_is_one_command_and_its_reply_has_no_newline() {
    for (request, reply) in [
        ("A_GET", "A_GET 5"),
        ("A_GET\n", "A_GET 5"),
        ("A_GET\r\n", "A_GET 5"),
        ("A_GET\r", "A_GET 5"),
        ("  A_GET   7  \n\n", "A_GET 7 5"),
        ("A_GET\n7", "A_GET 7 5"),
        ("\nA_SET\n", "<OK>"),
        ("A_GET 1 2", "Error: <BADARGS>"),
        ("A_GET A_GET", "A_GET A_GET 5"),
        ("A_GET\r7", "Error: <BADCMD>"),
        ("a_get", "Error: <BADCMD>"),
        ("A_GETx", "Error: <BADCMD>"),
        (" \n ", "Error: <BADCMD>"),
        ("\n", "Error: <BADCMD>"),
        ("\0", "Error: <BADCMD>"),
        ("", "Error: <BADSIZE>"),
    ] {
        assert_eq!(once(request), reply, "{request:?}");
    }
    assert_eq!(once(&"A".repeat(LARGEST)), "Error: <BADCMD>");
    assert_eq!(once(&"A".repeat(LARGEST + 1)), "Error: <BADSIZE>");
    let bytes = ask(&mut Session::new(Access::All), b"A_GET \xff", &desk());
    assert_eq!(bytes, "Error: <BADARGS>");
}

#[test]
fn lines_are_commands_only_if_each_begins_with_one() {
    assert_eq!(once("A_GET\nA_SET\n"), "A_GET 5\n<OK>\n");
    assert_eq!(
        once("A_GET 1\r\n\r\n\nA_GET 1 2\nEXIT\nA_GET"),
        "A_GET 1 5\nError: <BADARGS>\n<OK>\n"
    );
    // One of them begins otherwise: all is one command, as it always was.
    assert_eq!(once("A_GET\nA_SETx"), "A_GET A_SETx 5");
    assert_eq!(once("A_GET\n A_SET"), "A_GET A_SET 5");
    assert_eq!(once("A_GET\n  \nA_SET"), "A_GET A_SET 5");
}

#[test]
fn who_is_not_trusted_reads_at_most_until_the_token_is_given() {
    let desk = desk();
    let mut stranger = Session::new(Access::Nothing);
    for request in ["A_GET", "A_SET", "HELP", "NO_SUCH", "\n"] {
        assert_eq!(ask(&mut stranger, request.as_bytes(), &desk), "Error: <NOAUTH>");
    }
    let mut reader = Session::new(Access::Read);
    assert_eq!(ask(&mut reader, b"A_GET", &desk), "A_GET 5");
    assert_eq!(ask(&mut reader, b"EXIT", &desk), "Error: <NOAUTH>");
    assert!(!reader.is_over());
    assert_eq!(ask(&mut reader, b"NO_SUCH", &desk), "Error: <BADCMD>");
    for session in [&mut stranger, &mut reader] {
        assert_eq!(ask(session, format!("AUTH {TOKEN}\n").as_bytes(), &desk), "<OK>");
        assert_eq!(ask(session, b"A_SET", &desk), "<OK>");
    }
    let mut guesser = Session::new(Access::Nothing);
    for _ in 0..2 {
        assert_eq!(ask(&mut guesser, b"AUTH 0123456789abcdeg", &desk), "Error: <NOAUTH>");
        assert!(!guesser.is_over());
    }
    assert_eq!(ask(&mut guesser, b"AUTH x", &desk), "Error: <NOAUTH>");
    assert!(guesser.is_over());
    let nobody = Desk { token: None, ..desk };
    assert_eq!(ask(&mut Session::new(Access::Nothing), b"AUTH ", &nobody), "Error: <BADARGS>");
    let empty = format!("AUTH {TOKEN}");
    assert_eq!(
        ask(&mut Session::new(Access::Nothing), empty.as_bytes(), &nobody),
        "Error: <NOAUTH>"
    );
}

#[test]
fn a_command_that_tells_without_arguments_needs_the_right_to_read_so_far() {
    let mut desk = desk();
    let both = |arguments: &[&str]| match arguments {
        [] => Ok(Answer::Values("info".into())),
        _ => Ok(Answer::Done),
    };
    let both = Command::change("LEVEL", ("[N]", "tells or sets it"), 0..=1, both);
    desk.commands.register(both.telling_bare());
    let mut reader = Session::new(Access::Read);
    assert_eq!(ask(&mut reader, b"LEVEL", &desk), "LEVEL info");
    assert_eq!(ask(&mut reader, b"LEVEL 7", &desk), "Error: <NOAUTH>");
    assert_eq!(ask(&mut reader, b"A_SET", &desk), "Error: <NOAUTH>", "it always changes something");
    assert_eq!(ask(&mut Session::new(Access::Nothing), b"LEVEL", &desk), "Error: <NOAUTH>");
    assert_eq!(ask(&mut Session::new(Access::All), b"LEVEL 7", &desk), "<OK>");
}

thread_local! {
    /// What was recorded by this test's thread.
    static RECORD: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn record(given: &GivenCommand<'_>) {
    let GivenCommand { client, name, arguments, changes, refused } = given;
    let client = client.map_or("?".into(), |client| client.to_string());
    let line = format!("{client} {name} {arguments:?} {changes} {refused:?}");
    RECORD.with_borrow_mut(|all| all.push(line));
}

#[test]
fn every_command_is_recorded_with_its_client_and_no_token_is() {
    let desk = Desk { record: Some(record), ..desk() };
    let client = "10.0.0.9:4711".parse().unwrap();
    let mut session = Session::new(Access::Read).of_client(client);
    let not_allowed = "this client may not give it without the token: AUTH TOKEN";
    let wrong = NotDone::Arguments.why();
    for (request, recorded) in [
        (b"A_GET 7".to_vec(), "A_GET [\"7\"] false None".to_owned()),
        (b"A_GET 1 2".to_vec(), format!("A_GET [] false Some({wrong:?})")),
        (b"A_GET \xff".to_vec(), format!("A_GET [] false Some({wrong:?})")),
        (b"WHY".to_vec(), "WHY [] false None".to_owned()),
        (b"A_SET".to_vec(), format!("A_SET [] true Some({not_allowed:?})")),
        (
            format!("auth {TOKEN}").into_bytes(),
            " [] false Some(\"there is no such command: HELP lists them\")".to_owned(),
        ),
        (format!("A_SET {TOKEN}").into_bytes(), format!("A_SET [] true Some({not_allowed:?})")),
        (format!("AUTH {TOKEN} 1").into_bytes(), format!("AUTH [] true Some({wrong:?})")),
        (
            format!("AUTH {TOKEN}x").into_bytes(),
            "AUTH [] true Some(\"this is not the token\")".to_owned(),
        ),
        (format!("AUTH {TOKEN}").into_bytes(), "AUTH [] true None".to_owned()),
        (b"A_SET".to_vec(), "A_SET [] true None".to_owned()),
    ] {
        ask(&mut session, &request, &desk);
        let all = RECORD.take();
        assert_eq!(all, [format!("{client} {recorded}")], "{}", String::from_utf8_lossy(&request));
        assert!(!all[0].contains(TOKEN));
    }
    ask(&mut session, b"A_GET\nEXIT\n", &desk);
    assert_eq!(RECORD.take().len(), 2, "each line is one");
    let mut guesser = Session::new(Access::Nothing);
    (0..3).for_each(|_| drop(ask(&mut guesser, b"AUTH x", &desk)));
    let all = RECORD.take();
    assert!(all[2].starts_with("? AUTH [] true") && all[2].contains("closed"), "{all:?}");
}

#[test]
fn a_browser_is_hung_up_on_before_its_body_is_a_command() {
    // A path longer than a receive has its version in the next one.
    let long = format!("POST /{}", "A".repeat(LARGEST));
    for request in [
        "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /EXIT HTTP/1.0\n\nEXIT",
        &long[..LARGEST],
        &long,
        "OPTIONS * HTTP/2",
    ] {
        let (desk, mut session) = (desk(), Session::new(Access::All));
        assert_eq!(ask(&mut session, request.as_bytes(), &desk), "Error: <BADCMD>");
        assert!(session.is_over());
        assert_eq!(ask(&mut session, b"EXIT", &desk), "");
    }
}

#[test]
fn nothing_is_taken_while_a_reply_waits() {
    let (desk, mut session) = (desk(), Session::new(Access::All));
    session.receive(b"A_GET\nA_SET", &desk);
    assert_eq!((session.output(), session.wants_input()), (&b"A_GET 5\n"[..], false));
    session.receive(b"EXIT", &desk);
    session.sent(3, &desk);
    assert_eq!(session.output(), b"ET 5\n");
    session.sent(5, &desk);
    assert_eq!(session.output(), b"<OK>\n");
    session.sent(5, &desk);
    assert!(session.wants_input() && !session.is_over());
    assert_eq!(session.answered(), 2);
}

/// What somebody may send: commands, almost commands, rubbish.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("A_GET".to_owned()),
        Just("A_SET".to_owned()),
        Just("HELP".to_owned()),
        Just("CMD_GET 1".to_owned()),
        Just("AUTH x".to_owned()),
        "[ -~]{0,12}",
    ];
    let text = proptest::collection::vec((word, "[ \n\r]{0,2}"), 0..20);
    let text =
        text.prop_map(|all| all.into_iter().map(|(a, b)| a + &b).collect::<String>().into_bytes());
    prop_oneof![text, proptest::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn each_receive_is_answered_and_nothing_is_kept(requests in proptest::collection::vec(request(), 0..8), part in 1usize..50) {
        let (desk, mut session) = (desk(), Session::new(Access::All));
        for request in requests {
            if session.is_over() {
                break;
            }
            prop_assert!(session.wants_input());
            session.receive(&request, &desk);
            prop_assert!(!session.output().is_empty());
            let (mut lines, mut newline) = (0, false);
            while !session.output().is_empty() {
                prop_assert!(session.held() < 4 * LARGEST, "{}", session.held());
                let n = part.min(session.output().len());
                newline = session.output()[n - 1] == b'\n';
                session.sent(n, &desk);
                lines += 1;
            }
            // Several commands: each reply is a line.
            prop_assert!(!newline || is_several(&request, &desk.commands), "{lines}");
        }
    }
}

#[test]
fn ten_million_random_bytes_in_random_chunks_cost_no_memory() {
    // Numbers that are the same each time: what fails can be found again.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let desk = desk();
    let mut session = Session::new(Access::All);
    // Miri takes an hour for ten million.
    let most = if cfg!(miri) { 20_000 } else { 10_000_000 };
    let (mut total, mut closed) = (0, 0);
    while total < most {
        let n = 1 + random() as usize % LARGEST;
        let chunk: Vec<u8> = (0..n).map(|_| random() as u8).collect();
        total += n;
        session.receive(&chunk, &desk);
        assert!(session.held() < 4 * LARGEST);
        while !session.output().is_empty() {
            let n = session.output().len().min(1 + random() as usize % 64);
            session.sent(n, &desk);
        }
        if session.is_over() {
            (session, closed) = (Session::new(Access::All), closed + 1);
        }
        assert!(session.wants_input());
    }
    assert!(closed < 100, "{closed}: random bytes are hardly ever HTTP");
}
