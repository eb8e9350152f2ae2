//! The page's files, compiled in. Source: `crates/web/src/page`.

/// One file.
pub struct PageFile {
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
pub const FILES: &[PageFile] = &[
    PageFile { path: "/", kind: HTML, text: include_str!("../page/index.html") },
    PageFile { path: "/page/style.css", kind: CSS, text: include_str!("../page/style.css") },
    PageFile { path: "/page/icon.svg", kind: SVG, text: include_str!("../page/icon.svg") },
    PageFile { path: "/page/main.js", kind: JS, text: include_str!("../page/main.js") },
    PageFile { path: "/page/readout.js", kind: JS, text: include_str!("../page/readout.js") },
    PageFile { path: "/page/source.js", kind: JS, text: include_str!("../page/source.js") },
    PageFile { path: "/page/wire.js", kind: JS, text: include_str!("../page/wire.js") },
    PageFile { path: "/page/words.js", kind: JS, text: include_str!("../page/words.js") },
    PageFile { path: "/page/colour.js", kind: JS, text: include_str!("../page/colour.js") },
    PageFile { path: "/page/alarm.js", kind: JS, text: include_str!("../page/alarm.js") },
    PageFile { path: "/page/axis.js", kind: JS, text: include_str!("../page/axis.js") },
    PageFile { path: "/page/keys.js", kind: JS, text: include_str!("../page/keys.js") },
    PageFile { path: "/page/card.js", kind: JS, text: include_str!("../page/card.js") },
    PageFile { path: "/page/picture.js", kind: JS, text: include_str!("../page/picture.js") },
    PageFile { path: "/page/tracks.js", kind: JS, text: include_str!("../page/tracks.js") },
    PageFile { path: "/page/waterfall.js", kind: JS, text: include_str!("../page/waterfall.js") },
    PageFile { path: "/page/heaps.js", kind: JS, text: include_str!("../page/heaps.js") },
    PageFile { path: "/page/line.js", kind: JS, text: include_str!("../page/line.js") },
    PageFile { path: "/page/rates.js", kind: JS, text: include_str!("../page/rates.js") },
    PageFile { path: "/page/ledger.js", kind: JS, text: include_str!("../page/ledger.js") },
];
