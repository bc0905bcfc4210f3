//! Sessions with several servers: one with each, opened when it is first needed, and used until it is lost.

use crate::session::Session;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Time for the threads of a lost or abandoned session to end.
const LEAVE_DEADLINE: Duration = Duration::from_secs(3);

/// What opening a session brought.
#[derive(Debug)]
pub struct Opened<Tunnel, First> {
    /// The session.
    pub session: Session,
    /// What it moves through, which ends after it.
    pub tunnel: Tunnel,
    /// What came of the request that its opening carried.
    pub first: First,
}

/// The sessions of a program. A `Server` is whom one of them serves: what equals it is reached by the same session. A
/// `Refusal` is kept: who could not be reached is not waited for again with every file.
#[derive(Debug)]
pub struct SessionPool<Server, Tunnel, Refusal> {
    entries: Vec<PoolEntry<Server, Tunnel, Refusal>>,
}

/// A server, and the result of connecting to it.
#[derive(Debug)]
struct PoolEntry<Server, Tunnel, Refusal> {
    server: Server,
    session: Result<(Session, Tunnel), Refusal>,
}

impl<Server, Tunnel, Refusal> Default for SessionPool<Server, Tunnel, Refusal> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<Server: PartialEq, Tunnel, Refusal: Clone> SessionPool<Server, Tunnel, Refusal> {
    /// The session with a server. Where there is none `open` opens it, and what it requested is returned, too.
    pub fn with<First>(
        &mut self,
        server: Server,
        open: impl FnOnce() -> Result<Opened<Tunnel, First>, Refusal>,
    ) -> Result<(&Session, Option<First>), Refusal> {
        let known = self.entries.iter().position(|entry| entry.server == server);
        let (index, first) = match known {
            Some(index) => (index, None),
            None => {
                let (session, first) = match open() {
                    Ok(Opened { session, tunnel, first }) => (Ok((session, tunnel)), Some(first)),
                    Err(refusal) => (Err(refusal), None),
                };
                self.entries.push(PoolEntry { server, session });
                (self.entries.len() - 1, first)
            }
        };
        match &self.entries[index].session {
            Ok((session, _)) => Ok((session, first)),
            Err(refusal) => Err(refusal.clone()),
        }
    }

    /// The open sessions, and what they move through.
    pub fn open(&self) -> impl Iterator<Item = (&Session, &Tunnel)> {
        self.entries.iter().filter_map(|entry| entry.session.as_ref().ok()).map(|(session, tunnel)| (session, tunnel))
    }
}

impl<Server: PartialEq, Tunnel: Send + 'static, Refusal> SessionPool<Server, Tunnel, Refusal> {
    /// Forgets what became of a server: its session was lost, and the next one may be open.
    pub fn forget(&mut self, server: &Server) {
        end_in_time(self.entries.extract_if(.., |entry| entry.server == *server));
    }

    /// Closes every session in order. One that does not end is not waited for longer than a moment.
    pub fn close(self) {
        end_in_time(self.entries.into_iter());
    }
}

/// Ends the threads of sessions, which remove local staging files or write checkpoints, and waits for them.
fn end_in_time<Server, Tunnel: Send + 'static, Refusal>(
    entries: impl Iterator<Item = PoolEntry<Server, Tunnel, Refusal>>,
) {
    let sessions: Vec<_> = entries.filter_map(|entry| entry.session.ok()).collect();
    let (done, ended) = sync_channel(1);
    let end = move || {
        for (session, _tunnel) in sessions {
            // What was moved is safe by now: a connection that breaks here is no failure.
            let _ = session.close();
        }
        let _ = done.send(());
    };
    if std::thread::Builder::new().name("xdfs-leaving".to_owned()).spawn(end).is_ok() {
        let _ = ended.recv_timeout(LEAVE_DEADLINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_kept_until_it_is_forgotten() {
        let mut pool = SessionPool::<_, (), _>::default();
        let mut refuse = |server: &'static str, why: &'static str| {
            pool.with(server, || Err::<Opened<(), ()>, _>(why)).map(drop).unwrap_err()
        };
        assert_eq!((refuse("a", "first"), refuse("b", "other"), refuse("a", "second")), ("first", "other", "first"));
        pool.forget(&"a");
        let mut refuse = |server| pool.with(server, || Err::<Opened<(), ()>, _>("third")).map(drop).unwrap_err();
        assert_eq!((refuse("a"), refuse("b")), ("third", "other"));
        assert_eq!(pool.open().count(), 0);
    }
}
