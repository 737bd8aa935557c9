//! Cores: whether they are there, and who may run where.

use core_affinity::CoreId;

use super::StartError;
use crate::config::Cpu;
use crate::cpu;

/// Refuses a CPU that lacks what the build was made for (docs/decisions/0007).
pub(super) fn check_cpu() -> Result<(), StartError> {
    let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else { return Ok(()) };
    let missing = cpu::missing_features(&cpuinfo);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(StartError::OldCpu { missing: missing.join(", ") })
    }
}

/// Refuses cores that this machine does not have, or does not let the process use.
pub(super) fn check(cpu: &Cpu) -> Result<(), StartError> {
    let allowed: Vec<_> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    let wanted = cpu.workers.iter().map(|&core| ("workers", core));
    for (key, core) in wanted.chain([("management", cpu.management)]) {
        if !allowed.contains(&core) {
            let allowed = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(StartError::NoSuchCore { key, core, allowed });
        }
    }
    Ok(())
}

/// Narrows the calling thread, and all it will start, to the management core.
pub(super) fn narrow_to_management(cpu: &Cpu) -> Result<(), StartError> {
    pin(cpu.management)
}

/// Pins the calling thread to a core.
pub(super) fn pin(core: usize) -> Result<(), StartError> {
    if core_affinity::set_for_current(CoreId { id: core }) {
        Ok(())
    } else {
        Err(StartError::Pin { core })
    }
}
