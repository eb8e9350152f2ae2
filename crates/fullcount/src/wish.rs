//! What signals ask for, in the words of those who wait for a broker.

use fullcount_engine::stop::Stop;
use fullcount_kafka::EndWish;

/// What the person wants now.
pub fn wish(stop: &Stop) -> EndWish {
    match (stop.hurried(), stop.requested()) {
        (true, _) => EndWish::AtOnce,
        (_, true) => EndWish::End,
        _ => EndWish::GoOn,
    }
}
