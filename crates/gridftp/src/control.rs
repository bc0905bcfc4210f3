//! The control channel as a machine: which reply may follow which command.

use std::collections::VecDeque;

use base64ct::{Base64, Encoding};

use crate::command::{Command, Login, NameError, Password, Sequence};
use crate::reply::{Class, Reply, ReplyError, ReplyReader};

/// Most commands that are sent before the reply to the one before them.
pub const AHEAD_MAX: usize = 64;

/// Most replies that one piece of bytes may hold unread. A server sends one for each command and a few
/// markers.
const EVENTS_MAX: usize = 4096;

/// What a reply meant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The server let us in; commands may be sent.
    LoggedIn,
    /// These bytes are to be sent.
    Send(Vec<u8>),
    /// TLS is to begin now, or that of GSI is complete; then [`Control::secured`].
    Secure,
    /// A token of the handshake of GSI; the answer goes to [`Control::token`]. The first is empty.
    Token(Vec<u8>),
    /// The command is done, or the next one completes it.
    Answered(Reply),
    /// The data channel opens.
    Opened,
    /// Progress of a transfer.
    Marker(Reply),
    /// The server refused the command; the session goes on.
    Refused(Reply),
}

/// What ends the session.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ControlError {
    /// What arrived is no reply.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// A name that cannot be sent.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The server does not let us in.
    #[error("the server refused the login: {0}; check user and password, or whether it admits anonymous users")]
    Login(String),
    /// The server has no TLS.
    #[error("the server offers no TLS: {0}; over a network that is yours, ftp:// does without")]
    Unprotected(String),
    /// The server has no GSI.
    #[error("the server offers no GSI: {0}; gsiftp://anonymous@HOST/ or USER:PASSWORD@HOST does without")]
    NoGsi(String),
    /// The server does not take the certificate.
    #[error("the server refused the certificate: {0}")]
    Certificate(String),
    /// What arrived before TLS began was to be taken for something that arrived after.
    #[error("the server sent more than its reply before TLS began; somebody may be between")]
    Injected,
    /// A reply that nothing asked for.
    #[error("the server answered out of turn: {0}")]
    Unexpected(String),
    /// The server ends the session.
    #[error("the server ended the session: {0}")]
    Closing(String),
    /// More replies at once than any server sends.
    #[error("the server sent more than {EVENTS_MAX} replies at once")]
    TooMany,
    /// A command while another is open, or while too many are.
    #[error("{0} was to be sent before the reply to the last command")]
    Busy(&'static str),
    /// A command after the end.
    #[error("the session has ended")]
    Ended,
}

/// How a control channel gets its protection, if it gets any from FTP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protection {
    /// None; or what carries it has some.
    None,
    /// TLS is asked for after the greeting (RFC 4217).
    AuthTls,
    /// GSI is asked for after the greeting (RFC 2228).
    AuthGssapi,
}

/// The state of a control channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum State {
    /// The server greets first.
    Greeting { login: Login, protection: Protection },
    /// AUTH TLS was sent.
    Asking { login: Login },
    /// AUTH GSSAPI was sent.
    AskingGssapi { login: Login },
    /// A token was received, and has to be answered.
    Token { login: Login },
    /// A token was sent.
    Exchanging { login: Login },
    /// TLS begins; nothing is read meanwhile.
    Securing { login: Login },
    /// USER was sent.
    User { login: Login },
    /// PASS was sent.
    Password,
    /// No command is open.
    Ready,
    /// A command with one reply was sent.
    Answering { done: Class },
    /// A command was sent for which the server may say for a while that it is at work.
    Working,
    /// A transfer was asked for; its data channel is not open.
    Opening,
    /// A transfer's data are moving.
    Moving,
    /// Nothing more is sent or read.
    Ended,
}

/// The control channel of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Control {
    replies: ReplyReader,
    state: State,
    /// What was sent behind the open command, in its order. Nothing if no command is open.
    ahead: VecDeque<Sequence>,
    events: VecDeque<Event>,
}

