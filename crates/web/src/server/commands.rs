//! The HTTP/JSON interface to the run's commands: `/api/commands`, and a path for each.
//!
//! The same commands as those of the control port, from the same desk, and the same rule who may give them: clients of this machine as the
//! desk says, networks of `control.allow` may read, others send `Authorization: Bearer TOKEN`. A request that came through
//! another server (`Forwarded`, `X-Forwarded-…`, `X-Real-IP`, `Via`) is none of this machine. Commands run beside the page's thread, [`AT_ONCE`]
//! at a time. Each is recorded with its client and what came of it. Refuses bodies above 9,000 bytes, and any that is not `application/json` (which another site's page cannot send
//! unasked). Source: `docs/operations.md`, "HTTP interface".

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use fullcount_core::command::session::LARGEST;
use fullcount_core::command::{Access, Answer, Command, Desk, GivenCommand, NotDone, Rights};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connections::Bounded;
use super::{App, Shared, answer};

/// Commands that run at the same time.
pub(super) const AT_ONCE: usize = 4;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientAddress(SocketAddr);

/// Who gives a command, for the record.
#[derive(Debug, Clone, Copy)]
struct Giver {
    client: SocketAddr,
    /// They said a word.
    authorised: bool,
}

impl Giver {
    fn new(peer: ClientAddress, headers: &HeaderMap) -> Giver {
        Giver { client: peer.0, authorised: headers.contains_key(header::AUTHORIZATION) }
    }

    /// Has a command recorded, done or refused. `words`: its arguments, once they are known.
    fn record(self, desk: &Desk, name: &str, words: Option<&[&str]>, refused: Option<&Refused>) {
        // What is no command's name may be anything, also a token.
        let command = offered(desk).find(|command| command.name == name);
        let takes = |words: &&[&str]| command.is_some_and(|c| c.count().contains(&words.len()));
        let changes = command.is_some_and(|c| {
            words.map_or(c.rights, |words| c.rights_with(words.len())) == Rights::Change
        });
        let guessed = self.authorised && refused.is_some_and(|r| r.0 == StatusCode::UNAUTHORIZED);
        desk.record(&GivenCommand {
            client: Some(self.client),
            name: command.map_or("", |command| &command.name),
            arguments: words.filter(takes).unwrap_or(&[]),
            changes: changes || guessed,
            refused: refused.map(|refused| refused.2.as_str()),
        });
    }
}

impl Connected<IncomingStream<'_, Bounded>> for ClientAddress {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        ClientAddress(*stream.remote_addr())
    }
}

/// What is sent with a command.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default)]
    arguments: Vec<String>,
}

