//! The web server of the live page: one thread, HTTP/1.1, no build step and nothing from other servers.
//!
//! The page and its parts are compiled in. GET reads; POST (`/api/clear`, `/api/window`, `/api/axis`) changes only what
//! is shown. Refuses requests under another machine's name or from another site's page (`names`), bounds connections,
//! their steps and the memory of answers (`slots`, `pace`, `connections`), so that viewers can neither exhaust the
//! acquisition's file descriptors nor block each other. Source: `docs/architecture.md`.
//!
//! | path | gives |
//! |---|---|
//! | `/` | the page |
//! | `/api/state` | run, totals, rates, losses, hops, ledger, outputs, plots (JSON) |
//! | `/api/rates` | rates of the last five minutes (JSON) |
//! | `/api/plot/{id}?mode=total\|current&after=VERSION` | counts; 204 if nothing changed since VERSION |
//! | `/api/pixels` | pixel number of each picture cell, u32 little-endian |
//! | `/api/commands`, `/api/commands/{NAME}` | the run's commands, and giving one (JSON) |
//! | `/api/openapi.json` | description of all this |
//! | `/metrics` | Prometheus text |
//! | `/healthz`, `/readyz` | 200, or 503 with reasons |

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::sync::{Notify, Semaphore, oneshot};

use super::accumulate::{PlotError, Rebin, WINDOW};
use super::encode::{self, Mode};
use super::rates::{PageTotals, RateMeter};
use super::snapshot::{LiveView, RequestError, ViewerRequest};
use super::state;
use super::status::StatusSource;
use crate::prometheus;
use commands::ClientAddress;

mod commands;
mod connections;
mod names;
mod openapi;
mod pace;
mod page;
mod ready;
mod slots;

/// Default address of the page.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// Time between two samples of the counters.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// A page that asked for the state within this time is open: it asks twice a second. After the end of a
/// run the server waits at most as long for it to ask once more, so that it shows the last numbers and the
/// word "ended" instead of a lost connection.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Time for further open pages once the first one has the last numbers: a little above their half second.
const OTHERS: Duration = Duration::from_millis(600);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ServerError {
    /// Another program serves there.
    #[error(
        "web.listen: {addr} is in use by another program; choose another with --web ADDRESS:PORT (port 0 takes a free one)"
    )]
    InUse { addr: SocketAddr },
    /// The address cannot be served.
    #[error(
        "web.listen: cannot serve on {addr}: {source}; give an address of this machine and a port you may open"
    )]
    Bind { addr: SocketAddr, source: io::Error },
    /// No thread or event loop.
    #[error("web.listen: cannot start the page's thread: {0}")]
    Start(io::Error),
}

/// A running page. Dropping it ends it.
#[derive(Debug)]
pub struct PageServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct App {
    view: Option<LiveView>,
    status: Arc<dyn StatusSource>,
    meter: Mutex<RateMeter>,
    start: Instant,
    /// When a page last asked for the state, ms since `start` plus 1; 0 if never.
    viewed: AtomicU64,
    /// Signalled when a page has asked for the state after the end of the run.
    told: Notify,
    farewell: Duration,
    answers: connections::Answers,
    /// Commands that may run at the same time.
    commands: Arc<Semaphore>,
}

impl App {
    /// Waits until open pages have seen the end of the run; not at all without viewers or while the run continues.
    async fn farewell(&self) {
        let ms = self.viewed.load(Relaxed);
        let ago = self.start.elapsed().saturating_sub(Duration::from_millis(ms));
        if ms == 0 || ago > self.farewell || self.status.facts().running {
            return;
        }
        if tokio::time::timeout(self.farewell, self.told.notified()).await.is_ok() {
            tokio::time::sleep(OTHERS.min(self.farewell)).await;
        }
    }

    fn meter(&self) -> MutexGuard<'_, RateMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self) {
        let totals = PageTotals::of(&self.status.entries());
        self.meter().sample(self.start.elapsed(), totals);
    }
}

type Shared = State<Arc<App>>;

/// An address that is bound and listens, though nothing is served yet: browsers that come early wait.
/// Dropping it frees the address.
#[derive(Debug)]
pub struct Reserved {
    listener: std::net::TcpListener,
    addr: SocketAddr,
    hosts: Vec<String>,
}

impl Reserved {
    /// Further names and addresses that browsers may use, besides this machine's own: of a gateway, a
    /// tunnel, a complete domain name.
    pub fn called(self, hosts: &[String]) -> Reserved {
        Reserved { hosts: hosts.to_vec(), ..self }
    }

    /// The address, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Address for people, see [`PageServer::url`].
    pub fn url(&self) -> String {
        url(self.addr)
    }
}

/// A server on all addresses is reached by the loopback one.
fn url(mut addr: SocketAddr) -> String {
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{addr}/")
}

