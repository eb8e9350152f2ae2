//! A child of a measuring campaign ends with it, however that ends.
//!
//! The campaign holds the other end of the child's standard input and never writes to it. When the campaign
//! is gone, killed or not, the kernel closes it, and the child stops: without this a sender whose campaign was
//! killed went on for the hour that it had been told, on the core that the next measurement used. Without the variable
//! standard input is left alone.

use std::io::Read;

use fullcount_lab::agent::LEASH;

/// Ends this process when standard input does, if the campaign asked for it.
pub fn hold() {
    if std::env::var_os(LEASH).is_none() {
        return;
    }
    let watch = || {
        let mut byte = [0];
        // Nothing is ever written: whatever this returns, the campaign is gone.
        while matches!(std::io::stdin().read(&mut byte), Ok(1..)) {}
        crate::say::write_error(format_args!("fullcount: the campaign is gone; ending\n"));
        std::process::exit(1);
    };
    // Without the thread the child ends by its own limits, as before.
    drop(std::thread::Builder::new().name("leash".into()).spawn(watch));
}