impl From<Sequence> for State {
    /// A command was sent.
    fn from(sequence: Sequence) -> Self {
        match sequence {
            Sequence::Plain => Self::Answering { done: Class::Done },
            Sequence::Partial => Self::Answering { done: Class::More },
            Sequence::Transfer => Self::Opening,
            Sequence::Long => Self::Working,
        }
    }
}

impl Control {
    /// The channel of a new connection: it logs in when the server greets, with TLS after it has asked
    /// for that.
    pub fn new(login: Login, protection: Protection) -> Self {
        let replies = match protection {
            Protection::AuthGssapi => ReplyReader::of_tokens(),
            Protection::None | Protection::AuthTls => ReplyReader::default(),
        };
        Self { replies, state: State::Greeting { login, protection }, ahead: VecDeque::new(), events: VecDeque::new() }
    }

    /// TLS has begun: the login follows. Returns the bytes to send.
    ///
    /// # Errors
    /// If something arrived after the reply to AUTH TLS and before TLS, or TLS was not to begin.
    pub fn secured(&mut self) -> Result<Vec<u8>, ControlError> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Securing { .. } if !self.replies.is_empty() => Err(ControlError::Injected),
            State::Securing { login } => {
                self.replies = ReplyReader::default();
                let line = Command::User(login.user.clone()).encode()?;
                self.state = State::User { login };
                Ok(line)
            }
            _ => Err(ControlError::Ended),
        }
    }

    /// The answer to a token of the server. Returns the bytes to send.
    ///
    /// # Errors
    /// If the server has not sent one.
    pub fn token(&mut self, answer: Vec<u8>) -> Result<Vec<u8>, ControlError> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Token { login } => {
                self.state = State::Exchanging { login };
                Ok(Command::Adat(answer).encode()?)
            }
            _ => Err(ControlError::Ended),
        }
    }

    /// Whether a command may be sent.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Begins a command. Returns the bytes to send.
    ///
    /// # Errors
    /// If an argument cannot be sent, which leaves the session as it is; or if it is no command's turn.
    pub fn begin(&mut self, command: &Command) -> Result<Vec<u8>, ControlError> {
        match self.state {
            State::Ready => {}
            State::Ended => return Err(ControlError::Ended),
            _ => return Err(ControlError::Busy(command.verb())),
        }
        let bytes = command.encode()?;
        self.state = command.sequence().into();
        Ok(bytes)
    }

    /// Begins a command that the server reads when it is done with those before it. Returns the bytes to send. The
    /// replies come in the order of the commands; a refusal of one is no reason for the server to leave out the next.
    ///
    /// # Errors
    /// As [`Control::begin`]; while a command is open up to [`AHEAD_MAX`] may follow it.
    pub fn begin_ahead(&mut self, command: &Command) -> Result<Vec<u8>, ControlError> {
        match self.state {
            State::Answering { .. } | State::Working | State::Opening | State::Moving
                if self.ahead.len() < AHEAD_MAX =>
            {
                let bytes = command.encode()?;
                self.ahead.push_back(command.sequence());
                Ok(bytes)
            }
            _ => self.begin(command),
        }
    }

    /// Takes what arrived, in any pieces.
    ///
    /// # Errors
    /// If it is no reply, or none that may come now: the session has ended.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), ControlError> {
        if self.state == State::Ended {
            return Err(ControlError::Ended);
        }
        let result = loop {
            match self.replies.take(bytes) {
                Err(error) => break Err(error.into()),
                Ok((_, None)) => break Ok(()),
                Ok((taken, Some(reply))) => {
                    bytes = &bytes[taken..];
                    if let Err(error) = self.on_reply(reply) {
                        break Err(error);
                    }
                }
            }
        };
        if result.is_err() {
            self.state = State::Ended;
        }
        result
    }

    /// Whether the next reply is a listing, which may be long.
    pub fn expect_listing(&mut self, is_listing: bool) {
        self.replies.expect_listing(is_listing);
    }

    /// What the replies meant, in their order.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn on_reply(&mut self, reply: Reply) -> Result<(), ControlError> {
        if self.events.len() >= EVENTS_MAX {
            return Err(ControlError::TooMany);
        }
        // 421: the service closes, whatever was asked.
        if reply.code == 421 {
            return Err(ControlError::Closing(reply.shown()));
        }
        let class = reply.class();
        let (state, event) = match (std::mem::replace(&mut self.state, State::Ended), class) {
            // 120: the server will be ready in some minutes.
            (State::Greeting { login, protection }, Class::Preliminary) => {
                (State::Greeting { login, protection }, None)
            }
            (State::Greeting { login, protection: Protection::AuthTls }, Class::Done) => {
                (State::Asking { login }, Some(Event::Send(Command::AuthTls.encode()?)))
            }
            (State::Asking { login }, Class::Done) => (State::Securing { login }, Some(Event::Secure)),
            (State::Asking { .. }, Class::Refused) => return Err(ControlError::Unprotected(reply.shown())),
            (State::Greeting { login, protection: Protection::AuthGssapi }, Class::Done) => {
                (State::AskingGssapi { login }, Some(Event::Send(Command::AuthGssapi.encode()?)))
            }
            (State::AskingGssapi { login }, Class::More) => (State::Token { login }, Some(Event::Token(Vec::new()))),
            (State::AskingGssapi { .. }, Class::Refused) => return Err(ControlError::NoGsi(reply.shown())),
            (State::Exchanging { login }, Class::More) => {
                let token = token_of(&reply).ok_or_else(|| ControlError::Unexpected(reply.shown()))?;
                (State::Token { login }, Some(Event::Token(token)))
            }
            (State::Exchanging { login }, Class::Done) => (State::Securing { login }, Some(Event::Secure)),
            (State::Exchanging { .. }, Class::Refused) => return Err(ControlError::Certificate(reply.shown())),
            (State::Securing { .. }, _) => return Err(ControlError::Injected),
            (State::Greeting { login, protection: Protection::None }, Class::Done) => {
                let line = Command::User(login.user.clone()).encode()?;
                (State::User { login }, Some(Event::Send(line)))
            }
            (State::User { .. } | State::Password, Class::Done) => (State::Ready, Some(Event::LoggedIn)),
            (State::User { login }, Class::More) => {
                let line = Command::Pass(Password(login.password)).encode()?;
                (State::Password, Some(Event::Send(line)))
            }
            (State::Greeting { .. } | State::User { .. } | State::Password, Class::Refused) => {
                return Err(ControlError::Login(reply.shown()));
            }
            (State::Answering { done }, class) if class == done => (State::Ready, Some(Event::Answered(reply))),
            (State::Opening, Class::Preliminary) => (State::Moving, Some(Event::Opened)),
            (State::Moving, Class::Preliminary) => (State::Moving, Some(Event::Marker(reply))),
            (State::Working, Class::Preliminary) => (State::Working, Some(Event::Marker(reply))),
            (State::Moving | State::Working, Class::Done) => (State::Ready, Some(Event::Answered(reply))),
            (State::Answering { .. } | State::Working | State::Opening | State::Moving, Class::Refused) => {
                (State::Ready, Some(Event::Refused(reply)))
            }
            _ => return Err(ControlError::Unexpected(reply.shown())),
        };
        self.state = match state {
            State::Ready => self.ahead.pop_front().map_or(State::Ready, State::from),
            state => state,
        };
        self.events.extend(event);
        Ok(())
    }
}

