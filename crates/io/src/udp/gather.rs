//! A train whose bytes lie in several places, sent as one message.
//!
//! The kernel gathers headers and payload itself: nothing is put together before. What it refuses is put together after all
//! and goes the way of every other train, which knows what to do about an error. Sources: `sendmsg(2)`, `udp(7)`.

use std::io::IoSlice;
use std::os::fd::AsFd;

use super::split::Piece;
use super::transmit::{Answer, TransmitError, UdpSender, answer};
use crate::endpoint::Engine;
use crate::sys;

/// Pieces of a usual message: 44 packets of 1472 B, each with header and payload. With a table of [`sys::MOST_PIECES`], which is made
/// anew for each message, this took 3.3 % of a sender's time, now 1 %.
const FEW: usize = 128;

/// Puts pieces into a table; how many. `None`: there are more.
fn fill<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
    table: &mut [IoSlice<'a>],
) -> Option<usize> {
    let mut filled = 0;
    for (place, piece) in table.iter_mut().zip(&mut pieces) {
        *place = IoSlice::new(piece);
        filled += 1;
    }
    (filled < table.len() || pieces.next().is_none()).then_some(filled)
}

impl UdpSender {
    /// Sends `pieces`, one behind the other, as datagrams of `stride` bytes; the last may be shorter. Returns when the kernel has
    /// all of it.
    ///
    /// # Errors
    /// [`TransmitError`], as of [`UdpSender::send`].
    pub fn send_pieces<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        stride: usize,
    ) -> Result<(), TransmitError> {
        let mut few = [IoSlice::new(&[]); FEW];
        let tried = match fill(pieces.clone(), &mut few) {
            Some(filled) => self.gathered(&few[..filled], stride),
            None => {
                let mut many = [IoSlice::new(&[]); sys::MOST_PIECES];
                let filled = fill(pieces.clone(), &mut many);
                filled.map_or(Err(None), |filled| self.gathered(&many[..filled], stride))
            }
        };
        let Err(refused) = tried else { return Ok(()) };
        let bytes: usize = pieces.clone().map(<[u8]>::len).sum();
        let packets = bytes.div_ceil(stride.max(1)).max(1);
        let segment = (packets > 1).then_some(stride as u16);
        let mut together = std::mem::take(&mut self.together);
        let mut both = pieces.clone();
        let whole = match (both.next(), both.next()) {
            (Some(piece), None) => piece,
            _ => {
                together.clear();
                pieces.for_each(|piece| together.extend_from_slice(piece));
                &together[..]
            }
        };
        let piece = Piece { bytes: whole, segment, packets };
        // The system tells a report once: the next call would not meet it.
        if refused.is_some_and(|cause| answer(&cause, &piece, self.most()) == Answer::Report) {
            self.set_aside();
        }
        let sent = self.send(whole, stride);
        self.together = together;
        sent
    }

    /// One message of these pieces. `Err`: it has not left; with what the system said, if it was asked.
    fn gathered(
        &mut self,
        pieces: &[IoSlice<'_>],
        stride: usize,
    ) -> Result<(), Option<std::io::Error>> {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let packets = bytes.div_ceil(stride.max(1)).max(1);
        if self.engine() != Engine::Gro || packets > self.train_limit(stride) {
            return Err(None);
        }
        let segment = (packets > 1).then_some(stride as u16);
        sys::send_pieces(self.socket().as_fd(), pieces, segment)?;
        self.sent(packets as u64, bytes as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::super::{SendOptions, SplitLimits};
    use super::*;
    use crate::endpoint::UdpUrl;

    fn pair(engine: Engine) -> (UdpSender, UdpSocket) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let url = UdpUrl { engine, ..UdpUrl::new(socket.local_addr().unwrap()) };
        (UdpSender::open(&url, &SendOptions::default()).unwrap(), socket)
    }

    fn datagrams(socket: &UdpSocket, many: usize) -> Vec<Vec<u8>> {
        let mut slot = vec![0; 65_536];
        let mut next = || socket.recv(&mut slot).map(|n| slot[..n].to_vec()).unwrap();
        (0..many).map(|_| next()).collect()
    }

    #[test]
    fn pieces_become_datagrams_of_the_stride_with_every_engine() {
        let data: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for engine in [Engine::Auto, Engine::Mmsg, Engine::Plain] {
            let (mut sender, socket) = pair(engine);
            // The length of a piece, all bytes, the stride: one message, more than one, one piece of
            // more than one, more pieces than a call takes, one datagram.
            for (piece, bytes, stride) in [
                (333, 44 * 1400, 1472),
                (997, 100_000, 1472),
                (100_000, 100_000, 1472),
                (1, 1500, 700),
                (13, 900, 1472),
            ] {
                sender.send_pieces(data[..bytes].chunks(piece), stride).unwrap();
                let wanted: Vec<_> = data[..bytes].chunks(stride).map(<[u8]>::to_vec).collect();
                assert_eq!(datagrams(&socket, wanted.len()), wanted, "{engine:?} {piece}");
            }
            let all = [44 * 1400usize, 100_000, 100_000, 1500, 900];
            assert_eq!(sender.bytes(), all.iter().sum::<usize>() as u64);
            assert_eq!(sender.packets(), 42 + 68 + 68 + 3 + 1);
        }
    }

    #[test]
    fn what_the_path_refuses_goes_another_way() {
        let (mut sender, socket) = pair(Engine::Auto);
        sender.limits = SplitLimits { segments: 5000, bytes: 65_507, stride: 65_507 };
        let data = vec![9; 5000];
        sender.send_pieces(data.chunks(10), 1).unwrap();
        assert_eq!(datagrams(&socket, 20), vec![vec![9]; 20]);
        assert!(sender.limits.segments <= 128, "the refusal was noted: {:?}", sender.limits);
        assert_eq!(sender.sheet().get(super::super::Transmit::Failed as usize), 0);
    }

    #[test]
    fn a_report_is_counted_and_the_train_sent() {
        let (mut sender, socket) = pair(Engine::Auto);
        let at = socket.local_addr().unwrap();
        drop(socket);
        let data = [5; 3000];
        sender.send_pieces(data.chunks(1000), 1000).unwrap();
        let socket = UdpSocket::bind(at).unwrap();
        sender.send_pieces(data.chunks(1000), 1000).unwrap();
        assert_eq!(datagrams(&socket, 3), vec![vec![5; 1000]; 3]);
        assert!(sender.sheet().get(super::super::Transmit::Reported as usize) > 0);
        assert_eq!(sender.packets(), 6);
    }
}
