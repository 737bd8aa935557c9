//! Memory for tables that are large and live as long as the program.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;

use zerocopy::FromZeros;

use super::DpdkError;

/// Size of the pages that are asked for.
const HUGE_PAGE_LEN: usize = 2 << 20;

/// `count` values, all zero bytes, in transparent hugepages where the kernel has them, aligned to
/// 2 MiB and already present, so that no worker ever waits for a page. Never freed, on purpose.
///
/// The pages lie on the NUMA node of the thread that calls this: call it from where the table will
/// be used, or with that thread's affinity.
///
/// # Errors
///
/// The memory is not to be had.
pub fn zeroed_storage<T: FromZeros + 'static>(count: usize) -> Result<&'static mut [T], DpdkError> {
    const { assert!(align_of::<T>() <= HUGE_PAGE_LEN) };
    let wanted = count.checked_mul(size_of::<T>());
    if wanted == Some(0) {
        // SAFETY: `count` values of no size, or none of any, take no memory; the pointer is
        // aligned and not null, and zero bytes make a `T`.
        return Ok(unsafe { slice::from_raw_parts_mut(NonNull::dangling().as_ptr(), count) });
    }
    let len = wanted
        .and_then(|len| len.checked_next_multiple_of(HUGE_PAGE_LEN))
        .filter(|len| isize::try_from(*len).is_ok());
    let start = match len {
        Some(len) => map(len).and_then(|start| populate(start, len).map(|()| start)),
        None => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
    };
    let start = start.map_err(|source| DpdkError::Storage {
        mib: wanted.unwrap_or(usize::MAX).div_ceil(1 << 20),
        source,
    })?;
    // SAFETY: `start` leads at least `count` values' worth of memory that is aligned, zeroed by
    // the kernel, which makes valid values (`FromZeros`), nobody else's, and never unmapped.
    Ok(unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), count) })
}

/// Anonymous zeroed memory at an address that is a multiple of [`HUGE_PAGE_LEN`]; `len` is one too.
fn map(len: usize) -> io::Result<NonNull<u8>> {
    // One page more than asked for, so that an aligned range lies inside; the rest is given back.
    let mapped_len = len + HUGE_PAGE_LEN;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            mapped_len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mapped = mapped.cast::<u8>();
    let before = mapped.align_offset(HUGE_PAGE_LEN);
    // SAFETY: `before` is below HUGE_PAGE_LEN, so this lies in the mapping.
    let start = unsafe { mapped.add(before) };
    // SAFETY: `before + len` is below `mapped_len`.
    let end = unsafe { start.add(len) };
    unmap(mapped, before);
    unmap(end, HUGE_PAGE_LEN - before);
    NonNull::new(start).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Gives a part of the mapping back that nobody refers to. A failure only wastes addresses.
fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the range lies in the mapping that `map` just made and outside what it returns.
        unsafe { libc::munmap(start.cast(), len) };
    }
}

/// Makes every page present.
fn populate(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // Advice; a kernel without transparent hugepages may refuse it.
    // SAFETY: the range is a mapping of ours.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    // SAFETY: the range is a mapping of ours; present pages stay zero.
    let status = unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
    let error = io::Error::last_os_error();
    // EINVAL: a kernel before 5.14. Its pages then come at first use.
    if status == 0 || error.raw_os_error() == Some(libc::EINVAL) {
        return Ok(());
    }
    unmap(start.as_ptr(), len);
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_zeroed_aligned_and_writable_to_its_end() {
        let storage = zeroed_storage::<[u64; 8]>(50_000).unwrap();
        assert_eq!(storage.len(), 50_000);
        assert_eq!(storage.as_ptr().addr() % HUGE_PAGE_LEN, 0);
        assert!(storage.iter().all(|line| *line == [0; 8]));
        storage.fill([u64::MAX; 8]);
        let other = zeroed_storage::<u8>(1).unwrap();
        assert_eq!(other, [0]);
    }

    #[test]
    fn nothing_takes_nothing() {
        assert!(zeroed_storage::<u64>(0).unwrap().is_empty());
        assert_eq!(zeroed_storage::<()>(7).unwrap().len(), 7);
    }

    #[test]
    fn too_much_is_a_sentence() {
        for count in [usize::MAX, usize::MAX / 8, 1 << 50] {
            let error = zeroed_storage::<u64>(count).unwrap_err().to_string();
            assert!(error.contains("lower `[conntrack]"), "{error}");
        }
    }
}
