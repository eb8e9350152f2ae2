//! CPU time of a run.

use fullcount_io::host::Host;

use crate::summary::Cpu;

/// CPU time of this process and soft interrupts of the host; `None` where the host does not tell.
fn read_cpu() -> Option<Cpu> {
    let time = fullcount_io::sys::process_cpu_time().ok()?;
    let cores = Host::default().cores();
    let softirq = cores.iter().map(|c| c.softirq_ms as f64 / 1e3).sum();
    let softirq = (!cores.is_empty()).then_some(softirq);
    Some(Cpu { user: time.user_ns as f64 / 1e9, system: time.system_ns as f64 / 1e9, softirq })
}

/// CPU time at one moment.
pub(super) struct CpuMark(Option<Cpu>);

impl CpuMark {
    pub(super) fn now() -> CpuMark {
        CpuMark(read_cpu())
    }

    pub(super) fn since(&self) -> Cpu {
        let (Some(then), Some(now)) = (self.0, read_cpu()) else { return Cpu::default() };
        Cpu {
            user: now.user - then.user,
            system: now.system - then.system,
            softirq: now.softirq.zip(then.softirq).map(|(a, b)| a - b),
        }
    }
}
