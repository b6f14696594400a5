//! How far a replica is known to be.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::history::{Moment, Target};

/// How far a replica is known to be in the primary's history.
#[derive(Debug)]
pub struct Progress {
    /// It has everything up to this moment; 0 when that is not known.
    moment: AtomicU64,
    /// The transactions that it is known to have.
    gtids: ArcSwap<String>,
    delay: Mutex<Delay>,
    /// Wakes those who wait for it.
    changed: Notify,
}

/// How long it takes the replica to have what the primary has, by the proxy's own clock: servers tell it in whole
/// seconds, and wrongly where somebody sets `timestamp`.
#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    /// When it was measured last.
    last: Option<Duration>,
    /// It is being measured since then.
    since: Option<Instant>,
}

impl Progress {
    /// Nothing is known.
    pub fn new() -> Self {
        Self {
            moment: AtomicU64::new(0),
            gtids: ArcSwap::default(),
            delay: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Whether the replica has everything up to `moment`.
    pub fn has(&self, moment: Moment) -> bool {
        // Pairs with the release in `reached`: what the replica told came before.
        self.moment.load(Ordering::Acquire) >= moment
    }

    /// Waits until it has, for `limit` at most.
    pub async fn wait_for(&self, moment: Moment, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let changed = self.changed.notified();
            if self.has(moment) {
                return true;
            }
            if timeout_at(deadline, changed).await.is_err() {
                return self.has(moment);
            }
        }
    }

    /// How far it is behind the primary, if that is known; whoever has waited longer for it knows more.
    pub fn lag(&self) -> Option<Duration> {
        let Delay { last, since } = *self.delay();
        Some(last?.max(since.map_or(Duration::ZERO, |since| since.elapsed())))
    }

    /// Transactions that the replica is known to have, as servers write them: a server that lacks any of them is
    /// not the one that was asked.
    pub fn gtids(&self) -> Arc<String> {
        self.gtids.load_full()
    }

    /// It was asked for what the primary has.
    pub(super) fn asked(&self) {
        self.delay().since = Some(Instant::now());
    }

    /// It has all of `target`.
    pub(super) fn reached(&self, target: Target) {
        {
            let mut delay = self.delay();
            // Without GTIDs it was not the replica that told.
            let took = delay.since.take().map(|since| since.elapsed());
            delay.last = took.filter(|_| !target.gtids.is_empty());
        }
        self.gtids.store(Arc::new(target.gtids));
        self.moment.store(target.moment, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// It may have lost anything.
    pub(super) fn reset(&self) {
        self.moment.store(0, Ordering::Release);
        *self.delay() = Delay::default();
    }

    fn delay(&self) -> MutexGuard<'_, Delay> {
        self.delay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(moment: Moment) -> Target {
        Target { moment, gtids: "0-1-1".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_end_with_the_moment_or_the_limit() {
        let progress = Progress::new();
        assert!(progress.has(0) && !progress.has(1));
        assert!(!progress.wait_for(1, Duration::from_millis(5)).await);
        let (reached, ()) = tokio::join!(progress.wait_for(2, Duration::from_secs(1)), async {
            progress.reached(target(1));
            tokio::task::yield_now().await;
            progress.reached(target(2));
        });
        assert!(reached);
        progress.reset();
        assert!(!progress.has(1));
    }

    #[tokio::test(start_paused = true)]
    async fn lag_grows_while_nothing_is_reached() {
        const SECOND: Duration = Duration::from_secs(1);
        let progress = Progress::new();
        progress.asked();
        assert_eq!(progress.lag(), None);
        tokio::time::advance(SECOND).await;
        progress.reached(target(1));
        assert_eq!(progress.lag(), Some(SECOND));
        progress.asked();
        tokio::time::advance(SECOND * 3).await;
        assert_eq!(progress.lag(), Some(SECOND * 3));
        progress.reached(Target { moment: 2, gtids: String::new() });
        assert_eq!(progress.lag(), None, "nobody asked the replica");
    }
}
