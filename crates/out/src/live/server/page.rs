//! The page's files, compiled in. Refuses nothing. Source: `live/page/`.

/// One file.
pub struct File {
    /// Path on the server.
    pub path: &'static str,
    /// `Content-Type`.
    pub kind: &'static str,
    /// Content.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All files of the page.
pub const FILES: &[File] = &[
    File { path: "/", kind: HTML, text: include_str!("../page/index.html") },
    File { path: "/page/style.css", kind: CSS, text: include_str!("../page/style.css") },
    File { path: "/page/icon.svg", kind: SVG, text: include_str!("../page/icon.svg") },
    File { path: "/page/main.js", kind: JS, text: include_str!("../page/main.js") },
    File { path: "/page/source.js", kind: JS, text: include_str!("../page/source.js") },
    File { path: "/page/wire.js", kind: JS, text: include_str!("../page/wire.js") },
    File { path: "/page/words.js", kind: JS, text: include_str!("../page/words.js") },
    File { path: "/page/colour.js", kind: JS, text: include_str!("../page/colour.js") },
    File { path: "/page/alarm.js", kind: JS, text: include_str!("../page/alarm.js") },
    File { path: "/page/axis.js", kind: JS, text: include_str!("../page/axis.js") },
    File { path: "/page/keys.js", kind: JS, text: include_str!("../page/keys.js") },
    File { path: "/page/card.js", kind: JS, text: include_str!("../page/card.js") },
    File { path: "/page/picture.js", kind: JS, text: include_str!("../page/picture.js") },
    File { path: "/page/tracks.js", kind: JS, text: include_str!("../page/tracks.js") },
    File { path: "/page/line.js", kind: JS, text: include_str!("../page/line.js") },
    File { path: "/page/rates.js", kind: JS, text: include_str!("../page/rates.js") },
    File { path: "/page/ledger.js", kind: JS, text: include_str!("../page/ledger.js") },
];