/// The token of a reply to ADAT.
fn token_of(reply: &Reply) -> Option<Vec<u8>> {
    let text = reply.lines.first()?.trim_ascii().strip_prefix(b"ADAT=")?;
    Base64::decode_vec(str::from_utf8(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Control {
        let mut control = Control::new(Login::anonymous(), Protection::None);
        control.receive(b"220 hello\r\n331 password\r\n230 in\r\n").unwrap();
        assert_eq!(control.poll(), Some(Event::Send(b"USER anonymous\r\n".to_vec())));
        assert_eq!(control.poll(), Some(Event::Send(b"PASS xdfs@\r\n".to_vec())));
        assert_eq!(control.poll(), Some(Event::LoggedIn));
        control
    }

    fn name() -> Vec<u8> {
        b"/x".to_vec()
    }

    #[test]
    fn a_download_opens_reports_and_ends() {
        let mut control = ready();
        assert_eq!(control.begin(&Command::Retr(name())).unwrap(), b"RETR /x\r\n");
        assert_eq!(control.begin(&Command::Feat), Err(ControlError::Busy("FEAT")));
        control.receive(b"150 opening\r\n112 marker\r\n226 done\r\n").unwrap();
        assert_eq!(control.poll(), Some(Event::Opened));
        assert!(matches!(control.poll(), Some(Event::Marker(_))));
        assert!(matches!(control.poll(), Some(Event::Answered(_))));
        assert!(control.is_ready());
    }

    #[test]
    fn commands_that_are_sent_ahead_are_answered_in_their_order() {
        let mut control = ready();
        let all = [Command::Size(name()), Command::Retr(name()), Command::Rnfr(name()), Command::Rnto(name())];
        for command in &all {
            assert_eq!(control.begin_ahead(command).unwrap(), command.encode().unwrap());
        }
        assert_eq!(control.begin(&Command::Feat), Err(ControlError::Busy("FEAT")));
        control.receive(b"550 no size\r\n150 opening\r\n226 done\r\n350 and?\r\n").unwrap();
        assert!(matches!(control.poll(), Some(Event::Refused(_))) && matches!(control.poll(), Some(Event::Opened)));
        assert!(matches!(control.poll(), Some(Event::Answered(reply)) if reply.code == 226));
        assert!(matches!(control.poll(), Some(Event::Answered(reply)) if reply.code == 350));
        assert!(!control.is_ready(), "RNTO is open");
        control.receive(b"250 renamed\r\n").unwrap();
        assert!(control.is_ready());
        // A name that cannot be sent disturbs nothing, and the number has a bound.
        let bad = Command::Size(b"a\nb".to_vec());
        control.begin(&Command::Feat).unwrap();
        assert!(matches!(control.begin_ahead(&bad), Err(ControlError::Name(_))));
        for _ in 0..AHEAD_MAX {
            control.begin_ahead(&Command::Size(name())).unwrap();
        }
        assert_eq!(control.begin_ahead(&Command::Size(name())), Err(ControlError::Busy("SIZE")));
        // A reply that belongs to none of them in this order ends the session.
        assert!(matches!(control.receive(b"211 features\r\n150 opening\r\n"), Err(ControlError::Unexpected(_))));
        assert_eq!(control.begin_ahead(&Command::Feat), Err(ControlError::Ended));
    }

    #[test]
    fn a_server_may_say_that_it_is_still_computing_a_checksum() {
        let mut control = ready();
        control.begin(&Command::Cksm("SHA256", name())).unwrap();
        control.receive(b"113 at work\r\n113 at work\r\n213 ab\r\n").unwrap();
        assert!(matches!(control.poll(), Some(Event::Marker(_))) && matches!(control.poll(), Some(Event::Marker(_))));
        assert!(matches!(control.poll(), Some(Event::Answered(_))));
        assert!(control.is_ready());
    }

    #[test]
    fn a_refusal_leaves_the_session_usable() {
        let mut control = ready();
        for command in [Command::Size(name()), Command::Retr(name()), Command::Rest(5)] {
            control.begin(&command).unwrap();
            control.receive(b"550 no\r\n").unwrap();
            assert!(matches!(control.poll(), Some(Event::Refused(_))));
            assert!(control.is_ready());
        }
        assert!(matches!(control.begin(&Command::Size(b"a\nb".to_vec())), Err(ControlError::Name(_))));
        assert!(control.is_ready());
    }

    /// What a server says in the wrong state ends the session, in every state.
    #[test]
    fn an_answer_out_of_turn_ends_the_session() {
        let size = |control: &mut Control| drop(control.begin(&Command::Size(name())).unwrap());
        let retr = |control: &mut Control| drop(control.begin(&Command::Retr(name())).unwrap());
        let rest = |control: &mut Control| drop(control.begin(&Command::Rest(1)).unwrap());
        let nothing = |_: &mut Control| {};
        type Case<'a> = (&'a dyn Fn(&mut Control), &'a str);
        let cases: &[Case<'_>] = &[
            (&nothing, "226 done"),
            (&nothing, "150 opening"),
            (&nothing, "550 no"),
            (&size, "150 opening"),
            (&size, "350 more"),
            (&size, "213 5\r\n213 6"),
            (&size, "631 enc"),
            (&rest, "226 done"),
            (&retr, "226 done"),
            (&retr, "331 password"),
            (&retr, "150 opening\r\n350 more"),
            (&retr, "150 opening\r\n226 done\r\n226 done"),
        ];
        for (prepare, text) in cases {
            let mut control = ready();
            prepare(&mut control);
            let error = control.receive(format!("{text}\x1b[2J\r\n").as_bytes()).unwrap_err();
            assert!(matches!(&error, ControlError::Unexpected(text) if text.contains("\\x1b")), "{text}: {error}");
            assert_eq!(control.begin(&Command::Feat), Err(ControlError::Ended));
            assert_eq!(control.receive(b"200 x\r\n"), Err(ControlError::Ended));
        }
    }

    #[test]
    fn a_login_is_refused_in_words_without_the_password() {
        for text in ["530 no\r\n", "220 hi\r\n530 no\r\n", "220 hi\r\n331 pw\r\n530 no\r\n"] {
            let login = Login { user: b"anna".to_vec(), password: b"secret".to_vec() };
            let error = Control::new(login, Protection::None).receive(text.as_bytes()).unwrap_err();
            assert!(matches!(error, ControlError::Login(_)) && !error.to_string().contains("secret"));
        }
        // An account is asked for after the password: no server that we know does.
        let mut control = Control::new(Login::anonymous(), Protection::None);
        assert!(matches!(control.receive(b"220 a\r\n331 b\r\n332 c\r\n"), Err(ControlError::Unexpected(_))));
        let mut control = Control::new(Login { user: b"a\r\nDELE x".to_vec(), password: Vec::new() }, Protection::None);
        assert!(matches!(control.receive(b"220 a\r\n"), Err(ControlError::Name(_))));
    }

    #[test]
    fn tls_begins_before_anything_secret_is_sent() {
        let asking = || {
            let mut control = Control::new(Login::anonymous(), Protection::AuthTls);
            control.receive(b"220 hello\r\n").unwrap();
            assert_eq!(control.poll(), Some(Event::Send(b"AUTH TLS\r\n".to_vec())));
            control
        };
        let mut control = asking();
        control.receive(b"234 go on\r\n").unwrap();
        assert_eq!(control.poll(), Some(Event::Secure));
        assert_eq!(control.secured().unwrap(), b"USER anonymous\r\n");
        control.receive(b"331 password\r\n230 in\r\n").unwrap();
        assert_eq!(control.poll(), Some(Event::Send(b"PASS xdfs@\r\n".to_vec())));
        assert_eq!(control.poll(), Some(Event::LoggedIn));
        // Without TLS there is no login.
        let refused = asking().receive(b"502 no\r\n");
        assert!(matches!(refused, Err(ControlError::Unprotected(_))), "{refused:?}");
        // A reply, or a part of one, that came before TLS is not taken for one that came after.
        assert_eq!(asking().receive(b"234 go on\r\n230 in\r\n"), Err(ControlError::Injected));
        let mut control = asking();
        control.receive(b"234 go on\r\n230 i").unwrap();
        assert_eq!(control.secured(), Err(ControlError::Injected));
        assert_eq!(control.begin(&Command::Feat), Err(ControlError::Ended));
        assert_eq!(ready().secured(), Err(ControlError::Ended));
    }

    #[test]
    fn a_server_that_closes_or_floods_ends_the_session() {
        let mut control = ready();
        assert!(matches!(control.receive(b"421 idle\r\n"), Err(ControlError::Closing(_))));
        let mut control = ready();
        control.begin(&Command::Retr(name())).unwrap();
        let flood = b"112 x\r\n".repeat(EVENTS_MAX + 2);
        assert_eq!(control.receive(&flood), Err(ControlError::TooMany));
    }
}
