//! What happened on the primary, as the sessions of this proxy saw it: moments, numbered in their order. A replica
//! that has everything up to a moment may serve whoever must see that moment: one comparison of numbers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::gtid::Gtids;
use crate::sql::Flavor;

/// A moment in the primary's history. Whatever any session could see or had written at that moment, it includes.
pub type Moment = u64;

/// What happened on the primary since the proxy began.
#[derive(Debug)]
pub struct History {
    events: Mutex<Events>,
    /// Woken when the primary is to be asked where it is.
    asked: Notify,
    /// The newest moment whose transactions are known.
    known: watch::Sender<Moment>,
}

#[derive(Debug)]
struct Events {
    /// The newest moment.
    newest: Moment,
    /// Everything that was told, by packets and by the primary itself.
    gtids: Gtids,
    /// The first moment whose transactions nobody has told, and whom the primary has not been asked for yet.
    open: Option<Moment>,
    /// The first one for which it is being asked.
    asking: Option<Moment>,
}

/// What a replica must have executed to have everything up to a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The moment.
    pub moment: Moment,
    /// The transactions, as servers write them; empty where the primary has no GTIDs.
    pub gtids: String,
}

impl History {
    /// The moment of the beginning: what the primary has had before the proxy knew it.
    pub const BEGINNING: Moment = 1;

    /// A history that begins now, of which nothing is known yet.
    pub fn new() -> Self {
        let events = Events {
            newest: Self::BEGINNING,
            gtids: Gtids::empty(Flavor::MySql),
            open: Some(Self::BEGINNING),
            asking: None,
        };
        let history = Self { events: Mutex::new(events), asked: Notify::new(), known: watch::Sender::new(0) };
        history.asked.notify_one();
        history
    }

    /// The primary said that it committed these transactions. `None`: they make no sense.
    pub fn committed(&self, flavor: Flavor, gtids: &[u8]) -> Option<Moment> {
        let gtids = Gtids::parse(flavor, gtids)?;
        let mut events = self.events();
        events.add(flavor, &gtids);
        events.newest += 1;
        let newest = events.newest;
        let known = events.known();
        drop(events);
        self.known.send_replace(known);
        Some(newest)
    }

    /// A session wrote what no packet told of, or saw what others wrote: the primary is asked where it is.
    pub fn happened(&self) -> Moment {
        let mut events = self.events();
        events.newest += 1;
        let newest = events.newest;
        events.open.get_or_insert(newest);
        drop(events);
        self.asked.notify_one();
        newest
    }

    /// The newest moment: what any client of this proxy was told is in it.
    pub fn newest(&self) -> Moment {
        self.events().newest
    }

    /// Waits until the primary is to be asked; gives the moment that its answer will include.
    pub async fn question(&self) -> Moment {
        loop {
            {
                let mut events = self.events();
                let open = events.open.take();
                events.asking = events.asking.or(open);
                if events.asking.is_some() {
                    return events.newest;
                }
            }
            self.asked.notified().await;
        }
    }

    /// The primary answered, after `moment`, where it is.
    pub fn answered(&self, moment: Moment, flavor: Flavor, gtids: &Gtids) {
        let mut events = self.events();
        events.add(flavor, gtids);
        events.asking = events.asking.filter(|&first| first > moment);
        let known = events.known();
        drop(events);
        self.known.send_replace(known);
    }

    /// What a replica should have by now.
    pub fn target(&self) -> Target {
        let events = self.events();
        Target { moment: events.known(), gtids: events.gtids.to_string() }
    }

    /// Sees when there is a new target.
    pub fn targets(&self) -> watch::Receiver<Moment> {
        self.known.subscribe()
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    fn add(&mut self, flavor: Flavor, gtids: &Gtids) {
        // Another family is another primary: what the one before had says nothing.
        if !self.gtids.is_of(flavor) {
            self.gtids = Gtids::empty(flavor);
        }
        self.gtids.unite(gtids);
    }

    /// The newest moment up to which all transactions are known.
    fn known(&self) -> Moment {
        // What is being asked for came before what is to be asked.
        self.asking.or(self.open).map_or(self.newest, |first| first - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn gtid(number: u64) -> String {
        format!("{UUID}:{number}")
    }

    fn answer(history: &History, moment: Moment, text: &str) {
        let gtids = Gtids::parse(Flavor::MySql, text.as_bytes()).unwrap();
        history.answered(moment, Flavor::MySql, &gtids);
    }

    async fn begun() -> History {
        let history = History::new();
        assert_eq!(history.target().moment, 0);
        let moment = history.question().await;
        assert_eq!(moment, History::BEGINNING);
        answer(&history, moment, &gtid(1));
        history
    }

    #[tokio::test]
    async fn commits_that_are_told_need_no_question() {
        let history = begun().await;
        let moment = history.committed(Flavor::MySql, gtid(2).as_bytes()).unwrap();
        assert_eq!(history.target(), Target { moment, gtids: format!("{UUID}:1-2") });
        assert_eq!(history.committed(Flavor::MySql, b"nonsense"), None);
    }

    #[tokio::test]
    async fn nothing_after_an_unknown_moment_counts_before_the_answer() {
        let history = begun().await;
        let unknown = history.happened();
        let told = history.committed(Flavor::MySql, gtid(3).as_bytes()).unwrap();
        assert_eq!(history.target().moment, unknown - 1);
        let asked = history.question().await;
        assert_eq!(asked, told);
        // While the question is under way, the next one comes up.
        let later = history.happened();
        assert_eq!(history.target().moment, unknown - 1);
        answer(&history, asked, &format!("{UUID}:1-3"));
        assert_eq!(history.target(), Target { moment: later - 1, gtids: format!("{UUID}:1-3") });
        let asked = history.question().await;
        answer(&history, asked, &format!("{UUID}:1-4"));
        assert_eq!(history.target(), Target { moment: later, gtids: format!("{UUID}:1-4") });
    }

    #[tokio::test]
    async fn a_question_without_an_answer_is_asked_again() {
        let history = begun().await;
        let unknown = history.happened();
        history.question().await;
        assert_eq!(history.target().moment, unknown - 1);
        let asked = history.question().await;
        answer(&history, asked, &gtid(2));
        assert_eq!(history.target().moment, unknown);
    }

    #[tokio::test]
    async fn another_family_is_another_history() {
        let history = begun().await;
        history.committed(Flavor::MariaDb, b"0-1-5").unwrap();
        assert_eq!(history.target().gtids, "0-1-5");
    }
}
