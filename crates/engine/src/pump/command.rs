//! Commands of the application to a pump.

use super::{Host, Pump};
use crate::mailbox::Command;
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{Error, ErrorKind};

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::Open { ticket, request, source } => {
                let result = self.session.open(source.is_some(), request.clone());
                if let Ok(operation) = result {
                    self.tickets.insert(ticket, operation);
                    if let Some(source) = source {
                        self.adopt_source(operation, source);
                    }
                }
                self.host.numbered(ticket, result);
            }
            Command::Calls { ticket, service, batch } => self.open_calls(ticket, service, batch),
            Command::Opened { ticket, operation } => drop(self.tickets.insert(ticket, operation)),
            Command::Cancel { ticket } => {
                // Else it has ended meanwhile.
                if let Some(operation) = self.tickets.get(&ticket) {
                    self.session.fail(*operation, Error::new(ErrorKind::Cancelled, "cancelled"));
                }
            }
            Command::WantChannels(count) => self.session.want_channels(count),
            Command::GiveChannels(grant) => self.session.give_channels(grant),
            Command::Recall(handles) => handles.into_iter().for_each(|handle| self.session.recall(handle)),
            Command::Notices(notices) => notices.into_iter().for_each(|notice| self.session.notice(notice)),
            Command::Drain { retry_after_ms } => self.session.drain(retry_after_ms),
            Command::Close => self.session.close(),
            Command::Abandon(error) => self.abandon(error),
        }
    }
}
