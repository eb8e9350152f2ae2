//! What happens when time passes.

use super::{Ended, NEVER, Recovery, StcpSender, Timer, US, told};
use crate::memory::StcpMemory;
use crate::settings::Resend;
use crate::state::StcpState;

impl<M: StcpMemory> StcpSender<M> {
    pub(super) fn set(&mut self, timer: Timer, at_ns: u64) {
        self.timers[timer as usize] = at_ns;
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.timers[timer as usize] = NEVER;
    }

    pub(super) fn runs(&self, timer: Timer) -> bool {
        self.timers[timer as usize] != NEVER
    }

    fn expire(&mut self, timer: Timer, now_ns: u64) -> bool {
        let expired = self.timers[timer as usize] <= now_ns;
        if expired {
            self.stop(timer);
        }
        expired
    }

    /// Everything that is due by `now_ns`.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if self.deadline().is_none_or(|at| at > now_ns) {
            return;
        }
        if self.expire(Timer::Syn, now_ns) {
            self.syn_timer(now_ns);
        }
        if self.expire(Timer::HalfOpen, now_ns) {
            self.due.syn = true;
        }
        if self.expire(Timer::Rto, now_ns) {
            self.rto_timer(now_ns);
        }
        if self.expire(Timer::Persist, now_ns) {
            self.persist_timer(now_ns);
        }
        if self.expire(Timer::Coalesce, now_ns) {
            self.flush_to = self.end;
        }
        if self.expire(Timer::Override, now_ns) {
            self.due.short = true;
        }
        if self.expire(Timer::KeepAlive, now_ns) {
            self.keepalive_timer(now_ns);
        }
    }

    fn syn_timer(&mut self, now_ns: u64) {
        let limit = self.opened_at + u64::from(self.settings.syn_give_up_us) * US;
        if now_ns >= limit {
            return self.end(now_ns, Ended::ConnectTimeout);
        }
        self.due.syn = true;
        self.due.half_open_used = false;
        let first = u64::from(self.settings.syn_initial_us) * US;
        let wait = first << self.syn_tries.min(20);
        self.syn_tries = self.syn_tries.saturating_add(1);
        self.set(Timer::Syn, (now_ns + wait).min(limit));
    }

    fn rto_timer(&mut self, now_ns: u64) {
        if self.nxt == self.una {
            return;
        }
        let limit = self.progress_at + u64::from(self.settings.give_up_us) * US;
        if now_ns >= limit {
            return self.abort_for(now_ns, Ended::SendTimeout);
        }
        self.expiries = self.expiries.saturating_add(1);
        self.memory.counters().rto_expired += 1;
        if self.expiries == self.settings.warn_after {
            self.notices |= told::SLOW;
            self.memory.counters().slow += 1;
        }
        let flight = self.max - self.una;
        let mss = u64::from(self.mss);
        let last = flight < mss || (flight == mss && self.max == self.end);
        self.congestion.expired(self.place(), last && self.dupacks == 0 && self.expiries == 1);
        self.rtt.expired();
        self.timed_end = 0;
        self.dupacks = 0;
        self.recovery = Recovery::No;
        self.recover = self.max;
        self.due.again = false;
        if self.settings.resend == Resend::First && self.edge > self.una {
            self.recovery = Recovery::Timeout;
            self.due.again = true;
            self.due.partial = false;
        } else {
            self.nxt = self.una;
            // Silly windows hold back what was never sent: a repetition waits for no other timer.
            self.due.short = true;
        }
        self.set(Timer::Rto, (now_ns + self.rtt.rto_ns(&self.settings)).min(limit));
    }

    /// Interval of probes.
    pub(super) fn persist_wait(&self) -> u64 {
        let least = match self.settings.persist_min_us {
            0 => self.rtt.rto_ns(&self.settings),
            us => u64::from(us) * US,
        };
        let most = u64::from(self.settings.persist_max_us) * US;
        least.saturating_mul(1 << self.persist_count.min(30)).min(most)
    }

    fn persist_timer(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.heard_at) >= u64::from(self.settings.persist_give_up_us) * US
        {
            return self.abort_for(now_ns, Ended::PeerDead);
        }
        self.due.probe = true;
        self.persist_count = self.persist_count.saturating_add(1);
        self.set(Timer::Persist, now_ns + self.persist_wait());
    }

    fn keepalive_timer(&mut self, now_ns: u64) {
        if self.state != StcpState::Established || self.una != self.end {
            return;
        }
        if self.keepalives >= self.settings.keepalive_probes {
            return self.abort_for(now_ns, Ended::PeerDead);
        }
        self.keepalives += 1;
        self.due.keepalive = true;
        self.set(Timer::KeepAlive, now_ns + u64::from(self.settings.keepalive_interval_us) * US);
    }
}
