//! Where a setting lies and how it is read and written: a file below the host's tree, a ring, an offload.
//!
//! Refuses: files outside the few folders of settings (a state file is data: it must not make root write
//! anywhere), rings and offloads of a host that this program does not run on.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use fullcount_io::host::Host;
use fullcount_io::sys::ethtool;

/// Folders in which settings lie.
const FOLDERS: [&str; 4] =
    ["proc/sys/net/", "proc/irq/", "sys/class/net/", "sys/devices/system/cpu/"];

/// Which of an interface's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InterfaceRing {
    /// Received packets.
    Rx,
    /// Packets to send.
    Tx,
}

/// Where a setting lies.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SettingPlace {
    /// A file, its path below the root of the host's tree.
    File(String),
    /// Entries of a ring of an interface.
    Ring(String, InterfaceRing),
    /// An offload of an interface, by the kernel's name; `on` or `off`.
    Feature(String, String),
}

impl SettingPlace {
    /// A setting of the kernel by its dotted name.
    pub fn sysctl(name: &str) -> SettingPlace {
        SettingPlace::File(format!("proc/sys/{}", name.replace('.', "/")))
    }

    /// Reads what [`SettingPlace`] prints.
    pub fn parse(text: &str) -> Option<SettingPlace> {
        let mut words = text.splitn(3, ' ');
        let (sort, second, third) = (words.next()?, words.next(), words.next());
        let place = match (sort, second, third) {
            ("file", Some(path), None) => SettingPlace::File(path.to_owned()),
            ("ring-rx", Some(interface), None) => {
                SettingPlace::Ring(interface.to_owned(), InterfaceRing::Rx)
            }
            ("ring-tx", Some(interface), None) => {
                SettingPlace::Ring(interface.to_owned(), InterfaceRing::Tx)
            }
            ("offload", Some(i), Some(feature)) => {
                SettingPlace::Feature(i.to_owned(), feature.to_owned())
            }
            _ => return None,
        };
        place.is_a_setting().then_some(place)
    }

    /// It lies where settings lie.
    fn is_a_setting(&self) -> bool {
        match self {
            SettingPlace::File(path) => {
                let steps = || path.split('/');
                FOLDERS.iter().any(|f| path.starts_with(f))
                    && steps().all(|s| !s.is_empty() && s != "." && s != "..")
            }
            SettingPlace::Ring(interface, _) | SettingPlace::Feature(interface, _) => {
                !interface.is_empty()
            }
        }
    }
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingPlace::File(path) => write!(f, "file {path}"),
            SettingPlace::Ring(interface, InterfaceRing::Rx) => write!(f, "ring-rx {interface}"),
            SettingPlace::Ring(interface, InterfaceRing::Tx) => write!(f, "ring-tx {interface}"),
            SettingPlace::Feature(interface, feature) => write!(f, "offload {interface} {feature}"),
        }
    }
}

/// A setting and the value that it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub place: SettingPlace,
    /// What.
    pub value: String,
}

impl Change {
    /// A setting of the kernel.
    pub fn sysctl(name: &str, value: impl fmt::Display) -> Change {
        Change { place: SettingPlace::sysctl(name), value: value.to_string() }
    }

    /// A file below the root of the host's tree.
    pub fn file(path: impl Into<String>, value: impl fmt::Display) -> Change {
        Change { place: SettingPlace::File(path.into()), value: value.to_string() }
    }

    /// The command that does the same.
    pub fn command(&self) -> String {
        let value = &self.value;
        match &self.place {
            SettingPlace::File(path) => {
                let steps: Vec<&str> = path.split('/').collect();
                match steps[..] {
                    ["proc", "sys", ..] => {
                        let name = steps[2..].join(".");
                        match value.contains(' ') {
                            true => format!("sysctl -w {name}='{value}'"),
                            false => format!("sysctl -w {name}={value}"),
                        }
                    }
                    ["sys", "class", "net", interface, "mtu"] => {
                        format!("ip link set dev {interface} mtu {value}")
                    }
                    ["sys", "class", "net", interface, "tx_queue_len"] => {
                        format!("ip link set dev {interface} txqueuelen {value}")
                    }
                    _ => format!("echo {value} > /{path}"),
                }
            }
            SettingPlace::Ring(interface, InterfaceRing::Rx) => {
                format!("ethtool -G {interface} rx {value}")
            }
            SettingPlace::Ring(interface, InterfaceRing::Tx) => {
                format!("ethtool -G {interface} tx {value}")
            }
            SettingPlace::Feature(interface, feature) => {
                format!("ethtool -K {interface} {feature} {value}")
            }
        }
    }
}

/// What reads and writes settings.
pub trait SettingsStore {
    /// Value now.
    fn read(&mut self, place: &SettingPlace) -> io::Result<String>;

    /// Sets it.
    fn write(&mut self, place: &SettingPlace, value: &str) -> io::Result<()>;
}

