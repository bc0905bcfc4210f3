//! Replies of the control channel (RFC 959, section 4.2): three digits, then a text of one line or of
//! several.

use crate::text::printable;

/// Longest line of a reply, in bytes: an MLST fact line with the longest path of Linux and its facts.
pub const LINE_BYTES_MAX: usize = 8 * 1024;

/// Most bytes of a whole reply: the longest FEAT and HELP texts of known servers are below 8 KiB.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Longest line of a reply that carries a token of GSI: a reply, or the names of all authorities that a site trusts, in
/// Base64.
pub const TOKEN_LINE_BYTES_MAX: usize = 128 * 1024;

/// Most bytes of a listing over the control channel, as it is sent: names and facts of some 300,000 files.
pub const LISTING_BYTES_MAX: usize = 128 << 20;

/// A whole reply.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reply {
    /// Its three digits, 100 to 659.
    pub code: u16,
    /// Its lines, without code and line ends.
    pub lines: Vec<Vec<u8>>,
}

/// What the first digit of a code says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// 1xx: the command has begun; another reply follows.
    Preliminary,
    /// 2xx: done.
    Done,
    /// 3xx: the server waits for the next command of a sequence.
    More,
    /// 4xx and 5xx: refused, for now or for good.
    Refused,
    /// 6xx: a protected reply (RFC 2228), which only a secured control channel may carry.
    Protected,
}

impl Reply {
    /// What its first digit says.
    pub fn class(&self) -> Class {
        match self.code / 100 {
            1 => Class::Preliminary,
            2 => Class::Done,
            3 => Class::More,
            6 => Class::Protected,
            _ => Class::Refused,
        }
    }

    /// The reply for an error: its code and its lines, printable and on one line.
    pub fn shown(&self) -> String {
        let text = self.lines.join(&b' ');
        format!("{} {}", self.code, printable(text.trim_ascii()))
    }
}

/// What makes bytes no reply.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ReplyError {
    /// It does not start with a code.
    #[error("what the server sent is no FTP reply: '{0}'; is this the port of an FTP server?")]
    Code(String),
    /// A line without an end.
    #[error("a line of the server's reply is longer than {0} bytes")]
    LineTooLong(usize),
    /// A reply without an end.
    #[error("the server's reply is longer than {0} bytes")]
    TooLong(usize),
}

/// Cuts the bytes of a control channel into replies, whatever the pieces in which they arrive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReplyReader {
    /// Bytes of a line that has not ended.
    line: Vec<u8>,
    /// Longest line.
    line_max: usize,
    /// Longest reply.
    reply_max: usize,
    state: ReaderState,
}

impl Default for ReplyReader {
    fn default() -> Self {
        Self { line: Vec::new(), line_max: LINE_BYTES_MAX, reply_max: REPLY_BYTES_MAX, state: ReaderState::First }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
enum ReaderState {
    /// The next line starts a reply.
    #[default]
    First,
    /// Lines of a reply of several lines are arriving.
    Within { code: u16, lines: Vec<Vec<u8>>, bytes: usize },
}

impl ReplyReader {
    /// For replies that carry tokens.
    pub fn of_tokens() -> Self {
        Self { line_max: TOKEN_LINE_BYTES_MAX, ..Self::default() }
    }

    /// Whether the next reply is a listing: several lines, which may be longer than others.
    pub fn expect_listing(&mut self, is_listing: bool) {
        self.reply_max = if is_listing { LISTING_BYTES_MAX } else { REPLY_BYTES_MAX };
    }

    /// The same of replies that carry one in a token.
    pub fn expect_listing_in_token(&mut self, is_listing: bool) {
        self.expect_listing(is_listing);
        self.line_max = if is_listing { LISTING_BYTES_MAX } else { TOKEN_LINE_BYTES_MAX };
    }

    /// Whether nothing of a reply has arrived.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty() && self.state == ReaderState::First
    }

    /// Takes bytes up to the end of one reply. Returns how many it took, and the reply if it is whole.
    ///
    /// # Errors
    /// If they are no reply, or one beyond the bounds.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Reply>), ReplyError> {
        let mut taken = 0;
        while let Some(end) = bytes[taken..].iter().position(|&byte| byte == b'\n') {
            self.add(&bytes[taken..taken + end])?;
            taken += end + 1;
            let mut line = std::mem::take(&mut self.line);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if let Some(reply) = self.end_line(line)? {
                return Ok((taken, Some(reply)));
            }
        }
        self.add(&bytes[taken..])?;
        Ok((bytes.len(), None))
    }

