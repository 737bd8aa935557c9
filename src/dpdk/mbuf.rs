//! Packet buffers: owned, freed on drop, and the only file that looks inside `rte_mbuf`.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use arrayvec::ArrayVec;
use dpdk_sys::rte_mbuf;

use crate::packet::PacketBuf;

/// The most packets that are received, handled or sent at once.
pub const BURST: usize = 32;

/// `RTE_MBUF_F_RX_VLAN_STRIPPED`: the tag is in `vlan_tci` and no longer in the frame.
const STRIPPED: u64 = dpdk_sys::RTE_MBUF_F_RX_VLAN_STRIPPED as u64;
/// IEEE 802.1Q: type and tag, after the two addresses.
const TPID: [u8; 2] = [0x81, 0x00];
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Packets on their way through a worker.
pub type Burst = ArrayVec<Mbuf, BURST>;

/// One packet buffer and the frame in it.
///
/// Its owner is the only one: the buffer is direct, its reference count is 1, and nothing in this
/// program clones or attaches buffers. It goes back to its pool on drop. It can be sent to another
/// thread, but not shared:
///
/// ```compile_fail
/// fn is_sync<T: Sync>() {}
/// is_sync::<lodestone::dpdk::Mbuf>();
/// ```
#[repr(transparent)]
pub struct Mbuf {
    raw: NonNull<rte_mbuf>,
    /// Not `Sync`: a buffer may be the device's the moment its owner sends it.
    not_sync: PhantomData<Cell<()>>,
}

// SAFETY: a buffer belongs to its `Mbuf` alone (the driver gave it up at receive, the pool at
// allocation), and pools take buffers back from any thread.
unsafe impl Send for Mbuf {}

const fn is_send<T: Send>() {}
const _: () = is_send::<Mbuf>();
// Bursts are handed to C as arrays of pointers.
const _: () = assert!(size_of::<Mbuf>() == size_of::<*mut rte_mbuf>());
const _: () = assert!(align_of::<Mbuf>() == align_of::<*mut rte_mbuf>());
// Two cache lines; the pipeline touches the first alone.
const _: () = assert!(size_of::<rte_mbuf>() == 128);
const _: () = assert!(std::mem::offset_of!(rte_mbuf, data_len) < 64);

impl Mbuf {
    /// Takes ownership of a buffer.
    ///
    /// # Safety
    ///
    /// `raw` is a valid buffer with a reference count of 1 that no one else uses or frees.
    #[inline]
    pub(super) unsafe fn from_raw(raw: NonNull<rte_mbuf>) -> Self {
        Self { raw, not_sync: PhantomData }
    }

    /// Bytes in front of the frame that [`PacketBuf::replace_front`] can grow into.
    #[must_use]
    #[inline]
    pub fn headroom(&self) -> usize {
        self.header().data_off.into()
    }

    /// Bytes behind the frame that [`Self::append`] can grow into.
    #[must_use]
    #[inline]
    pub fn tailroom(&self) -> usize {
        let header = self.header();
        let end = usize::from(header.data_off) + usize::from(header.data_len);
        usize::from(header.buf_len).saturating_sub(end)
    }

