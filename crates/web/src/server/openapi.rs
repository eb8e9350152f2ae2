//! `/api/openapi.json`: the description (OpenAPI 3.1) of all that this server answers, its commands from the run's own registry.
//!
//! So a command of a detector or an output is described as soon as its kind has it. Refuses nothing. Sources: OpenAPI 3.1.1;
//! `docs/operations.md`, "HTTP interface".

use fullcount_core::command::{Command, Desk, Rights};
use serde_json::{Map, Value, json};

use super::commands::offered;

/// The description of a server with these commands.
pub(super) fn describe(desk: Option<&Desk>) -> Value {
    let mut paths = own();
    for command in desk.into_iter().flat_map(offered) {
        paths.insert(format!("/api/commands/{}", command.name), of(command));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fullcount",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A run's state, its pictures and its commands. Clients of other machines give commands with the token of control.token_file.",
            "license": {"name": "see the LICENSE file of Fullcount", "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Reply": {
                    "type": "object", "required": ["command", "reply", "value"], "additionalProperties": false,
                    "properties": {
                        "command": {"type": "string"},
                        "reply": {"type": ["string", "null"], "description": "what the control port answers behind the command's name; null: it was done, or the answer is JSON"},
                        "value": {"type": ["object", "array", "null"], "description": "an answer that is JSON"},
                    },
                },
                "Refused": {
                    "type": "object", "required": ["error", "why"], "additionalProperties": false,
                    "properties": {
                        "error": {"enum": ["arguments", "refused", "busy", "failed", "unknown", "unauthorised", "forbidden", "method", "too_large", "media_type", "malformed"]},
                        "why": {"type": "string"},
                    },
                },
                "Command": {
                    "type": "object", "required": ["name", "arguments", "about", "changes", "least", "most"],
                    "properties": {
                        "name": {"type": "string"}, "arguments": {"type": "string"}, "about": {"type": "string"},
                        "changes": {"type": "boolean"}, "least": {"type": "integer"}, "most": {"type": "integer"},
                    },
                },
            },
        },
    })
}

fn content(kind: &str, schema: &Value) -> Value {
    json!({kind: {"schema": schema}})
}

fn answered(about: &str, kind: &str, schema: &Value) -> Value {
    json!({"description": about, "content": content(kind, schema)})
}

/// Refusals in words.
fn text(about: &str) -> Value {
    answered(about, "text/plain", &json!({"type": "string"}))
}

fn refused(about: &str) -> Value {
    answered(about, "application/json", &json!({"$ref": "#/components/schemas/Refused"}))
}

/// The path of one command.
fn of(command: &Command) -> Value {
    let count = command.count();
    let (least, most) = (*count.start(), *count.end());
    let changes = command.rights == Rights::Change;
    let tells_bare = command.rights_with(0) == Rights::Read;
    let mut responses = json!({
        "200": answered("done", "application/json", &json!({"$ref": "#/components/schemas/Reply"})),
        "400": refused("a wrong number of arguments, a value that is not allowed, or no JSON"),
        "401": refused("it needs the token"),
        "409": refused("not now, or it could not be done"),
        "503": text("too many answers wait for slow readers"),
    });
    if changes {
        responses["403"] = refused("the run takes no changes from this client");
    }
    let arguments = json!({"type": "array", "items": {"type": "string"},
                           "minItems": least, "maxItems": most, "description": command.arguments});
    let about = |id: &str| {
        json!({"operationId": format!("{id}_{}", command.name), "summary": command.about, "tags": ["commands"],
               "security": [{}, {"token": []}], "responses": responses})
    };
    let mut post = about("do");
    let required: &[&str] = if least > 0 { &["arguments"] } else { &[] };
    let body = json!({"type": "object", "additionalProperties": false, "required": required,
                      "properties": {"arguments": arguments}});
    post["requestBody"] = json!({"required": true, "content": content("application/json", &body)});
    post["responses"]["413"] = refused("a body above 9000 bytes");
    post["responses"]["415"] = refused("another type of body than JSON");
    let mut methods = Map::from_iter([("post".to_owned(), post)]);
    if tells_bare {
        let mut get = about("get");
        if changes {
            get["responses"]["405"] = refused("with arguments it changes something: POST it");
        } else if most > 0 {
            get["parameters"] = json!([{"name": "argument", "in": "query", "required": least > 0, "explode": true,
                                        "schema": arguments}]);
        }
        methods.insert("get".into(), get);
    }
    Value::Object(methods)
}

