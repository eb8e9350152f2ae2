//! The HTTP interface to commands over real connections, and its description.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::ledger::{Entries, Ledger};
use serde_json::Value;

use super::tests::{get, json_of, loopback, raw, status};
use super::{PageServer, RateMeter, StatusSource};
use crate::status::Facts;

/// A run with commands.
struct Told(Arc<fullcount_core::command::Desk>);

impl StatusSource for Told {
    fn entries(&self) -> Entries {
        Ledger::default().read()
    }

    fn facts(&self) -> Facts {
        Facts { running: true, ..Facts::default() }
    }

    fn desk(&self) -> Option<Arc<fullcount_core::command::Desk>> {
        Some(self.0.clone())
    }
}

/// A server whose run may be told so much from this machine.
fn commanded(local: fullcount_core::command::Access, token: bool) -> PageServer {
    use fullcount_core::command::{Answer, ClientTrust, Command, Desk, NotDone, Token};
    let trust = ClientTrust::new(Vec::new(), token, local);
    let token = token.then(|| Token::read("0123456789abcdef").unwrap());
    let mut desk = Desk { token, trust, ..Desk::default() };
    let get = |arguments: &[&str]| Ok(Answer::Values(format!("{} 17", arguments.join(","))));
    let json = |_: &[&str]| Ok(Answer::Values("{\"a\":[1]}".into()));
    let set = |arguments: &[&str]| match arguments {
        ["1"] => Ok(Answer::Done),
        ["2"] => Err(NotDone::Busy("not now".into())),
        _ => Err(NotDone::Refused("1 or 2".into())),
    };
    for command in [
        Command::read("A_GET", ("[N]", "an a"), 0..=2, get),
        Command::read("B_GET", ("", "as JSON"), 0..=0, json),
        Command::change("A_SET", ("N", "sets it"), 1..=1, set),
    ] {
        desk.commands.register(command);
    }
    PageServer::start(loopback(), None, Arc::new(Told(Arc::new(desk)))).unwrap()
}

