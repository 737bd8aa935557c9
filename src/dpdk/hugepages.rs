//! Whether the kernel has hugepages for the packet memory, asked before EAL starts, whose own
//! answer to their absence is a page of log.

use std::fs;
use std::path::Path;

use super::DpdkError;

/// Where the kernel keeps its counts, one folder a page size.
pub(super) const SYSFS: &str = "/sys/kernel/mm/hugepages";

const KIB_PER_MIB: u64 = 1024;
const DEFAULT_PAGE_KIB: u64 = 2048;

/// Checks that `wanted_mib` MiB of hugepages are free, of all sizes together.
pub(super) fn check(sysfs: &Path, wanted_mib: u64) -> Result<(), DpdkError> {
    let sizes = page_sizes(sysfs);
    let free_kib: u64 = sizes.iter().map(|size| size.page_kib * size.free_count).sum();
    if free_kib >= wanted_mib * KIB_PER_MIB {
        return Ok(());
    }
    // The mend is in pages of 2 MiB where the machine has them, since those can be had at run time.
    let of_default_size = sizes.iter().find(|size| size.page_kib == DEFAULT_PAGE_KIB);
    let page_kib =
        of_default_size.or(sizes.first()).map_or(DEFAULT_PAGE_KIB, |size| size.page_kib).max(1);
    let used_count = sizes
        .iter()
        .find(|size| size.page_kib == page_kib)
        .map_or(0, |size| size.total_count.saturating_sub(size.free_count));
    Err(DpdkError::NoHugepages {
        free_mib: free_kib / KIB_PER_MIB,
        wanted_mib,
        page_count: used_count + (wanted_mib * KIB_PER_MIB).div_ceil(page_kib),
        page_kib,
    })
}

struct PageSize {
    page_kib: u64,
    total_count: u64,
    free_count: u64,
}

fn page_sizes(sysfs: &Path) -> Vec<PageSize> {
    let Ok(folders) = fs::read_dir(sysfs) else { return Vec::new() };
    folders
        .filter_map(|folder| {
            let folder = folder.ok()?;
            let name = folder.file_name().into_string().ok()?;
            let page_kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(PageSize {
                page_kib,
                total_count: number(&folder.path().join("nr_hugepages"))?,
                free_count: number(&folder.path().join("free_hugepages"))?,
            })
        })
        .collect()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(sizes: &[(u64, u64, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (page_kib, total, free) in sizes {
            let folder = root.path().join(format!("hugepages-{page_kib}kB"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("nr_hugepages"), format!("{total}\n")).unwrap();
            fs::write(folder.join("free_hugepages"), format!("{free}\n")).unwrap();
        }
        root
    }

    #[test]
    fn free_pages_of_all_sizes_count() {
        let root = machine(&[(2048, 100, 64), (1_048_576, 1, 1)]);
        assert!(check(root.path(), 128 + 1024).is_ok());
        assert!(check(root.path(), 128 + 1025).is_err());
    }

    #[test]
    fn the_mend_leaves_the_pages_of_others_alone() {
        let root = machine(&[(2048, 100, 10), (1_048_576, 0, 0)]);
        let error = check(root.path(), 256).unwrap_err();
        // 90 pages are in use, and 128 pages of 2 MiB make 256 MiB.
        assert_eq!(
            error.to_string(),
            "20 MiB of hugepages are free but `[memory] packet_memory` asks for 256 MiB; run \
             `echo 218 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, or set \
             `[memory] hugepages = false` if all ports are virtual devices"
        );
    }

    #[test]
    fn a_kernel_without_hugepages_gets_the_sentence_too() {
        let root = tempfile::tempdir().unwrap();
        let error = check(&root.path().join("absent"), 64).unwrap_err().to_string();
        assert!(error.starts_with("0 MiB") && error.contains("echo 32 >"), "{error}");
    }
}
