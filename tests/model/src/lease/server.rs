//! What the server does with the calls of a client.

use super::client::{Answer, Call};
use super::world::{FILE, Seen, World, Wrong, holder};
use xdfs_proto::lease::Access;

impl World {
    /// The file is opened again in a new session, and the old handle is closed.
    pub(super) fn again(&mut self, index: usize) {
        let now = self.instant();
        let client = &mut self.clients[index];
        let before = client.handle;
        client.handle += 2;
        self.table.lost(&holder(index, before));
        (client.up, client.server_knows, client.client_knows) = (true, false, false);
        if let Ok(kind) = client.holding.reclaim(now) {
            client.send(Call::Reclaim { before, kind });
        }
        self.too_late();
    }

    /// The server takes a call: those that must wait stay where they are.
    pub(super) fn take(&mut self, index: usize) {
        let now = self.instant();
        let client = &mut self.clients[index];
        let by = holder(index, client.handle);
        let Some(call) = client.calls.front().copied() else { return };
        let began = match call {
            Call::Ask(kind) => Err(Some(self.table.ask(&FILE, &by, kind, now))),
            Call::Renew => Err(Some(self.table.renew(&by, now))),
            Call::Reclaim { before, kind } => Err(Some(self.table.reclaim(&FILE, before, &by, kind, now))),
            Call::GiveBack => {
                self.table.give_back(&by, now);
                Err(None)
            }
            Call::Send(_) if self.table.pin(&by, now) => {
                if self.table.begin(&FILE, Some(&by), Access::Change, now).is_err() {
                    // Somebody has a lease beside a write lease.
                    self.wrong.get_or_insert(Wrong::Stale);
                    return;
                }
                Ok(())
            }
            Call::Send(_) => {
                client.answer(Answer::Sent(false));
                Err(None)
            }
            Call::Change(_) | Call::Look => {
                let access = if call == Call::Look { Access::Look } else { Access::Change };
                if self.table.begin(&FILE, Some(&by), access, now).is_err() {
                    client.waits.get_or_insert(self.now);
                    return;
                }
                Ok(())
            }
        };
        if let Some(since) = client.waits.take() {
            self.seen.insert(if self.now == since { Seen::GivenBack } else { Seen::TimeOver });
        }
        client.calls.pop_front();
        match began {
            Ok(()) => (client.running, client.began) = (Some(call), self.file),
            Err(Some(answer)) => client.answer(Answer::Lease(answer, self.file)),
            Err(None) => {}
        }
    }

    /// The server has done what it began.
    pub(super) fn done(&mut self, index: usize) {
        let now = self.instant();
        let client = &mut self.clients[index];
        let by = holder(index, client.handle);
        match client.running.take() {
            Some(Call::Look) => {
                self.table.end(&FILE, Access::Look, now);
                client.answer(Answer::Done);
                if self.file != self.truth {
                    self.wrong.get_or_insert(Wrong::Behind);
                }
            }
            Some(Call::Change(change)) => {
                self.table.end(&FILE, Access::Change, now);
                client.answer(Answer::Done);
                (self.file, self.truth) = (change, change);
            }
            Some(Call::Send(change)) => {
                self.table.end(&FILE, Access::Change, now);
                self.table.unpin(&by);
                client.answer(Answer::Sent(true));
                // It may have been given up meanwhile, as long as it undoes nothing that somebody was told of.
                if client.kept == Some(change) || client.began == self.file {
                    self.truth = change;
                }
                self.file = change;
            }
            _ => {}
        }
    }
}
