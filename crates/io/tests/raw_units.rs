//! The simplified TCP in units of more than 64 KiB, into the real Linux stack: whole, and cut by the kernel.

use fullcount_io::host::unit::{longest_unit, set_longest_unit};
use fullcount_io::raw::UNIT;
use fullcount_io::sys::set_feature;
use fullcount_testing::veth::{NAME, Veth};

use super::raw::{GIGABYTE, NO_PAUSE, SOME, transfer_over};

/// Frames that have left the sender's end.
fn frames(veth: &Veth) -> u64 {
    let told = veth.run(true, &["ip", "-s", "link", "show", NAME]);
    let mut lines = told.lines().skip_while(|line| !line.trim_start().starts_with("TX:"));
    let numbers = lines.nth(1).unwrap_or_else(|| panic!("{told}"));
    numbers
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or_else(|| panic!("{told}"))
}

/// Fewer frames leave than there would be units of 64 KiB, which a new interface takes; every byte is compared.
#[test]
fn s51_a_gigabyte_arrives_in_units_of_up_to_256_kib() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    assert_eq!(veth.sending(|| longest_unit(NAME)), Some(1 << 16));
    veth.sending(|| set_longest_unit(NAME, UNIT)).unwrap();
    assert_eq!(veth.sending(|| longest_unit(NAME)), Some(UNIT));
    let before = frames(&veth);
    transfer_over(&veth, true, "", GIGABYTE, NO_PAUSE);
    let left = frames(&veth) - before;
    assert!(left < GIGABYTE / (1 << 16), "{left} frames");
}

/// The kernel cuts the units and sums each segment up, since the interface does neither; the receiver checks.
#[test]
fn s51_every_byte_arrives_of_long_units_that_the_kernel_cuts() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    veth.sending(|| set_longest_unit(NAME, UNIT)).unwrap();
    for feature in ["tx-tcp-segmentation", "tx-checksum-ip-generic"] {
        veth.sending(|| set_feature(NAME, feature, false)).unwrap();
    }
    let before = frames(&veth);
    transfer_over(&veth, true, "", SOME, NO_PAUSE);
    let left = frames(&veth) - before;
    assert!(left >= SOME / 8960, "{left} frames");
}

#[test]
fn an_interface_that_is_not_there_has_no_unit() {
    assert_eq!(longest_unit("nobody0"), None);
    assert!(set_longest_unit("nobody0", UNIT).is_err());
}