/// Why a request is not done.
struct Refused(StatusCode, &'static str, String);

impl Refused {
    fn new(status: StatusCode, error: &'static str, why: impl Into<String>) -> Refused {
        Refused(status, error, why.into())
    }
}

impl From<NotDone> for Refused {
    fn from(not_done: NotDone) -> Refused {
        let (status, error) = match &not_done {
            NotDone::Arguments => (StatusCode::BAD_REQUEST, "arguments"),
            NotDone::Refused(_) => (StatusCode::BAD_REQUEST, "refused"),
            NotDone::Busy(_) => (StatusCode::CONFLICT, "busy"),
            NotDone::Failed(_) => (StatusCode::CONFLICT, "failed"),
        };
        Refused::new(status, error, not_done.why())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(status, error, why) = self;
        let body = json!({"error": error, "why": why}).to_string();
        let mut response =
            (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

/// Commands that can be given over HTTP: not those about one connection.
pub(super) fn offered(desk: &Desk) -> impl Iterator<Item = &Command> {
    desk.commands.iter().filter(|command| !command.is_of_connection())
}

fn desk(app: &App) -> Result<Arc<Desk>, Refused> {
    let none = || Refused::new(StatusCode::NOT_FOUND, "unknown", "this run takes no commands");
    app.status.desk().ok_or_else(none)
}

/// What a client may do.
fn access(desk: &Desk, peer: ClientAddress, headers: &HeaderMap) -> Access {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, word) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(word)
    });
    let forwarded = [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "via",
    ];
    let passed_on = forwarded.iter().any(|name| headers.contains_key(*name));
    match bearer {
        // Who says a word says the right one, wherever they are.
        Some(word) if desk.token.as_ref().is_some_and(|token| token.is(word)) => Access::All,
        Some(_) => Access::Nothing,
        None if passed_on => Access::Nothing,
        None => desk.trust.of(peer.0.ip()).unwrap_or(Access::Nothing),
    }
}

/// The command, if this client may give it with so many arguments.
fn allowed<'a>(
    desk: &'a Desk,
    (name, arguments): (&str, usize),
    (peer, headers): (ClientAddress, &HeaderMap),
) -> Result<&'a Command, Refused> {
    let access = access(desk, peer, headers);
    let has = headers.contains_key(header::AUTHORIZATION);
    if access == Access::Nothing {
        let why = if has { "this is not the token" } else { "it needs the token of the run" };
        return Err(Refused::new(StatusCode::UNAUTHORIZED, "unauthorised", why));
    }
    let command = offered(desk).find(|command| command.name == name);
    let unknown = || Refused::new(StatusCode::NOT_FOUND, "unknown", "/api/commands lists them");
    let command = command.ok_or_else(unknown)?;
    if command.rights_with(arguments) == Rights::Change && access < Access::All {
        return Err(match desk.token {
            Some(_) => Refused::new(
                StatusCode::UNAUTHORIZED,
                "unauthorised",
                "it changes the run and needs its token",
            ),
            None => Refused::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this run takes no changes from here: control.listen is off, or this client may only read",
            ),
        });
    }
    Ok(command)
}

/// All commands that this client may ask about.
pub(super) async fn list(
    State(app): Shared,
    ConnectInfo(peer): ConnectInfo<ClientAddress>,
    headers: HeaderMap,
) -> Response {
    let listed = desk(&app).and_then(|desk| {
        if access(&desk, peer, &headers) == Access::Nothing {
            let why = "it needs the token of the run";
            return Err(Refused::new(StatusCode::UNAUTHORIZED, "unauthorised", why));
        }
        let one = |command: &Command| {
            let count = command.count();
            json!({"name": command.name, "arguments": command.arguments, "about": command.about,
                   "changes": command.rights == Rights::Change, "least": count.start(), "most": count.end()})
        };
        Ok(Value::Array(offered(&desk).map(one).collect()))
    });
    match listed {
        Ok(listed) => super::json(&app, &listed),
        Err(refused) => refused.into_response(),
    }
}

/// A command that only tells, with `?argument=` for each argument.
pub(super) async fn told(
    State(app): Shared,
    Path(name): Path<String>,
    ConnectInfo(peer): ConnectInfo<ClientAddress>,
    query: Result<Query<Vec<(String, String)>>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let checked = desk(&app).and_then(|desk| {
        let command = allowed(&desk, (&name, 0), (peer, &headers))?;
        let arguments = query.as_ref().map_or(1, |query| query.len());
        if command.rights_with(arguments) == Rights::Change {
            let why = "it changes something: POST it";
            return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method", why));
        }
        let malformed = |why: String| Refused::new(StatusCode::BAD_REQUEST, "malformed", why);
        let Query(query) = query.map_err(|e| malformed(e.to_string()))?;
        if let Some((other, _)) = query.iter().find(|(key, _)| key != "argument") {
            return Err(malformed(format!("unknown parameter {other:?}: argument=VALUE for each")));
        }
        Ok((desk.clone(), query.into_iter().map(|(_, value)| value).collect()))
    });
    give(&app, &name, Giver::new(peer, &headers), checked).await
}

