//! Pipelines that must end and whose mailbox was full: the end of a session, a revocation above
//! all, must arrive.
//!
//! It must not wait: the listener serves others. It retries until the pipeline was notified or is
//! gone.

use crate::mailbox::PumpSender;
use std::time::Duration;
use xdfs_engine::mailbox::{Command, Message};
use xdfs_proto::base::{Error, Instant};

/// Time between two attempts: a pipeline reads its mailbox many times in it.
const AGAIN: Duration = Duration::from_millis(10);

/// Shutdowns that did not fit into a pipeline's mailbox yet: at most one per pipeline.
#[derive(Default)]
pub(crate) struct PendingShutdowns {
    waiting: Vec<(PumpSender, Error)>,
    again_at: Instant,
}

impl PendingShutdowns {
    /// Notifies a pipeline to end.
    pub fn tell(&mut self, post: PumpSender, why: Error, now: Instant) {
        self.waiting.extend(told(post, why));
        self.again_at = now.after(AGAIN);
    }

    /// When to try again; none when all were notified.
    pub fn again_at(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.again_at)
    }

    /// Tries again if it is time.
    pub fn tell_again(&mut self, now: Instant) {
        if self.again_at().is_some_and(|at| at <= now) {
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = waiting.into_iter().filter_map(|(post, why)| told(post, why)).collect();
            self.again_at = now.after(AGAIN);
        }
    }
}

/// None when the pipeline was notified, or is gone.
fn told(post: PumpSender, why: Error) -> Option<(PumpSender, Error)> {
    let full = post.try_tell(Message::Command(Command::Abandon(why.clone()))).is_err();
    full.then_some((post, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use xdfs_engine::mailbox::MailboxSender;
    use xdfs_io::dispatch::{Dispatch, Dispatcher};
    use xdfs_proto::base::ErrorKind;

    #[test]
    fn a_pipeline_with_a_full_mailbox_is_told_when_there_is_room() {
        let dispatch = Dispatcher::new().unwrap();
        let (post, mailbox) = MailboxSender::new(1, dispatch.waker());
        post.try_send(Message::Dropped).unwrap();
        let why = Error::new(ErrorKind::Refused, "revoked");
        let mut untold = PendingShutdowns::default();
        untold.tell(post, why.clone(), Instant(0));
        let again = untold.again_at().unwrap();
        untold.tell_again(again);
        let later = untold.again_at().unwrap();
        assert!(later > again && matches!(mailbox.try_recv(), Some(Message::Dropped)));
        untold.tell_again(later);
        assert!(matches!(mailbox.try_recv(), Some(Message::Command(Command::Abandon(told))) if told == why));
        assert_eq!(untold.again_at(), None);
    }

    #[test]
    fn a_pipeline_that_is_gone_is_not_told_for_ever() {
        let dispatch = Dispatcher::new().unwrap();
        let (post, mailbox) = MailboxSender::new(1, dispatch.waker());
        drop(mailbox);
        let mut untold = PendingShutdowns::default();
        untold.tell(post, Error::new(ErrorKind::Refused, "revoked"), Instant(0));
        assert_eq!(untold.again_at(), None);
    }
}
