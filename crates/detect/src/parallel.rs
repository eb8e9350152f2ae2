//! Threads of a builder that is exact on several: jobs go out, and come back in the order in which they were given.
//!
//! Each thread has a ring of jobs towards it and one back (single producer, single consumer, places made at the start), so there
//! is no lock, and a job's memory is used again. A thread without a job parks: it costs nothing. The caller is a member as well: it
//! works itself where all others have enough to do. A panic in a thread becomes one in the caller. Fails only if the
//! system cannot start a thread. Source: `docs/architecture.md`, "One packet, six hops".

use std::collections::VecDeque;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::detector::{MOST_THREADS, Threads};

/// Jobs that one thread may have: they keep it busy while the caller works on one itself, and while it reads a batch, which takes as long as two
/// to three jobs (1 MiB of frames). With three a thread ran dry: `lab detectors --build-threads 2` had 1.59 times one thread on simulated
/// frames and 1.44 with noise in a slow hour of the machine, with six 1.90 and 1.93 in a faster one; not by turns in one run.
const DEPTH: usize = 6;

/// Jobs of the caller itself that may wait for an older one to come back: with a third of a millisecond each, a thread may be kept
/// off its core for 10 ms before the caller has to wait for it.
const AHEAD: usize = 32;

/// Looks at an empty ring before parking: about 2 µs, less than waking costs.
const LOOKS: usize = 64;

/// Pause of the caller while it waits for a thread; the kernel makes ≈ 70 µs of it.
const NAP: Duration = Duration::from_micros(20);

/// What a thread does with jobs.
pub trait Hand<J>: Send + 'static {
    /// Works on a job; the answer stands in it.
    fn work(&mut self, job: &mut J);
}

/// A further thread.
struct Member<J> {
    to: rtrb::Producer<J>,
    from: rtrb::Consumer<J>,
    /// Taken from the ring, not yet asked for.
    back: VecDeque<J>,
    /// Given and not yet in `back`.
    under_way: usize,
    thread: Option<JoinHandle<()>>,
}

impl<J> Member<J> {
    /// Takes what is done. Passes on a panic.
    fn poll(&mut self) {
        while let Ok(job) = self.from.pop() {
            self.under_way -= 1;
            self.back.push_back(job);
        }
        let died = self.under_way > 0 && self.from.is_abandoned() && self.from.is_empty();
        if died && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }

    fn wake(&self) {
        if let Some(handle) = &self.thread {
            handle.thread().unpark();
        }
    }
}

/// The caller's hand and the further threads.
pub struct Crew<J, H> {
    own: H,
    own_done: VecDeque<J>,
    members: Vec<Member<J>>,
    /// Who has the jobs under way, the oldest first; 0 is the caller.
    order: VecDeque<usize>,
}

impl<J: Send + 'static, H: Hand<J>> Crew<J, H> {
    /// Starts `threads.count - 1` threads; `hand` is called for each member, the caller first.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        name: &str,
        threads: &Threads,
        mut hand: impl FnMut() -> H,
    ) -> io::Result<Crew<J, H>> {
        let further = threads.count.clamp(1, MOST_THREADS) - 1;
        let own = hand();
        let mut members = Vec::with_capacity(further);
        for number in 1..=further {
            let (to, jobs) = rtrb::RingBuffer::new(DEPTH);
            let (done, from) = rtrb::RingBuffer::new(DEPTH);
            let (hand, started) = (hand(), threads.started.clone());
            let body = move || {
                started(number);
                serve(hand, jobs, done);
            };
            let thread = thread::Builder::new().name(format!("{name}-{number}")).spawn(body)?;
            let back = VecDeque::with_capacity(DEPTH);
            members.push(Member { to, from, back, under_way: 0, thread: Some(thread) });
        }
        let order = VecDeque::with_capacity(2 * DEPTH * further + AHEAD + 1);
        Ok(Crew { own, own_done: VecDeque::with_capacity(AHEAD + 1), members, order })
    }

    /// Jobs that were given and not yet asked for.
    pub fn under_way(&self) -> usize {
        self.order.len()
    }

    /// Who should get the next job: the thread with the least to do, or the caller (0) if all have enough. `None`: too much
    /// is under way; wait for the oldest first.
    pub fn free(&mut self) -> Option<usize> {
        self.members.iter_mut().for_each(Member::poll);
        let room = |m: &Member<J>| m.under_way < DEPTH && m.back.len() < DEPTH;
        let least = self.members.iter().enumerate().filter(|(_, m)| room(m));
        match least.min_by_key(|(_, m)| m.under_way) {
            Some((at, _)) => Some(at + 1),
            None => (self.own_done.len() < AHEAD).then_some(0),
        }
    }

    /// Gives a job to a member; the caller (0) works on it before this returns, and then may take out of it what its answer does not
    /// need: `worked`. Waits while the member's ring is full.
    pub fn give(&mut self, to: usize, mut job: J, worked: impl FnOnce(&mut J)) {
        self.order.push_back(to);
        let Some(at) = to.checked_sub(1) else {
            self.own.work(&mut job);
            worked(&mut job);
            return self.own_done.push_back(job);
        };
        let member = &mut self.members[at];
        while member.under_way >= DEPTH {
            member.poll();
            if member.under_way >= DEPTH {
                thread::sleep(NAP);
            }
        }
        member.under_way += 1;
        // There are as many places as jobs may be under way.
        drop(member.to.push(job));
        member.wake();
    }

    /// The oldest job, if it is done.
    pub fn done(&mut self) -> Option<J> {
        let job = match self.order.front()?.checked_sub(1) {
            None => self.own_done.pop_front(),
            Some(at) => {
                let member = &mut self.members[at];
                if member.back.is_empty() {
                    member.poll();
                }
                member.back.pop_front()
            }
        };
        if job.is_some() {
            self.order.pop_front();
        }
        job
    }

    /// The oldest job; waits for it. `None`: none is under way.
    pub fn wait(&mut self) -> Option<J> {
        while !self.order.is_empty() {
            if let Some(job) = self.done() {
                return Some(job);
            }
            thread::sleep(NAP);
        }
        None
    }
}

