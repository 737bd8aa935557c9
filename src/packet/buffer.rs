//! What the pipeline needs of a packet buffer: contiguous bytes with room in front.

/// One packet in one contiguous buffer.
///
/// Implemented by `dpdk::Mbuf` and, for tests and generators, by [`HeapBuf`].
pub trait PacketBuf {
    /// The frame, from the first byte of its Ethernet header.
    fn bytes(&self) -> &[u8];

    /// The frame, to change in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Whether the frame is one segment. The pipeline drops any other.
    fn is_linear(&self) -> bool;

    /// Cuts the frame to its first `len` bytes; longer than the frame changes nothing.
    fn truncate(&mut self, len: usize);

    /// Replaces the first `old_len` bytes by `new_len` bytes, whose content is then unspecified,
    /// and returns the whole new frame. `None`, with the frame unchanged, if the headroom is too
    /// small or the frame is shorter than `old_len`.
    fn replace_front(&mut self, old_len: usize, new_len: usize) -> Option<&mut [u8]>;
}

/// A [`PacketBuf`] on the heap, with a headroom that the maker chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapBuf {
    storage: Vec<u8>,
    start: usize,
    linear: bool,
}

impl HeapBuf {
    /// DPDK's default headroom (`RTE_PKTMBUF_HEADROOM`), in bytes.
    pub const DEFAULT_HEADROOM: usize = 128;

    /// A buffer that holds `frame` behind [`Self::DEFAULT_HEADROOM`].
    #[must_use]
    pub fn new(frame: &[u8]) -> Self {
        Self::with_headroom(frame, Self::DEFAULT_HEADROOM)
    }

    /// A buffer that holds `frame` behind `headroom` bytes.
    #[must_use]
    pub fn with_headroom(frame: &[u8], headroom: usize) -> Self {
        let mut storage = vec![0; headroom];
        storage.extend_from_slice(frame);
        Self { storage, start: headroom, linear: true }
    }

    /// Marks the frame as being in several segments, as a driver with scattered receive makes it.
    #[must_use]
    pub fn into_segmented(mut self) -> Self {
        self.linear = false;
        self
    }
}

impl PacketBuf for HeapBuf {
    fn bytes(&self) -> &[u8] {
        self.storage.get(self.start..).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.get_mut(self.start..).unwrap_or_default()
    }

    fn is_linear(&self) -> bool {
        self.linear
    }

    fn truncate(&mut self, len: usize) {
        self.storage.truncate(self.start + len);
    }

    fn replace_front(&mut self, old_len: usize, new_len: usize) -> Option<&mut [u8]> {
        if old_len > self.bytes().len() {
            return None;
        }
        self.start = (self.start + old_len).checked_sub(new_len)?;
        Some(self.bytes_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_the_front_keeps_the_rest_and_respects_the_headroom() {
        let mut buf = HeapBuf::with_headroom(&[1, 2, 3, 4], 4);
        assert!(buf.replace_front(5, 5).is_none(), "longer than the frame");
        assert!(buf.replace_front(2, 7).is_none(), "beyond the headroom");
        assert_eq!(buf.bytes(), [1, 2, 3, 4]);
        let frame = buf.replace_front(2, 6).unwrap();
        assert_eq!(frame.len(), 8);
        assert_eq!(frame[6..], [3, 4]);
        assert_eq!(buf.replace_front(6, 0).unwrap(), [3, 4]);
        buf.truncate(1);
        assert_eq!(buf.bytes(), [3]);
        buf.truncate(9);
        assert_eq!(buf.bytes(), [3]);
    }
}
