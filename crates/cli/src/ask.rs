//! Prompts at the terminal: yes or no, and secrets that are not echoed.
//!
//! A user is present if standard error is a terminal: they see the question. The answer is read
//! from the terminal itself, so standard input stays free for data. Without a terminal there is no
//! prompt, and nothing waits.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use xdfs_client::{Error, ErrorKind};
use xdfs_secure::Zeroizing;

use crate::exit::{Exit, Failure};
use crate::signal::PromptSignals;
use crate::text;

/// The terminal of this process.
const TERMINAL: &str = "/dev/tty";

/// Longest answer, in bytes. More than any password or passphrase that is accepted.
const ANSWER_BYTES_MAX: usize = 2048;

/// Answers that are neither yes nor no before they count as no.
const TRIES: usize = 3;

/// Asks a yes-or-no question, again where the answer is neither. `None` if nobody is present.
pub(crate) fn agree(question: &str) -> Result<Option<bool>, Error> {
    let mut question = format!("{question} [y/n] ");
    for _ in 0..TRIES {
        let Some(answer) = ask(&question, true)? else { return Ok(None) };
        match String::from_utf8_lossy(&answer).trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(Some(true)),
            "n" | "no" => return Ok(Some(false)),
            _ => question = "Please type 'y' or 'n': ".to_owned(),
        }
    }
    Ok(Some(false))
}

/// Asks for a secret, which is not echoed. `None` if nobody is present.
pub(crate) fn secret(question: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    ask(question, false)
}

/// Asks for a new password, typed twice. One that `check` refuses is not asked for again.
pub(crate) fn new_password(
    user: &str,
    check: &dyn Fn(&[u8]) -> Result<(), Failure>,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let of_error = |error: Error| Failure::new(Exit::of_error(&error, crate::exit::Side::Here), error.to_string());
    let nobody = || {
        let message =
            "there is no terminal to ask for a password\nhelp: write it into a file and use --password-file FILE";
        Failure::new(Exit::Usage, message)
    };
    let first = secret(&format!("New password of {user}: ")).map_err(of_error)?.ok_or_else(nobody)?;
    check(&first)?;
    let second = secret("Once more: ").map_err(of_error)?.ok_or_else(nobody)?;
    if first != second {
        return Err(Failure::new(Exit::Usage, "the two passwords differ; nothing was changed"));
    }
    Ok(first)
}

/// Whether somebody is present to answer.
pub(crate) fn is_possible() -> bool {
    std::io::stderr().is_terminal() && File::options().read(true).write(true).open(TERMINAL).is_ok()
}

fn ask(question: &str, echo: bool) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
    if !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    let Ok(terminal) = File::options().read(true).write(true).open(TERMINAL) else { return Ok(None) };
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Resources, format!("the terminal cannot be used: {error}"));
    let signals = PromptSignals::new().map_err(failed)?;
    let raw = Raw::enter(&terminal).map_err(|errno| failed(errno.into()))?;
    let mut keys = Keys { terminal: &terminal, signals: &signals };
    let answer = keys.write_all(text::shown(question).as_bytes()).and_then(|()| read_line(&mut keys, echo));
    drop(raw);
    // The line end that was typed was not echoed.
    let _ = keys.write_all(b"\n");
    match answer.map_err(failed)? {
        Some(answer) => Ok(Some(answer)),
        None => Err(Error::new(ErrorKind::Cancelled, "cancelled")),
    }
}

/// The keys that are typed on a terminal, which end with a signal that stops the program, or with the
/// terminal.
struct Keys<'a> {
    terminal: &'a File,
    signals: &'a PromptSignals,
}

impl Read for Keys<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut files =
                [PollFd::new(self.signals.wake(), PollFlags::IN), PollFd::new(self.terminal, PollFlags::IN)];
            match poll(&mut files, None) {
                Err(Errno::INTR) => continue,
                polled => polled?,
            };
            let [stopped, typed] = files.map(|file| !file.revents().is_empty());
            if stopped {
                return Ok(0);
            }
            if typed {
                return match self.terminal.read(bytes) {
                    Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
                    read => read,
                };
            }
        }
    }
}

impl Write for Keys<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.terminal.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.terminal.flush()
    }
}

/// A terminal that delivers each key as it is typed and echoes none, until this value is dropped.
/// Ctrl-C is an ordinary key meanwhile: a program that ended in between would leave a terminal
/// without echo.
struct Raw<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Raw<'a> {
    fn enter(terminal: &'a File) -> rustix::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Flush, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw<'_> {
    fn drop(&mut self) {
        // There is no other way to restore it.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// A line as it is typed; `None` if it was cancelled (Ctrl-C, Ctrl-D, a signal).
fn read_line(terminal: &mut (impl Read + Write), shown: bool) -> std::io::Result<Option<Zeroizing<Vec<u8>>>> {
    // Allocated with its final size: a vector that grows leaves copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(ANSWER_BYTES_MAX));
    loop {
        let mut key = [0];
        if terminal.read(&mut key)? == 0 {
            return Ok(None);
        }
        match key[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            // Ctrl-C, Ctrl-D, Ctrl-backslash.
            0x03 | 0x04 | 0x1c => return Ok(None),
            // Backspace deletes a whole character.
            0x08 | 0x7f => {
                let mut erased = false;
                while let Some(byte) = line.pop() {
                    erased = true;
                    if byte & 0xc0 != 0x80 {
                        break;
                    }
                }
                if shown && erased {
                    terminal.write_all(b"\x08 \x08")?;
                }
            }
            // Ctrl-U deletes the line.
            0x15 if !shown => line.clear(),
            0..0x20 => {}
            byte if line.len() < ANSWER_BYTES_MAX => {
                line.push(byte);
                if shown {
                    terminal.write_all(&[byte])?;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal on which these keys are typed.
    struct TypedKeys<'a>(&'a [u8], Vec<u8>);

    impl Read for TypedKeys<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(bytes)
        }
    }

    impl Write for TypedKeys<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn typed(keys: &[u8], shown: bool) -> (Option<Vec<u8>>, Vec<u8>) {
        let mut terminal = TypedKeys(keys, Vec::new());
        let line = read_line(&mut terminal, shown).unwrap().map(|line| line.to_vec());
        (line, terminal.1)
    }

    #[test]
    fn a_line_can_be_corrected_and_given_up() {
        for (keys, line) in [
            (&b"secret\r"[..], Some(&b"secret"[..])),
            (b"secret\nrest", Some(b"secret")),
            (b"\n", Some(b"")),
            (b"se\x7f\x7f\x7fx\n", Some(b"x")),
            ("a\u{e9}\x7fb\n".as_bytes(), Some(b"ab")),
            (b"old\x15new\n", Some(b"new")),
            (b"a\x1bb\n", Some(b"ab")),
            (b"sec\x03", None),
            (b"\x04", None),
            (b"", None),
        ] {
            assert_eq!(typed(keys, false), (line.map(<[u8]>::to_vec), Vec::new()), "{keys:?}");
        }
        assert_eq!(typed(b"yx\x7f\n", true), (Some(b"y".to_vec()), b"yx\x08 \x08".to_vec()));
        let long = [vec![b'a'; ANSWER_BYTES_MAX + 100], b"\n".to_vec()].concat();
        assert_eq!(typed(&long, false).0.unwrap().len(), ANSWER_BYTES_MAX);
    }
}
