//! The time of this host's clock as packets carry it.

use std::time::{SystemTime, UNIX_EPOCH};

/// ns since 1970; 0 before it.
#[inline]
pub(crate) fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
