//! Logins that do not hold any more: keys, passwords and tokens that somebody took away, tokens that ran out, users that
//! are gone. Their sessions end with the reason, idle ones too (SEC-21).

use super::Server;
use crate::log::LogEvent;
use std::time::{SystemTime, UNIX_EPOCH};
use xdfs_proto::base::{Error, ErrorKind, SessionId};
use xdfs_secure::policy::Principal;

impl Server {
    /// Asks the directory whether something changed, and ends the sessions that ended with it. Called before every login,
    /// so that a new user is known at once, and once a second while there are sessions.
    pub(super) fn refresh_logins(&mut self) {
        match self.config.directory.refresh() {
            Ok(None) => {}
            Ok(Some(ends)) => self.revoke(&|principal| ends(principal), "was revoked"),
            Err(error) => {
                let text = format!("users: {error}; what was known before holds");
                (self.config.log)(&LogEvent::Reloaded { error: Some(text) });
            }
        }
    }

    /// Ends the sessions of tokens that have run out.
    pub(super) fn end_expired_sessions(&mut self) {
        // A clock before 1970 is broken; then no token counts.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
        self.revoke(&|principal| principal.scope.as_ref().is_some_and(|scope| now >= scope.until), "has run out");
    }

    fn revoke(&mut self, ends: &dyn Fn(&Principal) -> bool, what: &str) {
        let ended = self.sessions.iter().filter(|(_, entry)| ends(&entry.principal));
        let ended: Vec<(SessionId, String)> =
            ended.map(|(id, entry)| (*id, entry.principal.user.escape_debug().to_string())).collect();
        for (id, user) in ended {
            // A pipeline that runs tells its client why; one that waited here is started to say it.
            self.start_pipelines(id);
            let text = format!("the login of '{user}' {what}");
            self.drop_session(id, Some(Error::new(ErrorKind::Refused, text)));
        }
    }
}
