//! What an absent key means. The reader, the writer and the verbs agree because they ask here.

use std::time::Duration;

pub(super) const MANAGEMENT_CORE: usize = 0;
pub(super) const WORKER_CORES: [usize; 1] = [1];
pub(super) const HUGEPAGES: bool = true;
/// In MiB.
pub(super) const PACKET_MEMORY: u32 = 256;
pub(super) const IPV4_FLOWS: u32 = 1_000_000;
pub(super) const IPV6_FLOWS: u32 = 250_000;
pub(super) const ADMIN_SOCKET: &str = "/run/lodestone/admin.sock";
pub(super) const MTU: u16 = 1500;
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
pub(super) const RISE: u32 = 2;
pub(super) const FALL: u32 = 3;
pub(super) const HTTP_PATH: &str = "/";
pub(super) const HTTP_STATUS: u16 = 200;
pub(super) const THRESHOLD: usize = 1;
/// The paper's small table (Eisenbud et al., NSDI 2016, §5.3).
pub(super) const TABLE_SIZE: u32 = 65_537;
pub(super) const WEIGHT: u32 = 1;
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
pub(super) const ARP: bool = true;

/// An interval below the usual timeout shortens it.
pub(super) fn timeout(interval: Duration) -> Duration {
    interval.min(Duration::from_secs(2))
}