/// Any command, with its arguments as JSON.
pub(super) async fn done(
    State(app): Shared,
    Path(name): Path<String>,
    ConnectInfo(peer): ConnectInfo<ClientAddress>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    // Who may not give it at all is not read.
    let may = |desk: &Desk, n: usize| allowed(desk, (&name, n), (peer, &parts.headers)).map(drop);
    let desk = desk(&app).and_then(|desk| may(&desk, 0).map(|()| desk));
    let checked = match desk {
        Ok(desk) => read(&parts.headers, body).await.and_then(|Given { arguments }| {
            may(&desk, arguments.len())?;
            Ok((desk, arguments))
        }),
        Err(refused) => Err(refused),
    };
    give(&app, &name, Giver::new(peer, &parts.headers), checked).await
}

/// Another method: only a command that changes nothing can be read with GET.
pub(super) async fn other(State(app): Shared, Path(name): Path<String>) -> Response {
    let changes = desk(&app).is_ok_and(|desk| {
        let always = |command: &Command| command.rights_with(0) == Rights::Change;
        offered(&desk).any(|command| command.name == name && always(command))
    });
    let allow = HeaderValue::from_static(if changes { "POST" } else { "GET, HEAD, POST" });
    let why = "GET or POST; POST alone for a command that changes something";
    let mut response = Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method", why).into_response();
    response.headers_mut().insert(header::ALLOW, allow);
    response
}

/// Reads what is sent with a command; nothing is no arguments.
async fn read(headers: &HeaderMap, body: Body) -> Result<Given, Refused> {
    let large = |_| {
        let why = format!("at most {LARGEST} bytes");
        Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why)
    };
    let body = to_bytes(body, LARGEST).await.map_err(large)?;
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let is_json = kind.is_some_and(|kind| {
        let kind = kind.split(|b| *b == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
    });
    if !is_json {
        let why = "Content-Type: application/json";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", why));
    }
    if body.is_empty() {
        return Ok(Given::default());
    }
    let malformed =
        |e: serde_json::Error| Refused::new(StatusCode::BAD_REQUEST, "malformed", e.to_string());
    // A list would be taken for the fields in their order.
    let object: serde_json::Map<String, Value> =
        serde_json::from_slice(&body).map_err(malformed)?;
    Given::deserialize(Value::Object(object)).map_err(malformed)
}

/// Gives a command that has passed all checks, beside the page's thread.
async fn give(
    app: &App,
    name: &str,
    giver: Giver,
    checked: Result<(Arc<Desk>, Vec<String>), Refused>,
) -> Response {
    let (desk, arguments) = match checked {
        Ok(checked) => checked,
        Err(refused) => {
            if let Ok(desk) = desk(app) {
                giver.record(&desk, name, None, Some(&refused));
            }
            return refused.into_response();
        }
    };
    let Ok(place) = app.commands.clone().acquire_owned().await else {
        return Refused::new(StatusCode::CONFLICT, "busy", "the run ends").into_response();
    };
    let own = name.to_owned();
    let work = tokio::task::spawn_blocking(move || {
        // Kept until it is done, also if the client has gone.
        let _place = place;
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = match desk.commands.find(&own) {
            Some(command) => desk.commands.give(command, &words),
            None => Err(NotDone::Arguments),
        };
        let done = done.map_err(Refused::from);
        giver.record(&desk, &own, Some(&words), done.as_ref().err());
        done
    });
    let reply = match work.await {
        Ok(Ok(Answer::Values(reply))) => Some(reply),
        Ok(Ok(Answer::Done | Answer::Goodbye)) => None,
        Ok(Err(refused)) => return refused.into_response(),
        Err(_) => {
            let why = "the command has ended without an answer";
            return Refused::new(StatusCode::CONFLICT, "failed", why).into_response();
        }
    };
    // Many replies are JSON themselves.
    let value: Option<Value> = reply.as_deref().and_then(|reply| serde_json::from_str(reply).ok());
    let value = value.filter(|value| value.is_object() || value.is_array());
    let reply = reply.filter(|_| value.is_none());
    let body = json!({"command": name, "reply": reply, "value": value}).to_string();
    answer(app, "application/json", body.into_bytes())
}
