//! Send buffers of a link's streams, cut from blocks that lie on large pages.
//!
//! Half of what a sender without a limit does is the kernel's copy out of these buffers. 1 MiB on pages of 4 KiB is 256 entries of an
//! address cache that has 96 (Golden Cove); on a large page it is one. Source: docs/stcp.md, "Measured".

use bytes::BytesMut;

/// A large page, and what a block of smaller buffers takes.
const BLOCK: usize = 2 << 20;

/// Where a link's send buffers come from: those of the next streams lie in what is left of the last block.
#[derive(Debug)]
pub(super) struct SendBuffers {
    large_pages: bool,
    rest: BytesMut,
}

impl SendBuffers {
    pub fn new(large_pages: bool) -> SendBuffers {
        SendBuffers { large_pages, rest: BytesMut::new() }
    }

    /// A buffer of zeros, `bytes` long, which must be a power of two. A block is given back when its last buffer is dropped.
    pub fn take(&mut self, bytes: usize) -> BytesMut {
        if !self.large_pages {
            return BytesMut::zeroed(bytes);
        }
        if self.rest.len() < bytes {
            self.rest = block(bytes.max(BLOCK));
        }
        self.rest.split_to(bytes)
    }
}

/// `bytes` from a border of large pages on. What lies before it is never touched, so it takes no memory.
fn block(bytes: usize) -> BytesMut {
    let mut block = BytesMut::zeroed(bytes + BLOCK);
    let before = block.as_ptr().align_offset(BLOCK).min(BLOCK);
    let mut block = block.split_off(before);
    block.truncate(bytes);
    crate::sys::prefer_large_pages(&mut block);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_one_block_lie_side_by_side_from_its_border_on() {
        let mut buffers = SendBuffers::new(true);
        let mut taken: Vec<BytesMut> = (0..5).map(|_| buffers.take(512 << 10)).collect();
        for (i, buffer) in taken.iter_mut().enumerate() {
            assert_eq!((buffer.len(), buffer.iter().any(|&b| b > 0)), (512 << 10, false));
            buffer.fill(i as u8 + 1);
        }
        let at = |i: usize| taken[i].as_ptr() as usize;
        assert_eq!(at(0) % BLOCK, 0);
        assert_eq!([at(1), at(2), at(3)].map(|a| a - at(0)), [512 << 10, 1 << 20, 1536 << 10]);
        assert_eq!(at(4) % BLOCK, 0, "the next block");
        assert!(taken.iter().enumerate().all(|(i, b)| b.iter().all(|&x| x == i as u8 + 1)));
    }

    #[test]
    fn a_buffer_longer_than_a_block_is_one_of_its_own() {
        let mut buffers = SendBuffers::new(true);
        let _first = buffers.take(128 << 10);
        let long = buffers.take(8 << 20);
        assert_eq!((long.len(), long.as_ptr() as usize % BLOCK), (8 << 20, 0));
        assert_eq!(SendBuffers::new(false).take(128 << 10).len(), 128 << 10);
    }
}
