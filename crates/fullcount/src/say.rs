//! Standard output and error that survive a reader who has gone (`fullcount catalogue | head`, a full
//! disk behind `2>`): what is printed is never worth the run.

use std::fmt::Arguments;
use std::io::Write;

/// Writes text; a closed pipe is no failure of ours.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text);
    let _ = out.flush();
}

/// Writes text to standard error.
pub fn write_error(text: Arguments<'_>) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_fmt(text);
    let _ = err.flush();
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