impl PageServer {
    /// Takes `addr` (port 0: a free one, see [`Reserved::addr`]) and listens. A run does this before it
    /// replaces any file: a port in use is the likeliest reason for a start to fail.
    ///
    /// # Errors
    /// The address is in use or not this machine's.
    pub fn reserve(addr: SocketAddr) -> Result<Reserved, ServerError> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::InUse { addr },
            _ => ServerError::Bind { addr, source },
        };
        let listener = std::net::TcpListener::bind(addr).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let addr = listener.local_addr().map_err(refused)?;
        Ok(Reserved { listener, addr, hosts: Vec::new() })
    }

    /// [`PageServer::reserve`] and [`PageServer::start_on`].
    pub fn start(
        addr: SocketAddr,
        view: Option<LiveView>,
        status: Arc<dyn StatusSource>,
    ) -> Result<PageServer, ServerError> {
        PageServer::start_on(PageServer::reserve(addr)?, view, status)
    }

    /// Serves on a reserved address. Without a `view` the page shows counters only.
    ///
    /// # Errors
    /// The system refuses a thread or an event loop.
    pub fn start_on(
        reserved: Reserved,
        view: Option<LiveView>,
        status: Arc<dyn StatusSource>,
    ) -> Result<PageServer, ServerError> {
        PageServer::start_with(reserved, view, status, FAREWELL)
    }

    fn start_with(
        reserved: Reserved,
        view: Option<LiveView>,
        status: Arc<dyn StatusSource>,
        farewell: Duration,
    ) -> Result<PageServer, ServerError> {
        let Reserved { listener, addr, hosts } = reserved;
        let names = Arc::new(names::PageNames::new(addr, &hosts));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Start)?;
        let listener = {
            let _inside = runtime.enter();
            connections::Bounded::new(listener).map_err(ServerError::Start)?
        };
        let (stop, stopped) = oneshot::channel();
        let app = Arc::new(App {
            view,
            status,
            meter: Mutex::default(),
            start: Instant::now(),
            viewed: AtomicU64::new(0),
            told: Notify::new(),
            farewell,
            answers: connections::Answers::new(),
            commands: Arc::new(Semaphore::new(commands::AT_ONCE)),
        });
        let serve = move || {
            runtime.block_on(async move {
                let (sampler, leaving) = (app.clone(), app.clone());
                let served =
                    routes(app, names).into_make_service_with_connect_info::<ClientAddress>();
                let sampling = async move {
                    let mut due = tokio::time::interval(SAMPLE_EVERY);
                    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                    loop {
                        due.tick().await;
                        sampler.sample();
                    }
                };
                tokio::select! {
                    _ = axum::serve(listener, served) => {}
                    () = sampling => {}
                    () = async { let _dropped = stopped.await; leaving.farewell().await } => {}
                }
            });
            // Open connections must not hold up the end of the run.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("web".to_owned()).spawn(serve);
        let thread = Some(thread.map_err(ServerError::Start)?);
        Ok(PageServer { addr, stop: Some(stop), thread })
    }

    /// The address that is served, with the real port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Address for people; a server on all addresses is reached by the loopback one.
    pub fn url(&self) -> String {
        url(self.addr)
    }

    /// Ends the page: at once, or within 2.1 s if the run has ended and the page has viewers, so that they see its last
    /// numbers.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The receiver is gone only if the thread has ended already.
            let _gone = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn routes(app: Arc<App>, names: Arc<names::PageNames>) -> Router {
    let mut router = Router::new();
    for file in page::FILES {
        let send = move || async move { ([(header::CONTENT_TYPE, file.kind)], file.text) };
        router = router.route(file.path, get(send));
    }
    router
        .route("/api/state", get(api_state))
        .route("/api/rates", get(api_rates))
        .route("/api/plot/{id}", get(api_plot))
        .route("/api/pixels", get(api_pixels))
        .route("/api/clear", post(api_clear))
        .route("/api/window", post(api_window))
        .route("/api/axis", post(api_axis))
        .route("/api/openapi.json", get(api_openapi))
        .route("/api/commands", get(commands::list))
        .route(
            "/api/commands/{name}",
            get(commands::told).post(commands::done).fallback(commands::other),
        )
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is nothing here; the page is at /\n") })
        .layer(from_fn_with_state(names, names::guard))
        .with_state(app)
}

