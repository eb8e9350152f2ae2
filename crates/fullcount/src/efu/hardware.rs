//! The unit's check of interfaces: there, up, with an IPv4 address, and an MTU for jumbo frames.
//!
//! Source: `control-and-monitoring.md` section 1.

use fullcount_io::sys::interface;

use super::EfuFlags;

/// Checks the interfaces that were named.
pub fn check(flags: &EfuFlags) -> Result<(), String> {
    if flags.nohwcheck {
        return Ok(());
    }
    let checked =
        |name: &String| one(name, flags.min_mtu).map_err(|why| format!("--checkif {name}: {why}"));
    flags.checkif.iter().try_for_each(checked)
}

fn one(name: &str, least: usize) -> Result<(), String> {
    let found = interface::interface(name).map_err(|e| e.to_string())?;
    if !found.up {
        return Err(format!("it is down; run: ip link set {name} up"));
    }
    if interface::ipv4_address(name).is_err() {
        return Err("it has no IPv4 address".into());
    }
    if found.mtu < least {
        let mtu = found.mtu;
        return Err(format!(
            "its MTU is {mtu}, and {least} or more is needed; run: ip link set {name} mtu {least}"
        ));
    }
    Ok(())
}
