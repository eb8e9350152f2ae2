//! `error!("topic {topic}: {why}")`, as `format!`; fields go before the text: `error!(output = name, "…")`.
//!
//! `target: "fullcount_run"` before all of it names another origin than the module. `terminal = false` as a field keeps a line from
//! the terminal, which shows the same state already.

macro_rules! macros {
    ($d:tt $($name:ident $level:ident $number:literal $about:literal;)+) => {$(
        #[doc = $about]
        #[macro_export]
        macro_rules! $name {
            (target: $d target:literal, $d($d rest:tt)+) => {
                $d crate::tracing::event!(target: $d target, $d crate::tracing::Level::$level, severity = $number, $d($d rest)+)
            };
            ($d($d rest:tt)+) => {
                $d crate::tracing::event!($d crate::tracing::Level::$level, severity = $number, $d($d rest)+)
            };
        }
    )+};
}

macros! { $
    emergency ERROR 0u64 "0: nothing works any more.";
    alert ERROR 1u64 "1: somebody has to act now.";
    critical ERROR 2u64 "2: the run cannot go on.";
    error ERROR 3u64 "3: something of the run does not work any more.";
    warning WARN 4u64 "4: something is or may be lost.";
    notice INFO 5u64 "5: normal, and worth to be seen.";
    info INFO 6u64 "6: what goes on.";
    debug DEBUG 7u64 "7: for who looks for a fault.";
}
