//! Logins that are no longer valid: keys, passwords and tokens that were revoked, tokens that
//! expired, users that were removed. Their sessions end with the reason, idle ones too (SEC-21).

use super::Server;
use crate::clock::seconds_now;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_secure::policy::Principal;

impl Server {
    /// Credentials were revoked: sessions that used them end now, whatever they are doing.
    pub(super) fn end_revoked(&mut self, ends: &dyn Fn(&Principal) -> bool) {
        self.end_where(ends, "what this session logged in with was revoked");
    }

    /// Ends the sessions of expired tokens.
    pub(super) fn end_expired_sessions(&mut self) {
        let now = seconds_now();
        let over = |principal: &Principal| principal.scope.as_ref().is_some_and(|scope| now >= scope.until);
        self.end_where(&over, "the token that this session logged in with has run out");
    }

    fn end_where(&mut self, ends: &dyn Fn(&Principal) -> bool, why: &str) {
        for id in self.sessions.registry.revoke(|principal| ends(principal)) {
            // A running pipeline sends the reason to its client; an idle one is started to send it.
            // If the answer to OPEN is still being sent, the connection is closed after that.
            self.start_pipelines(id);
            self.drop_session(id, Some(Error::new(ErrorKind::Refused, why)));
        }
    }
}