/// A thread's life: works until nobody gives jobs any more.
fn serve<J>(mut hand: impl Hand<J>, mut jobs: rtrb::Consumer<J>, mut done: rtrb::Producer<J>) {
    loop {
        if let Ok(mut job) = jobs.pop() {
            hand.work(&mut job);
            // There are as many places as jobs may be under way.
            drop(done.push(job));
            continue;
        }
        if jobs.is_abandoned() {
            return;
        }
        if !(0..LOOKS).any(|_| {
            std::hint::spin_loop();
            !jobs.is_empty()
        }) {
            // A wake-up that came since the ring was seen empty makes this return at once.
            thread::park();
        }
    }
}

impl<J, H> Drop for Crew<J, H> {
    fn drop(&mut self) {
        for Member { to, thread, .. } in self.members.drain(..) {
            drop(to);
            let Some(thread) = thread else { continue };
            thread.thread().unpark();
            // A panic that nobody asked for has nobody to go to.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::detector::Started;

    /// Counts what it has seen; panics at 13.
    struct Counting(usize);

    impl Hand<(usize, usize)> for Counting {
        fn work(&mut self, job: &mut (usize, usize)) {
            assert_ne!(job.0, 13, "a bug");
            self.0 += 1;
            job.1 = self.0;
        }
    }

    fn crew(count: usize) -> Crew<(usize, usize), Counting> {
        Crew::start("test", &Threads::of(count), || Counting(0)).expect("threads")
    }

    #[test]
    fn jobs_come_back_in_the_order_in_which_they_were_given() {
        for count in [1, 2, 5] {
            let (mut crew, mut seen) = (crew(count), Vec::new());
            for n in 100..1100 {
                let to = loop {
                    match crew.free() {
                        Some(to) => break to,
                        None => seen.extend(crew.wait()),
                    }
                };
                crew.give(to, (n, 0), |_| {});
                seen.extend(crew.done());
            }
            while let Some(job) = crew.wait() {
                seen.push(job);
            }
            assert!(seen.iter().map(|job| job.0).eq(100..1100), "{count}");
            assert!(crew.under_way() == 0 && crew.done().is_none());
        }
    }

    #[test]
    fn a_member_sees_its_jobs_in_order_and_keeps_what_it_knows() {
        let mut crew = crew(3);
        let mut seen = Vec::new();
        for n in 100..200 {
            crew.give(2, (n, 0), |_| {});
            seen.extend(crew.done());
        }
        while let Some(job) = crew.wait() {
            seen.push(job);
        }
        assert!(seen.iter().map(|job| job.1).eq(1..=100));
    }

    #[test]
    fn a_panic_in_a_thread_reaches_the_caller_and_the_others_end() {
        let mut crew = crew(3);
        crew.give(1, (1, 0), |_| {});
        crew.give(2, (13, 0), |_| {});
        crew.give(1, (2, 0), |_| {});
        let result = catch_unwind(AssertUnwindSafe(|| while crew.wait().is_some() {}));
        let words = result.unwrap_err();
        let words = words.downcast_ref::<String>().expect("assert's words");
        assert!(words.contains("a bug"), "{words}");
    }

    #[test]
    fn each_further_thread_starts_with_its_number() {
        let sum = Arc::new(AtomicUsize::new(0));
        let seen = sum.clone();
        let started: Started = Arc::new(move |n| {
            seen.fetch_add(n, SeqCst);
        });
        let threads = Threads { count: 4, started };
        let crew = Crew::<(usize, usize), _>::start("test", &threads, || Counting(0));
        drop(crew.expect("threads"));
        assert_eq!(sum.load(SeqCst), 6);
    }
}