/// Settings of a host, or files of a tree.
#[derive(Debug)]
pub struct HostSettings {
    root: PathBuf,
    here: bool,
}

impl HostSettings {
    /// Those of `host`.
    pub fn new(host: &Host) -> HostSettings {
        HostSettings { root: host.root().to_owned(), here: host.is_this_one() }
    }

    fn must_be_here(&self) -> io::Result<()> {
        let why = "rings and offloads can only be set on the host itself, not below --root";
        if self.here { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Unsupported, why)) }
    }

    fn path(&self, place: &SettingPlace, path: &str) -> io::Result<PathBuf> {
        let why = "not among the settings that this program changes";
        match place.is_a_setting() {
            true => Ok(self.root.join(path)),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
        }
    }
}

impl SettingsStore for HostSettings {
    fn read(&mut self, place: &SettingPlace) -> io::Result<String> {
        match place {
            SettingPlace::File(path) => {
                let text = std::fs::read_to_string(self.path(place, path)?)?;
                Ok(text.trim_end_matches('\n').to_owned())
            }
            SettingPlace::Ring(interface, ring) => {
                self.must_be_here()?;
                let rings = ethtool::rings(interface)?;
                Ok(if *ring == InterfaceRing::Rx { rings.rx } else { rings.tx }.to_string())
            }
            SettingPlace::Feature(interface, name) => {
                self.must_be_here()?;
                let all = ethtool::features(interface)?;
                let absent = || io::Error::new(io::ErrorKind::NotFound, "no such offload");
                let on = all.iter().find(|f| f.name == *name).ok_or_else(absent)?.on;
                Ok(if on { "on" } else { "off" }.to_owned())
            }
        }
    }

    fn write(&mut self, place: &SettingPlace, value: &str) -> io::Result<()> {
        match place {
            SettingPlace::File(path) => {
                // Never made anew: a setting that is not there cannot be set.
                let path = self.path(place, path)?;
                let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
                // One call: the kernel takes each write of a setting as a whole value.
                file.write_all(format!("{value}\n").as_bytes())
            }
            SettingPlace::Ring(interface, ring) => {
                self.must_be_here()?;
                let bad = |_| io::Error::new(io::ErrorKind::InvalidInput, "not a number");
                let entries = Some(value.parse::<u32>().map_err(bad)?);
                match ring {
                    InterfaceRing::Rx => ethtool::set_rings(interface, entries, None),
                    InterfaceRing::Tx => ethtool::set_rings(interface, None, entries),
                }
            }
            SettingPlace::Feature(interface, name) => {
                self.must_be_here()?;
                ethtool::set_feature(interface, name, value == "on")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_print_and_read_back() {
        for place in [
            SettingPlace::sysctl("net.ipv4.udp_mem"),
            SettingPlace::File("sys/class/net/eth0/mtu".into()),
            SettingPlace::Ring("eth0".into(), InterfaceRing::Rx),
            SettingPlace::Ring("eth0".into(), InterfaceRing::Tx),
            SettingPlace::Feature("eth0".into(), "rx-gro".into()),
        ] {
            assert_eq!(SettingPlace::parse(&place.to_string()), Some(place));
        }
    }

    #[test]
    fn nothing_but_settings_is_a_place() {
        for text in [
            "",
            "file",
            "file etc/shadow",
            "file /proc/sys/net/core/rmem_max",
            "file proc/sys/kernel/core_pattern",
            "file proc/sys/net/../kernel/core_pattern",
            "file proc/sys/net//core",
            "ring-rx",
            "ring-rx eth0 512",
            "offload eth0",
        ] {
            assert_eq!(SettingPlace::parse(text), None, "{text}");
        }
        let mut here = HostSettings::new(&Host::at("/"));
        let outside = SettingPlace::File("etc/hostname".into());
        assert_eq!(here.write(&outside, "x").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn commands_are_the_ones_that_people_know() {
        let says = |place, value: &str| Change { place, value: value.into() }.command();
        let mtu = SettingPlace::File("sys/class/net/eth0/mtu".into());
        assert_eq!(says(mtu, "9000"), "ip link set dev eth0 mtu 9000");
        let rmem = SettingPlace::sysctl("net.core.rmem_max");
        assert_eq!(says(rmem, "67108864"), "sysctl -w net.core.rmem_max=67108864");
        let udp = SettingPlace::sysctl("net.ipv4.udp_mem");
        assert_eq!(says(udp, "1 2 3"), "sysctl -w net.ipv4.udp_mem='1 2 3'");
        let irq = SettingPlace::File("proc/irq/38/smp_affinity_list".into());
        assert_eq!(says(irq, "2"), "echo 2 > /proc/irq/38/smp_affinity_list");
        assert_eq!(
            says(SettingPlace::Ring("e".into(), InterfaceRing::Tx), "512"),
            "ethtool -G e tx 512"
        );
    }
}
