//! The answers to OPEN and JOIN: a session is granted, a channel may join, or the reason is sent why not.

use super::Server;
use crate::admit::Drop;
use crate::pending_login::{GrantedSession, LoginPhase};
use crate::rates;
use std::sync::Arc;
use xdfs_engine::opening::{JoinRequest, PendingAccept};
use xdfs_io::dispatch::{Dispatch, SocketId};
use xdfs_proto::base::{Error, ErrorKind, SessionId};
use xdfs_proto::limits;
use xdfs_proto::negotiate;
use xdfs_proto::wire::control::ChannelGrant;
use xdfs_proto::wire::handshake::{Accept, Open};
use xdfs_secure::policy::Principal;
use xdfs_secure::random;

impl Server {
    /// A client has logged in, and wants a session.
    pub(super) fn on_open(&mut self, socket: SocketId, open: Box<Open>, welcome: PendingAccept) {
        self.count_failed(socket, true);
        let granted = match self.may_open(&open, &welcome.principal) {
            Ok(granted) => granted,
            Err(error) => {
                let send = welcome.refuse(&error);
                return self.refuse(socket, send, &error);
            }
        };
        match self.accept(open, welcome, granted) {
            Ok((granted, send)) => {
                // Cannot fail: the opening was its own.
                let Some(guest) = self.logins.pending.get_mut(&socket) else { return };
                guest.send(&mut self.dispatch, send, LoginPhase::Opening(Box::new(granted)));
            }
            Err(error) => self.disconnect(socket, &error.to_string()),
        }
    }

    /// What is granted of what the client wants.
    fn may_open(&mut self, open: &Open, principal: &Principal) -> Result<negotiate::Granted, Error> {
        if self.phase.is_draining() {
            return Err(Error::new(ErrorKind::Draining, "the server is shutting down; try again later"));
        }
        let mut granted = negotiate::grant(open, &*self.policy_for(principal, open.pipelines > 1)?)?;
        let user = self.services.rates.of(&principal.budget().to_string().into());
        if let Some(rate) = rates::of_session(&user, self.services.authority.now().open_to(principal)) {
            rates::suit(&mut granted, rate);
        }
        Ok(granted)
    }

    /// The granted session, and the answer to be sent.
    fn accept(
        &mut self,
        open: Box<Open>,
        mut welcome: PendingAccept,
        granted: negotiate::Granted,
    ) -> Result<(GrantedSession, Vec<u8>), Error> {
        let id = SessionId(random::array()?);
        let secret = welcome.join_secret(id, granted.suite)?;
        let life_ms = limits::GRANT_LIFE.as_millis() as u32;
        let grant = ChannelGrant { first: 1, count: granted.channels, secret: random::array()?, life_ms };
        let accept = Accept {
            prefaces: welcome.prefaces,
            session: id,
            features: granted.features,
            channels: granted.channels,
            pipelines: granted.pipelines,
            window: granted.window,
            block: granted.block,
            floor: granted.floor,
            initial_credit: 0,
            stall_ms: granted.stall.as_millis() as u32,
            suite: granted.suite,
            grant: grant.clone(),
            proof: std::mem::take(&mut welcome.proof),
            options: Vec::new(),
        };
        let principal = Arc::new(welcome.principal.clone());
        let (send, farewell) = welcome.accept(&accept)?;
        self.sessions.registry.expect(id, Arc::clone(&principal), grant.clone(), self.dispatch.now())?;
        Ok((GrantedSession { id, secret, grant, granted, open, principal, farewell }, send))
    }

    /// A connection is to become a channel of a session.
    pub(super) fn on_join(&mut self, socket: SocketId, request: JoinRequest) {
        let now = self.dispatch.now();
        let (id, channel) = (request.join.session, request.join.channel);
        let entry = self.sessions.running.get(&id);
        let unknown = || Error::new(ErrorKind::SessionUnknown, "JOIN of a session that is not known");
        let derive = |grant: &ChannelGrant| entry.ok_or_else(unknown)?.terms.keys(id, channel, grant);
        let judged = self.sessions.registry.join(id, channel, now, derive, |keys| request.verify(&keys.join));
        match judged {
            Err(error) => {
                self.logins.admission.drops().count(Drop::Join);
                self.refuse(socket, JoinRequest::refuse(), &error);
            }
            Ok(keys) => {
                self.logins.admission.is_proved(socket);
                let answer = request.accept(&keys.join);
                // Cannot fail: the request was its own.
                let Some(guest) = self.logins.pending.get_mut(&socket) else { return };
                guest.send(&mut self.dispatch, answer, LoginPhase::Joining(id, channel, Box::new(keys)));
            }
        }
    }
}
