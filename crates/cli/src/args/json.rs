//! Which commands were asked for objects of JSON.

use super::{Command, KeyArgs, KeyCommand, KeyCreateArgs, TrustArgs, TrustCommand, UserArgs, UserCommand};

impl Command {
    /// Whether its outcome is to be told as objects of JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Cp(args) => args.moving.json,
            Self::Sync(args) => args.moving.json,
            Self::Sum(args) => args.json,
            Self::Stat(args) => args.names.json,
            Self::Ls(args) => args.names.json,
            Self::Mkdir(args) => args.names.json,
            Self::Mkfifo(args) => args.names.json,
            Self::Rm(args) => args.names.json,
            Self::Mv(args) => args.names.json,
            Self::Ln(args) => args.names.json,
            Self::Chmod(args) => args.names.json,
            Self::Touch(args) => args.names.json,
            Self::Du(args) => args.names.json,
            Self::Df(args) => args.names.json,
            _ => self.is_told_as_a_whole(),
        }
    }

    /// The same of a command whose failure is one for the whole of it, and is told by nobody else.
    pub(crate) fn is_told_as_a_whole(&self) -> bool {
        match self {
            // Its standard output is the connection, where it is started by ssh.
            Self::Serve(args) => args.json && !args.stdio,
            Self::User(UserArgs { command: UserCommand::List(args) }) => args.json,
            Self::Key(KeyArgs { command: KeyCommand::Create(KeyCreateArgs { keep }) }) => keep.json,
            Self::Key(KeyArgs { command: KeyCommand::Import(args) }) => args.keep.json,
            Self::Key(KeyArgs { command: KeyCommand::Show(args) }) => args.json,
            Self::Trust(TrustArgs { command: TrustCommand::List(args) }) => args.json,
            _ => false,
        }
    }
}