/// Posts a body; status and the answer.
fn command(server: &PageServer, name: &str, headers: &str, body: &str) -> (u16, Value) {
    let text = format!(
        "POST /api/commands/{name} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, _, body) = raw(server, text.as_bytes());
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn commands_are_given_over_http_as_over_the_port() {
    use fullcount_core::command::Access;
    let server = commanded(Access::All, false);
    let listed = json_of(&get(&server, "/api/commands").2);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A_GET", "A_SET", "B_GET", "CMD_GET", "CMD_GET_COUNT", "HELP"]);
    let told = |path: &str| {
        let (status, _, body) = get(&server, path);
        (status, json_of(&body))
    };
    assert_eq!(told("/api/commands/A_GET").1["reply"], " 17");
    assert_eq!(told("/api/commands/A_GET?argument=x%20y&argument=z").1["reply"], "x y,z 17");
    assert_eq!(told("/api/commands/B_GET").1["value"]["a"][0], 1);
    assert_eq!(told("/api/commands/A_GET?other=1").0, 400);
    assert_eq!(told("/api/commands/A_SET?argument=1").0, 405);
    assert_eq!(told("/api/commands/NO_SUCH").0, 404);
    assert_eq!(told("/api/commands/AUTH").0, 404);
    let done = command(&server, "A_SET", JSON, "{\"arguments\":[\"1\"]}");
    assert_eq!((done.0, &done.1["reply"]), (200, &Value::Null));
    let busy = command(&server, "A_SET", JSON, "{\"arguments\":[\"2\"]}");
    assert_eq!((busy.0, &busy.1["why"]), (409, &"not now".into()));
    let refused = command(&server, "A_SET", JSON, "{\"arguments\":[\"3\"]}");
    assert_eq!((refused.0, &refused.1["error"]), (400, &"refused".into()));
    for body in
        ["", "{}", "[]", "{\"arguments\":1}", "{\"arguments\":[1]}", "{\"a\":[]}", "{", "\"1\""]
    {
        assert_eq!(command(&server, "A_SET", JSON, body).0, 400, "{body}");
    }
    assert_eq!(command(&server, "A_GET", JSON, "").0, 200);
    assert_eq!(command(&server, "A_SET", "", "{\"arguments\":[\"1\"]}").0, 415);
    let large = format!("{{\"arguments\":[\"{}\"]}}", "1".repeat(9000));
    assert_eq!(command(&server, "A_SET", JSON, &large).0, 413);
    let site = format!("{JSON}Origin: http://evil.example\r\n");
    assert_eq!(command(&server, "A_SET", &site, "{\"arguments\":[\"1\"]}").0, 403);
}

#[test]
fn the_rule_of_the_port_says_who_may_give_commands_over_http() {
    use fullcount_core::command::Access;
    let set = "{\"arguments\":[\"1\"]}";
    let token = |word: &str| format!("{JSON}Authorization: Bearer {word}\r\n");
    let reads = commanded(Access::Read, false);
    assert_eq!(
        (get(&reads, "/api/commands/A_GET").0, command(&reads, "A_SET", JSON, set).0),
        (200, 403)
    );
    let both = commanded(Access::Read, true);
    assert_eq!(command(&both, "A_SET", JSON, set).0, 401);
    assert_eq!(command(&both, "A_SET", &token("0123456789abcdef"), set).0, 200);
    assert_eq!(command(&both, "A_SET", &token("0123456789abcdeX"), set).0, 401);
    let closed = commanded(Access::Nothing, true);
    assert_eq!(
        (get(&closed, "/api/commands").0, get(&closed, "/api/commands/A_GET").0),
        (401, 401)
    );
    assert_eq!(command(&closed, "A_GET", &token("0123456789abcdef"), "").0, 200);
    // Somebody else's server passes it on: its client is not of this machine.
    let open = commanded(Access::All, true);
    assert_eq!(command(&open, "A_SET", JSON, set).0, 200);
    for header in [
        "X-Forwarded-For: 10.0.0.9\r\n",
        "X-Forwarded-Host: daq\r\n",
        "X-Real-IP: 10.0.0.9\r\n",
        "Forwarded: for=10.0.0.9\r\n",
        "Via: 1.1 proxy\r\n",
    ] {
        assert_eq!(command(&open, "A_SET", &format!("{JSON}{header}"), set).0, 401, "{header}");
    }
}

/// What was recorded; the tests of this process share it, and each has commands of its own.
static RECORD: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

fn record(given: &fullcount_core::command::GivenCommand<'_>) {
    assert!(given.client.is_some_and(|client| client.ip().is_loopback()));
    let (name, arguments, refused) = (given.name, given.arguments, given.refused);
    let line = format!("{name} {arguments:?} {} {refused:?}", given.changes);
    RECORD.lock().unwrap().push(line);
}

#[test]
fn a_bare_command_is_read_and_every_command_is_recorded_without_its_token() {
    use fullcount_core::command::{Access, Answer, ClientTrust, Command, Desk, Token};
    const TOKEN: &str = "0123456789abcdef";
    let token = Token::read(TOKEN).ok();
    let trust = ClientTrust::new(Vec::new(), true, Access::Read);
    let mut desk = Desk { token, trust, record: Some(record), ..Desk::default() };
    let level = |arguments: &[&str]| match arguments {
        [] => Ok(Answer::Values("info".into())),
        _ => Ok(Answer::Done),
    };
    let level = Command::change("C_LEVEL", ("[N]", "tells or sets it"), 0..=1, level);
    desk.commands.register(level.telling_bare());
    desk.commands.register(Command::change("C_SET", ("", "sets it"), 0..=0, |_| Ok(Answer::Done)));
    let server = PageServer::start(loopback(), None, Arc::new(Told(Arc::new(desk)))).unwrap();
    let recorded = |lines: &[&str]| {
        let all = std::mem::take(&mut *RECORD.lock().unwrap());
        assert_eq!(all, lines);
        assert!(!all.concat().contains(TOKEN));
    };
    let (status, _, body) = get(&server, "/api/commands/C_LEVEL");
    assert_eq!((status, &json_of(&body)["reply"]), (200, &"info".into()));
    recorded(&["C_LEVEL [] false None"]);
    let set = "{\"arguments\":[\"debug\"]}";
    assert_eq!(get(&server, "/api/commands/C_LEVEL?argument=debug").0, 405);
    recorded(&["C_LEVEL [] true Some(\"it changes something: POST it\")"]);
    assert_eq!(command(&server, "C_LEVEL", JSON, "").0, 200);
    recorded(&["C_LEVEL [] false None"]);
    assert_eq!(command(&server, "C_LEVEL", JSON, set).0, 401);
    recorded(&["C_LEVEL [] true Some(\"it changes the run and needs its token\")"]);
    let with = |word: &str| format!("{JSON}Authorization: Bearer {word}\r\n");
    assert_eq!(command(&server, "C_LEVEL", &with(TOKEN), set).0, 200);
    recorded(&["C_LEVEL [\"debug\"] true None"]);
    assert_eq!(command(&server, "C_SET", &with(TOKEN), set).0, 400);
    recorded(&[&format!(
        "C_SET [] true Some({:?})",
        fullcount_core::command::NotDone::Arguments.why()
    )]);
    assert_eq!(command(&server, "HELP", &with("guessed"), "").0, 401);
    recorded(&["HELP [] true Some(\"this is not the token\")"]);
    assert_eq!(command(&server, TOKEN, &with(TOKEN), "").0, 404);
    recorded(&[" [] false Some(\"/api/commands lists them\")"]);
    let described = json_of(&get(&server, "/api/openapi.json").2);
    let level = &described["paths"]["/api/commands/C_LEVEL"];
    assert!(level["get"]["parameters"].is_null() && level["get"]["responses"]["405"].is_object());
    assert!(described["paths"]["/api/commands/C_SET"].get("get").is_none());
}

#[test]
fn the_description_has_every_command_of_the_run_and_every_path() {
    use fullcount_core::command::Access;
    let server = commanded(Access::All, true);
    let described = json_of(&get(&server, "/api/openapi.json").2);
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    for path in ["/api/commands/A_GET", "/api/clear", "/api/window", "/api/axis", "/readyz"] {
        assert!(paths.contains_key(path), "{path}");
    }
    assert!(!paths.contains_key("/api/commands/AUTH") && !paths.contains_key("/api/commands/WHY"));
    let set = &described["paths"]["/api/commands/A_SET"];
    assert!(set.get("get").is_none());
    let arguments = &set["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
        ["arguments"];
    assert_eq!((&arguments["minItems"], &arguments["maxItems"]), (&1.into(), &1.into()));
    let without = PageServer::start(loopback(), None, status()).unwrap();
    assert!(
        json_of(&get(&without, "/api/openapi.json").2)["paths"]["/api/commands/A_GET"].is_null()
    );
    assert_eq!(get(&without, "/api/commands").0, 404);
}

#[test]
fn modules_are_in_the_state_and_in_the_metrics() {
    let module = crate::status::ModuleFacts {
        name: "10.0.0.5 fec 2".into(),
        packets: 7,
        lost: 1,
        age_ms: 12_034,
        silent: true,
    };
    let facts = Facts { modules: vec![module], modules_hidden: 3, ..Facts::default() };
    let text = crate::prometheus::render(&Ledger::default().read(), &facts);
    for line in [
        "fullcount_module_packets_total{module=\"10.0.0.5 fec 2\"} 7",
        "fullcount_module_lost_total{module=\"10.0.0.5 fec 2\"} 1",
        "fullcount_module_age_seconds{module=\"10.0.0.5 fec 2\"} 12.034",
        "fullcount_module_silent{module=\"10.0.0.5 fec 2\"} 1",
        "fullcount_modules_hidden 3",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let state = crate::state::state(
        &Ledger::default().read(),
        &facts,
        &RateMeter::default(),
        Duration::ZERO,
        None,
    );
    assert_eq!(
        (&state["modules"][0]["silent"], &state["modules_hidden"]),
        (&true.into(), &3.into())
    );
}
