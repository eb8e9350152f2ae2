//! Standard output that survives a reader who has seen enough (`fullcount catalogue | head`).

use std::fmt::Arguments;
use std::io::Write;

/// Writes text; a closed pipe is no failure of ours.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text);
    let _ = out.flush();
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
