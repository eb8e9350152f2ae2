//! Shows traces of developers on standard error, in builds that have them.
//!
//! `HH:MM:SS.mmm LEVEL file line GROUP - text`, as the event formation unit shows them. Source: `control-and-monitoring.md` section 5.4.

/// Shows traces from now on; nothing where they are not built in.
pub(crate) fn install() {
    #[cfg(feature = "trace")]
    fullcount_core::trace::show_with(show);
}

#[cfg(feature = "trace")]
fn show(line: &fullcount_core::trace::Traced<'_>) {
    let time = jiff::Timestamp::from_millisecond(crate::line::unix_ms() as i64).unwrap_or_default();
    let time = format!("{time:.3}");
    let clock = time.get(11..23).unwrap_or_default();
    let (group, level) = (line.group.name(), line.level.short());
    let text = format!("{clock} {level} {} {} {group} - {}\n", line.file, line.line, line.text);
    crate::terminal::plain(crate::LogLevel::Debug, &text);
}
