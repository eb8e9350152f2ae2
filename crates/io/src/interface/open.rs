//! First steps of opening an interface: it exists and is up, and a group is joined.
//!
//! Refuses: see [`InterfaceError`].

use std::io;
use std::net::IpAddr;

use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};

use super::InterfaceError;
use crate::sys::interface::{self, SystemInterface};

/// What is being opened.
pub(crate) struct Opening<'a> {
    /// URL without keys.
    pub endpoint: String,
    /// Name of the interface.
    pub interface: &'a str,
    /// UDP port.
    pub port: u16,
    /// Destination address.
    pub address: Option<IpAddr>,
    /// Rights that the scheme needs, and how to give them.
    pub needs: &'static str,
}

impl Opening<'_> {
    /// What an answer of the system means, whatever was being done.
    pub fn system(&self, what: &'static str, cause: io::Error) -> InterfaceError {
        let (endpoint, needs) = (self.endpoint.clone(), self.needs);
        match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                InterfaceError::NotAllowed { endpoint, what, needs }
            }
            _ => InterfaceError::System { endpoint, what, cause },
        }
    }

    /// The interface.
    pub fn look(&self) -> Result<SystemInterface, InterfaceError> {
        let (endpoint, interface) = (self.endpoint.clone(), self.interface.to_owned());
        interface::interface(self.interface).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => InterfaceError::NoInterface { endpoint, interface },
            _ => self.system("look at the interface", e),
        })
    }

    /// Refuses an interface that is down.
    pub fn check_up(&self, about: &SystemInterface) -> Result<(), InterfaceError> {
        let (endpoint, interface) = (self.endpoint.clone(), self.interface.to_owned());
        if about.up { Ok(()) } else { Err(InterfaceError::Down { endpoint, interface }) }
    }

    /// Joins the group, if the address is one; the membership ends with the socket.
    pub fn join(&self, index: u32) -> Result<Option<Socket>, InterfaceError> {
        let Some(group) = self.address.filter(IpAddr::is_multicast) else { return Ok(None) };
        member(group, index).map(Some).map_err(|cause| InterfaceError::Join {
            endpoint: self.endpoint.clone(),
            group,
            cause,
        })
    }

    /// Where it listens.
    pub fn place(&self) -> String {
        let place = self.address.map_or("any address".to_owned(), |a| a.to_string());
        format!("listening on {} for UDP port {}, {place}", self.interface, self.port)
    }
}

/// Joins a group on interface `index`, so that switches and the card let it through; the socket is bound to no port and
/// receives nothing.
fn member(group: IpAddr, index: u32) -> io::Result<Socket> {
    let domain = if group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?;
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, index)?,
    }
    Ok(socket)
}
