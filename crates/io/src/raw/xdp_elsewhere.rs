//! Frames through AF_XDP on systems that do not have it: opening answers "unsupported".

use super::port::Taken;
use super::setup::RawError;
use crate::frames::{FramesError, PARTS};
use crate::interface::elsewhere::only_on_linux;

/// Stands for the first queue of an interface.
#[derive(Debug)]
pub(super) enum XdpPort {}

impl XdpPort {
    pub fn open(interface: &str) -> Result<XdpPort, RawError> {
        let (interface, what) = (interface.to_owned(), "open a socket");
        Err(RawError::Xdp { interface, what, cause: only_on_linux() })
    }

    pub fn send<'a>(
        &mut self,
        _: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> Result<Taken, FramesError> {
        match *self {}
    }
}