    /// Whether a reply has begun and not ended.
    pub fn is_within(&self) -> bool {
        !self.line.is_empty() || self.state != ReaderState::First
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        if bytes.len() > self.line_max - self.line.len() {
            // Whatever the pieces were, nothing of it stays.
            self.line = Vec::new();
            return Err(ReplyError::LineTooLong(self.line_max));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, line: Vec<u8>) -> Result<Option<Reply>, ReplyError> {
        match std::mem::take(&mut self.state) {
            ReaderState::First => {
                let (code, last) = code_of(&line).ok_or_else(|| ReplyError::Code(printable(&line)))?;
                let text = line.get(4..).unwrap_or_default().to_vec();
                if last {
                    return Ok(Some(Reply { code, lines: vec![text] }));
                }
                self.state = ReaderState::Within { code, bytes: line.len(), lines: vec![text] };
                Ok(None)
            }
            ReaderState::Within { code, mut lines, bytes } => {
                // An empty line costs memory too.
                let bytes = bytes + line.len() + size_of::<Vec<u8>>();
                if bytes > self.reply_max {
                    return Err(ReplyError::TooLong(self.reply_max));
                }
                // Lines within may repeat the code with '-', or start with anything else.
                let own = code_of(&line).filter(|(of_line, _)| *of_line == code);
                let text = if own.is_some() { line.get(4..).unwrap_or_default() } else { &line };
                lines.push(text.to_vec());
                if own.is_some_and(|(_, last)| last) {
                    return Ok(Some(Reply { code, lines }));
                }
                self.state = ReaderState::Within { code, lines, bytes };
                Ok(None)
            }
        }
    }
}

/// The code at the start of a line, and whether the line ends its reply.
fn code_of(line: &[u8]) -> Option<(u16, bool)> {
    let digits = line.get(..3)?;
    if !matches!(digits[0], b'1'..=b'6') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match line.get(3) {
        None | Some(b' ') => Some((code, true)),
        Some(b'-') => Some((code, false)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(pieces: &[&[u8]]) -> Result<Vec<Reply>, ReplyError> {
        let mut reader = ReplyReader::default();
        let mut replies = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (taken, reply) = reader.take(rest)?;
                replies.extend(reply);
                rest = &rest[taken..];
            }
        }
        Ok(replies)
    }

    const SAMPLE: &[u8] = b"220 ready\r\n211-Extensions:\r\n SIZE\r\n211-MDTM\r\n 211 no end\r\n211 End.\r\n\
        550-GlobusError: v=1\r\n550 End.\r\n226\r\n";

    #[test]
    fn replies_of_one_line_and_of_several_are_read() {
        let replies = read_all(&[SAMPLE]).unwrap();
        assert_eq!(replies.iter().map(|reply| reply.code).collect::<Vec<_>>(), [220, 211, 550, 226]);
        assert_eq!(replies[1].lines[1..4], [b" SIZE".to_vec(), b"MDTM".to_vec(), b" 211 no end".to_vec()]);
        assert_eq!(replies[2].shown(), "550 GlobusError: v=1 End.");
    }

    proptest! {
        #[test]
        fn the_pieces_in_which_they_arrive_do_not_matter(cuts in proptest::collection::vec(0..SAMPLE.len(), 0..9)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&SAMPLE[from..cut]);
                from = cut;
            }
            pieces.push(&SAMPLE[from..]);
            prop_assert_eq!(read_all(&pieces), read_all(&[SAMPLE]));
        }
    }

    #[test]
    fn what_has_no_end_is_refused_at_the_bound() {
        let line = [b'2'; LINE_BYTES_MAX + 1];
        assert_eq!(read_all(&[&line]), Err(ReplyError::LineTooLong(LINE_BYTES_MAX)));
        let endless = [b"211-x\r\n".as_slice(), &b"\r\n".repeat(REPLY_BYTES_MAX / 8)].concat();
        assert_eq!(read_all(&[&endless]), Err(ReplyError::TooLong(REPLY_BYTES_MAX)));
        assert!(read_all(&[&line[..3], b" ", &line[5..]]).unwrap().is_empty());
    }

    #[test]
    fn nothing_stays_of_a_line_that_is_too_long_whatever_the_pieces() {
        let line = [b'2'; LINE_BYTES_MAX + 1];
        let (mut whole, mut pieces) = (ReplyReader::default(), ReplyReader::default());
        let of_whole = whole.take(&line);
        let of_pieces = line.chunks(3).try_for_each(|piece| pieces.take(piece).map(drop));
        assert_eq!((of_whole.map(drop), whole), (of_pieces, pieces));
    }

    #[test]
    fn what_is_no_reply_is_named() {
        for wrong in ["SSH-2.0-x\r\n", "99 x\r\n", "700 x\r\n", "22\r\n", "220x\r\n", "\r\n"] {
            assert!(matches!(read_all(&[wrong.as_bytes()]), Err(ReplyError::Code(_))), "{wrong:?}");
        }
    }
}