    /// Grows the frame by `len` bytes at its end and returns them; their content is whatever was
    /// in the buffer before. `None`, with the frame unchanged, if the tailroom is too small or the
    /// frame is not linear.
    #[inline]
    pub fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.tailroom() || !self.is_linear() {
            return None;
        }
        let old_len = self.bytes().len();
        let new_len = u16::try_from(old_len + len).ok()?;
        let header = self.header_mut();
        header.data_len = new_len;
        header.pkt_len = new_len.into();
        self.bytes_mut().get_mut(old_len..)
    }

    /// Makes `frame` the content of a linear buffer, behind the headroom that it has. `false`,
    /// with the content unchanged, if it does not fit.
    pub fn fill(&mut self, frame: &[u8]) -> bool {
        if !self.is_linear() || frame.len() > self.bytes().len() + self.tailroom() {
            return false;
        }
        self.truncate(0);
        match self.append(frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                true
            }
            None => false,
        }
    }

    /// Puts the 802.1Q tag back that the device took off, so that the frame is as it was on the wire. A
    /// virtual function's device may do that unasked: its physical function decides.
    #[inline]
    pub(super) fn restore_tag(&mut self) {
        if self.header().ol_flags & STRIPPED != 0 {
            self.insert_tag();
        }
    }

    #[cold]
    fn insert_tag(&mut self) {
        let tag = self.header().vlan_tci.to_be_bytes();
        // Of the frame only the two addresses move. Without headroom it stays untagged, and the pipeline
        // counts it as a frame of another VLAN.
        if let Some(bytes) = self.replace_front(0, TAG_LEN)
            && bytes.len() >= ADDRESSES_LEN + TAG_LEN
        {
            bytes.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
            let place = bytes.iter_mut().skip(ADDRESSES_LEN);
            place.zip(TPID.into_iter().chain(tag)).for_each(|(byte, value)| *byte = value);
        }
        self.header_mut().ol_flags &= !STRIPPED;
    }

    #[inline]
    fn header(&self) -> &rte_mbuf {
        // SAFETY: the buffer is valid and ours alone (`from_raw`) until drop.
        unsafe { self.raw.as_ref() }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut rte_mbuf {
        // SAFETY: as in `header`, and `&mut self` makes the borrow exclusive.
        unsafe { self.raw.as_mut() }
    }

    /// The first byte of the frame.
    #[inline]
    fn start(&self) -> *mut u8 {
        let header = self.header();
        // SAFETY: `data_off` is at most `buf_len`: DPDK makes it so, and `replace_front` keeps it.
        unsafe { header.buf_addr.cast::<u8>().add(header.data_off.into()) }
    }
}

impl PacketBuf for Mbuf {
    /// Of a frame in several segments only the first.
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `data_off + data_len <= buf_len`; the pool's memory came zeroed from the kernel,
        // so all of it is initialised; the slice borrows `self`, the only owner.
        unsafe { slice::from_raw_parts(self.start(), self.header().data_len.into()) }
    }

    /// Of a frame in several segments only the first.
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the borrow exclusive.
        unsafe { slice::from_raw_parts_mut(self.start(), self.header().data_len.into()) }
    }

    #[inline]
    fn is_linear(&self) -> bool {
        self.header().nb_segs == 1
    }

    /// A frame in several segments stays as it is: the pipeline drops it.
    #[inline]
    fn truncate(&mut self, len: usize) {
        if !self.is_linear() {
            return;
        }
        let header = self.header_mut();
        if let Ok(len) = u16::try_from(len)
            && len < header.data_len
        {
            header.data_len = len;
            header.pkt_len = len.into();
        }
    }

    #[inline]
    fn replace_front(&mut self, old_len: usize, new_len: usize) -> Option<&mut [u8]> {
        let header = self.header_mut();
        let rest = usize::from(header.data_len).checked_sub(old_len)?;
        // The end of the frame does not move, so `data_off + data_len <= buf_len` still holds and
        // neither number outgrows its field.
        let start = (usize::from(header.data_off) + old_len).checked_sub(new_len)?;
        let first_len = u16::try_from(rest + new_len).ok()?;
        let behind = header.pkt_len.saturating_sub(header.data_len.into());
        header.data_off = u16::try_from(start).ok()?;
        header.data_len = first_len;
        header.pkt_len = behind + u32::from(first_len);
        Some(self.bytes_mut())
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the buffer is ours alone and is not used after this.
        unsafe { dpdk_sys::lodestone_pktmbuf_free(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.bytes().len())
            .field("headroom", &self.headroom())
            .field("tailroom", &self.tailroom())
            .field("linear", &self.is_linear())
            .finish()
    }
}

/// Frees every packet of a burst at once and leaves it empty.
#[inline]
pub fn free_burst(burst: &mut Burst) {
    let count = burst.len();
    // SAFETY: zero is within the capacity; nothing is dropped, and the next call takes over what
    // the burst owned.
    unsafe { burst.set_len(0) };
    // BURST fits; and freeing zero buffers is allowed.
    #[expect(clippy::cast_possible_truncation, reason = "at most BURST")]
    let count = count as u32;
    // SAFETY: the first `count` places hold pointers to buffers (`Mbuf` is one, transparently) that
    // the burst owned and gave up above.
    unsafe { dpdk_sys::rte_pktmbuf_free_bulk(burst.as_mut_ptr().cast(), count) };
}
