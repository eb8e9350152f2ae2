//! Standard output and error that survive a reader who has gone (`fullcount catalogue | head`, a full
//! disk behind `2>`): what is printed is never worth the run.

use std::fmt::Arguments;
use std::io::Write;

use fullcount_log::LogLevel;

/// Writes text; a closed pipe is no failure of ours.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text);
    let _ = out.flush();
}

/// Writes text to standard error, as a message where these are objects.
pub fn write_error(text: Arguments<'_>) {
    fullcount_log::plain(LogLevel::Info, &text.to_string());
}

/// Writes why a verb did not do its work.
pub fn write_failure(text: Arguments<'_>) {
    fullcount_log::plain(LogLevel::Error, &text.to_string());
}

/// Writes a line to standard error: what campaigns tell on their way.
pub fn line(text: &str) {
    write_error(format_args!("{text}\n"));
}

/// As `eprintln!`.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => { $crate::say::write_error(format_args!("{}\n", format_args!($($text)*))) };
}

/// As [`note!`], unless `--quiet` is given: what goes on, not what is wrong.
#[macro_export]
macro_rules! fact {
    ($($text:tt)*) => { if !fullcount_log::is_quiet() { $crate::note!($($text)*) } };
}

/// As `print!`.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => { $crate::say::write(format_args!($($text)*)) };
}

/// As `println!`.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say::write(format_args!("{}\n", format_args!($($text)*))) };
}
