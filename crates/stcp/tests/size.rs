//! How large a stream's control block is.

use fullcount_stcp::{Borrowed, StcpCounters, StcpHistograms, StcpSender};

#[test]
fn a_control_block_has_at_most_512_bytes() {
    let control = size_of::<StcpSender<Borrowed<'static>>>();
    println!(
        "control block {control} B, counters {} B, histograms {} B",
        size_of::<StcpCounters>(),
        size_of::<StcpHistograms>()
    );
    assert!(control <= 512, "{control} B");
    let page = include_str!("../../../docs/stcp.md");
    assert!(
        page.contains(&format!("{control} bytes")),
        "docs/stcp.md does not say {control} bytes"
    );
}
