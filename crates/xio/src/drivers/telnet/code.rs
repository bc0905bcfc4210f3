//! The code of telnet, in both directions. Nothing here reads or writes.

/// Begins a command; twice it is a byte of the content.
pub(super) const IAC: u8 = 255;
pub(super) const DONT: u8 = 254;
pub(super) const DO: u8 = 253;
pub(super) const WONT: u8 = 252;
pub(super) const WILL: u8 = 251;
/// Begins the parameters of an option.
pub(super) const SB: u8 = 250;
/// Ends them.
pub(super) const SE: u8 = 240;
/// The first command.
const COMMANDS: u8 = 240;

/// Longest parameters of an option, which was never agreed to.
pub(super) const PARAMETER_BYTES_MAX: usize = 4096;

/// What a byte that arrived comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decoded {
    /// A byte of the content.
    Content(u8),
    /// Nothing.
    Nothing,
    /// The peer proposes an option: this is to be sent.
    Answer([u8; 3]),
}

/// Where in a command the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Content,
    Command,
    /// The option of a proposal.
    Option(u8),
    /// So many bytes of parameters were left aside.
    Parameters(usize),
    ParametersCommand(usize),
}

/// What is received.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Decoder {
    state: State,
    /// The content ended with CR: a zero byte that follows only says that no line ends.
    after_return: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: State::Content, after_return: false }
    }
}

impl Decoder {
    /// Whether the connection may end here.
    pub(super) fn may_end(&self) -> bool {
        self.state == State::Content
    }

    /// How many of the next bytes are content as they stand.
    pub(super) fn plain(&self, bytes: &[u8]) -> usize {
        if self.state == State::Content && !self.after_return { plain(bytes) } else { 0 }
    }

    /// The next byte.
    pub(super) fn decode(&mut self, byte: u8) -> Result<Decoded, &'static str> {
        let (state, decoded) = match (self.state, byte) {
            (State::Content, IAC) => (State::Command, Decoded::Nothing),
            (State::Content, byte) => (State::Content, self.content(byte)),
            (State::Command, IAC) => (State::Content, self.content(IAC)),
            (State::Command, WILL | WONT | DO | DONT) => (State::Option(byte), Decoded::Nothing),
            (State::Command, SB) => (State::Parameters(0), Decoded::Nothing),
            (State::Command, COMMANDS..) => (State::Content, Decoded::Nothing),
            (State::Command, _) => return Err("an unknown telnet command"),
            // A refusal is not answered: that would never end.
            (State::Option(WILL), option) => (State::Content, Decoded::Answer([IAC, DONT, option])),
            (State::Option(DO), option) => (State::Content, Decoded::Answer([IAC, WONT, option])),
            (State::Option(_), _) => (State::Content, Decoded::Nothing),
            (State::Parameters(PARAMETER_BYTES_MAX..), _) => {
                return Err("the parameters of a telnet option are too long");
            }
            (State::Parameters(before), IAC) => (State::ParametersCommand(before), Decoded::Nothing),
            (State::Parameters(before), _) => (State::Parameters(before + 1), Decoded::Nothing),
            (State::ParametersCommand(_), SE) => (State::Content, Decoded::Nothing),
            (State::ParametersCommand(before), IAC) => (State::Parameters(before + 1), Decoded::Nothing),
            (State::ParametersCommand(_), _) => return Err("the parameters of a telnet option have no end"),
        };
        self.state = state;
        Ok(decoded)
    }

    fn content(&mut self, byte: u8) -> Decoded {
        let padding = std::mem::replace(&mut self.after_return, byte == b'\r') && byte == 0;
        if padding { Decoded::Nothing } else { Decoded::Content(byte) }
    }
}

/// How many of the first bytes mean themselves, whatever stands before or behind them.
fn plain(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| matches!(*byte, IAC | b'\r')).unwrap_or(bytes.len())
}

/// What is sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Encoder {
    /// CR was sent, and what follows says whether it ends a line.
    after_return: bool,
}

impl Encoder {
    /// Puts the code of `content` behind `into`.
    pub(super) fn encode(&mut self, content: &[u8], into: &mut Vec<u8>) {
        let mut rest = content;
        while let Some(byte) = rest.first() {
            let plain = if self.after_return { 0 } else { plain(rest) };
            if plain > 0 {
                into.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            rest = &rest[1..];
            if self.after_return && *byte != b'\n' {
                into.push(0);
            }
            self.after_return = *byte == b'\r';
            into.push(*byte);
            if *byte == IAC {
                into.push(IAC);
            }
        }
    }

    /// Puts the end of the content behind `into`.
    pub(super) fn finish(&mut self, into: &mut Vec<u8>) {
        if std::mem::take(&mut self.after_return) {
            into.push(0);
        }
    }
}