fn get(id: &str, about: &str, parameters: Value, responses: Value) -> Value {
    json!({"get": {"operationId": id, "summary": about, "parameters": parameters, "responses": responses}})
}

fn query(name: &str, required: bool, schema: Value) -> Value {
    json!({"name": name, "in": "query", "required": required, "schema": schema})
}

fn natural() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn busy() -> Value {
    text("too many answers wait for slow readers")
}

/// What is answered as JSON.
fn json_answer(schema: &Value) -> Value {
    json!({"200": answered("as it is", "application/json", schema), "503": busy()})
}

/// What is there without commands.
fn own() -> Map<String, Value> {
    let mut paths = told();
    paths.extend(pictures());
    paths
}

/// What tells of the run.
fn told() -> Map<String, Value> {
    let (object, none) = (json!({"type": "object"}), json!([]));
    let listed = json!({"type": "array", "items": {"$ref": "#/components/schemas/Command"}});
    let mut commands = json_answer(&listed);
    commands["401"] = refused("it needs the token");
    commands["404"] = refused("this run takes no commands");
    let plain = || json!({"200": text("it is"), "503": text("it is not, with reasons")});
    let metrics = json!({"200": text("Prometheus' text format"), "503": busy()});
    let state = "run, totals, rates, losses, modules, ledger, outputs, plots";
    let ready = "whether sources are open and no required output has failed";
    let each = [
        ("/api/openapi.json", "openapi", "this description", json_answer(&object)),
        ("/api/commands", "commands", "commands of the run", commands),
        ("/api/state", "state", state, json_answer(&object)),
        ("/api/rates", "rates", "rates of the last five minutes", json_answer(&object)),
        ("/metrics", "metrics", "counters for Prometheus", metrics),
        ("/healthz", "healthz", "whether the process answers", plain()),
        ("/readyz", "readyz", ready, plain()),
    ];
    let one = |(path, id, about, responses): (&str, &str, &str, Value)| {
        (path.to_owned(), get(id, about, none.clone(), responses))
    };
    each.into_iter().map(one).collect()
}

/// What the page asks of its pictures, and how it changes what they show.
fn pictures() -> Map<String, Value> {
    let bytes = json!({});
    let view = |id: &str, about: &str, parameters: Value| {
        json!({"post": {"operationId": id, "summary": about, "tags": ["page"], "parameters": parameters, "responses": {
            "202": text("done at the next picture"), "400": text("a value that is not allowed"),
            "403": text("asked for by another site's page"), "404": text("no such plot"),
            "409": text("the run has ended"), "503": text("too many changes wait")}}})
    };
    let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
    let modes = json!({"enum": ["total", "current"]});
    let plots = json!([id, query("mode", false, modes), query("after", false, natural())]);
    let picture = json!({"200": answered("counts", "application/octet-stream", &bytes),
        "204": {"description": "nothing has changed since `after`"}, "400": text("a value that is not allowed"),
        "404": text("no such plot"), "503": busy()});
    let pixels = json!({"200": answered("numbers, u32 little-endian", "application/octet-stream", &bytes),
        "404": text("no such picture"), "503": busy()});
    let seconds =
        json!([query("seconds", true, json!({"type": "integer", "minimum": 1, "maximum": 60}))]);
    let axis = json!([
        query("plot", true, json!({"type": "string"})),
        query("axis", true, json!({"enum": ["x", "y"]})),
        query("first", true, natural()),
        query("last", true, natural()),
        query("bins", true, json!({"type": "integer", "minimum": 1}))
    ]);
    let plot = json!([query("plot", false, json!({"type": "string"}))]);
    Map::from_iter([
        ("/api/plot/{id}".to_owned(), get("plot", "counts of a plot", plots, picture)),
        (
            "/api/pixels".to_owned(),
            get("pixels", "pixel of each cell of the picture", plot.clone(), pixels),
        ),
        ("/api/clear".to_owned(), view("clear", "begins one plot or all anew", plot)),
        ("/api/window".to_owned(), view("window", "length of `current`", seconds)),
        ("/api/axis".to_owned(), view("axis", "range and bins of an axis", axis)),
    ])
}