/// An answer within the bound on those in flight.
fn answer(app: &App, kind: &'static str, body: Vec<u8>) -> Response {
    match app.answers.hold(body) {
        Some(body) => ([(header::CONTENT_TYPE, kind)], body).into_response(),
        None => {
            let text = "too many answers wait for slow readers: ask again later\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

fn json(app: &App, value: &serde_json::Value) -> Response {
    answer(app, "application/json", value.to_string().into_bytes())
}

async fn api_state(State(app): Shared) -> Response {
    let (entries, facts) = (app.status.entries(), app.status.facts());
    let now = app.start.elapsed();
    app.viewed.store(now.as_millis() as u64 + 1, Relaxed);
    if !facts.running {
        app.told.notify_one();
    }
    let snapshot = app.view.as_ref().map(|v| (v.snapshot(), v.pixels().clone()));
    let pictures = snapshot.as_ref().map(|(s, p)| (&**s, &**p));
    json(&app, &state::state(&entries, &facts, &app.meter(), now, pictures))
}

async fn api_rates(State(app): Shared) -> Response {
    json(&app, &state::history(&app.meter(), app.start.elapsed()))
}

#[derive(Deserialize)]
struct PlotQuery {
    mode: Option<String>,
    after: Option<u64>,
}

async fn api_plot(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<PlotQuery>,
) -> Response {
    let mode = match query.mode.as_deref() {
        None | Some("total") => Mode::Total,
        Some("current") => Mode::Current,
        Some(_) => return (StatusCode::BAD_REQUEST, "mode: total or current\n").into_response(),
    };
    let found = app.view.as_ref().and_then(|view| {
        let snapshot = view.snapshot();
        let picture = snapshot.plots.iter().find(|p| p.plot.id == id)?.clone();
        Some((picture, view.pixels().clone()))
    });
    let Some((picture, pixels)) = found else {
        let text = "there is no plot of this name; /api/state lists them\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    if query.after == Some(picture.version) {
        return StatusCode::NO_CONTENT.into_response();
    }
    bytes(&app, encode::plot(&picture, &pixels, mode))
}

fn bytes(app: &App, body: Vec<u8>) -> Response {
    answer(app, "application/octet-stream", body)
}

#[derive(Deserialize)]
struct PixelsQuery {
    plot: Option<String>,
}

/// Pixel number of each cell of the detector's picture; with `plot`, how many pixels each of its cells sums.
async fn api_pixels(State(app): Shared, Query(query): Query<PixelsQuery>) -> Response {
    let Some(id) = query.plot else {
        return bytes(
            &app,
            app.view.as_ref().map_or_else(Vec::new, |v| encode::pixels(v.pixels())),
        );
    };
    let summed = app.view.as_ref().and_then(|view| {
        let snapshot = view.snapshot();
        let picture = snapshot.plots.iter().find(|p| p.plot.id == id)?;
        encode::summed(&picture.plot, view.pixels())
    });
    match summed {
        Some(summed) => bytes(&app, summed),
        None => {
            let text = "there is no picture of this name; /api/state lists the plots\n";
            (StatusCode::NOT_FOUND, text).into_response()
        }
    }
}

#[derive(Deserialize)]
struct ClearQuery {
    plot: Option<String>,
}

async fn api_clear(State(app): Shared, Query(query): Query<ClearQuery>) -> Response {
    ask(&app, ViewerRequest::Clear(query.plot))
}

#[derive(Deserialize)]
struct WindowQuery {
    seconds: u64,
}

async fn api_window(State(app): Shared, Query(query): Query<WindowQuery>) -> Response {
    let window = Duration::from_secs(query.seconds);
    if !WINDOW.contains(&window) {
        return (StatusCode::BAD_REQUEST, "seconds: 1 to 60\n").into_response();
    }
    ask(&app, ViewerRequest::Window(window))
}

#[derive(Deserialize)]
struct AxisQuery {
    plot: String,
    axis: char,
    first: u64,
    last: u64,
    bins: u32,
}

async fn api_axis(State(app): Shared, Query(q): Query<AxisQuery>) -> Response {
    let new = Rebin { axis: q.axis, first: q.first, last: q.last, bins: q.bins };
    ask(&app, ViewerRequest::Rebin(q.plot, new))
}

fn ask(app: &App, request: ViewerRequest) -> Response {
    let Some(view) = &app.view else {
        return (StatusCode::NOT_FOUND, "this run has no plots\n").into_response();
    };
    match view.request(request) {
        Ok(()) => (StatusCode::ACCEPTED, "done at the next picture\n").into_response(),
        Err(e) => {
            let status = match &e {
                RequestError::Plot(PlotError::Unknown { .. }) => StatusCode::NOT_FOUND,
                RequestError::Plot(_) => StatusCode::BAD_REQUEST,
                RequestError::Ended => StatusCode::CONFLICT,
                RequestError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, format!("{e}\n")).into_response()
        }
    }
}

async fn api_openapi(State(app): Shared) -> Response {
    json(&app, &openapi::describe(app.status.desk().as_deref()))
}

/// The process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// 200 while the sources are open and no required output has failed.
async fn readyz(State(app): Shared) -> Response {
    match ready::why_not(&app.status.facts()) {
        reasons if reasons.is_empty() => "ok\n".into_response(),
        reasons => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response(),
    }
}

async fn metrics(State(app): Shared) -> Response {
    let mut text = prometheus::render(&app.status.entries(), &app.status.facts());
    text += &prometheus::render_process();
    answer(&app, prometheus::CONTENT_TYPE, text.into_bytes())
}

#[cfg(test)]
#[path = "server/commands_tests.rs"]
mod commands_tests;
#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
