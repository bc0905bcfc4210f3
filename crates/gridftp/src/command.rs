//! The commands of a client, and how they are written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use base64ct::{Base64, Encoding};

use crate::address::{eprt_argument, port_argument};
use crate::ranges::Range;
use crate::text::printable;

/// Longest argument, in bytes: the longest path of Linux.
pub const ARGUMENT_BYTES_MAX: usize = 4096;

/// A user and a password, as FTP has them: both cross the network readably unless TLS protects them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// The user's name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

impl Login {
    /// The login that public servers take from anybody.
    pub fn anonymous() -> Self {
        Self { user: b"anonymous".to_vec(), password: b"xdfs@".to_vec() }
    }
}

impl Login {
    /// The login of whom a certificate has proved: the site says which account is theirs.
    pub fn mapped() -> Self {
        Self::certified(b":globus-mapping:".to_vec())
    }

    /// The same for an account of one's choice, among those that the site permits.
    pub fn certified(user: Vec<u8>) -> Self {
        Self { user, password: b"dummy".to_vec() }
    }
}

impl fmt::Debug for Login {
    /// Without the password, which no log may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &printable(&self.user)).finish_non_exhaustive()
    }
}

/// How a data channel carries a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Mode S: the bytes alone, on one connection that ends with the file.
    Stream,
    /// Mode E: blocks with offsets, on any number of connections.
    Extended,
}

/// A command.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// The user's name; the password follows if the server asks.
    User(Vec<u8>),
    /// The password.
    Pass(Password),
    /// TLS begins after the reply (RFC 4217).
    AuthTls,
    /// GSI begins after the reply (RFC 2228).
    AuthGssapi,
    /// A token of the handshake of GSI.
    Adat(Vec<u8>),
    /// The size of protected blocks, which TLS has not: 0.
    ProtectionBuffer,
    /// Data channels have TLS, too.
    ProtectData,
    /// The same for servers that tell integrity from encryption.
    ProtectSafe,
    /// Data channels are bare.
    ProtectClear,
    /// Both ends of a data channel must be the same user (GFD.20).
    AuthenticateData,
    /// Nobody asks who opens a data channel.
    TrustData,
    /// What the server can do.
    Feat,
    /// Bytes as they are (`TYPE I`).
    Binary,
    /// How data channels carry files.
    Mode(Mode),
    /// How many connections a download in Mode E uses.
    Parallelism(u16),
    /// Size of the server's socket buffers for data channels.
    BufferSize(u32),
    /// The server listens, IPv4.
    Pasv,
    /// The server listens, any family.
    Epsv,
    /// The server connects to this address.
    Port(SocketAddr),
    /// The next transfer starts here (Mode S).
    Rest(u64),
    /// The next transfer leaves these ranges out (Mode E).
    RestRanges(Vec<Range>),
    /// Download.
    Retr(Vec<u8>),
    /// Upload.
    Stor(Vec<u8>),
    /// A file's length.
    Size(Vec<u8>),
    /// A file's time.
    Mdtm(Vec<u8>),
    /// Facts of a name.
    Mlst(Vec<u8>),
    /// Facts of every name in a directory.
    Mlsd(Vec<u8>),
    /// The same over the control channel, which GSI protects to its end.
    Mlsc(Vec<u8>),
    /// A file's time is set to this one (`YYYYMMDDHHMMSS`, UTC).
    Mfmt([u8; 14], Vec<u8>),
    /// The same as servers had it before MFMT.
    MdtmSet([u8; 14], Vec<u8>),
    /// The names in the working directory, and nothing else of them.
    Nlst,
    /// Make a directory the working directory.
    Cwd(Vec<u8>),
    /// The working directory.
    Pwd,
    /// A file's checksum.
    Cksm(&'static str, Vec<u8>),
    /// Which checksum HASH says.
    HashOption(&'static str),
    /// A file's checksum, of the kind that was chosen.
    Hash(Vec<u8>),
    /// A file's SHA-256, as servers had it before HASH.
    Xsha256(Vec<u8>),
    /// Make a directory.
    Mkd(Vec<u8>),
    /// Remove a directory.
    Rmd(Vec<u8>),
    /// Remove a file.
    Dele(Vec<u8>),
    /// Rename: the old name.
    Rnfr(Vec<u8>),
    /// Rename: the new name.
    Rnto(Vec<u8>),
    /// The server forgets a transfer.
    Abor,
    /// End of the session.
    Quit,
}

/// A password that no `Debug` shows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Password(pub Vec<u8>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Why a name is not sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum NameError {
    /// It would end the command early.
    #[error("{0}: FTP cannot name it, since it holds a line break or NUL; rename the file")]
    Control(String),
    /// It is empty.
    #[error("an empty name cannot be sent to an FTP server")]
    Empty,
    /// It is too long.
    #[error("{0}: the name is longer than {ARGUMENT_BYTES_MAX} bytes")]
    TooLong(String),
}

/// What the replies to a command mean.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Sequence {
    /// One reply: 2xx, or refused.
    Plain,
    /// One reply: 3xx, or refused; the next command completes it.
    Partial,
    /// 1xx when the data channel opens, more 1xx as markers, then 2xx; or refused at any time.
    Transfer,
    /// 1xx while the server reads a whole file, then 2xx; or refused at any time.
    Long,
}

impl Command {
    /// The command for the first four letters of errors, without its arguments.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::User(_) => "USER",
            Self::Pass(_) => "PASS",
            Self::AuthTls => "AUTH TLS",
            Self::AuthGssapi => "AUTH GSSAPI",
            Self::Adat(_) => "ADAT",
            Self::ProtectionBuffer => "PBSZ 0",
            Self::ProtectData => "PROT P",
            Self::ProtectSafe => "PROT S",
            Self::ProtectClear => "PROT C",
            Self::AuthenticateData => "DCAU A",
            Self::TrustData => "DCAU N",
            Self::Feat => "FEAT",
            Self::Binary => "TYPE I",
            Self::Mode(Mode::Stream) => "MODE S",
            Self::Mode(Mode::Extended) => "MODE E",
            Self::Parallelism(_) => "OPTS RETR",
            Self::BufferSize(_) => "SBUF",
            Self::Pasv => "PASV",
            Self::Epsv => "EPSV",
            Self::Port(address) if address.ip().to_canonical().is_ipv4() => "PORT",
            Self::Port(_) => "EPRT",
            Self::Rest(_) | Self::RestRanges(_) => "REST",
            Self::Retr(_) => "RETR",
            Self::Stor(_) => "STOR",
            Self::Size(_) => "SIZE",
            Self::Mdtm(_) => "MDTM",
            Self::Mlst(_) => "MLST",
            Self::Mlsd(_) => "MLSD",
            Self::Mlsc(_) => "MLSC",
            Self::Mfmt(..) => "MFMT",
            Self::MdtmSet(..) => "MDTM",
            Self::Nlst => "NLST",
            Self::Cwd(_) => "CWD",
            Self::Pwd => "PWD",
            Self::Cksm(..) => "CKSM",
            Self::HashOption(_) => "OPTS HASH",
            Self::Hash(_) => "HASH",
            Self::Xsha256(_) => "XSHA256",
            Self::Mkd(_) => "MKD",
            Self::Rmd(_) => "RMD",
            Self::Dele(_) => "DELE",
            Self::Rnfr(_) => "RNFR",
            Self::Rnto(_) => "RNTO",
            Self::Abor => "ABOR",
            Self::Quit => "QUIT",
        }
    }

    pub(crate) fn sequence(&self) -> Sequence {
        match self {
            Self::Rest(_) | Self::RestRanges(_) | Self::Rnfr(_) => Sequence::Partial,
            Self::Retr(_) | Self::Stor(_) | Self::Mlsd(_) | Self::Nlst => Sequence::Transfer,
            Self::Cksm(..) | Self::Hash(_) | Self::Xsha256(_) | Self::Mlsc(_) => Sequence::Long,
            _ => Sequence::Plain,
        }
    }

    /// The line that is sent, with its end.
    ///
    /// # Errors
    /// If an argument cannot be sent.
    pub fn encode(&self) -> Result<Vec<u8>, NameError> {
        let argument = match self {
            Self::Feat | Self::Binary | Self::Mode(_) | Self::Pasv | Self::Epsv | Self::Abor | Self::Quit => None,
            Self::Nlst | Self::Pwd | Self::AuthTls | Self::AuthGssapi | Self::ProtectionBuffer => None,
            Self::ProtectData | Self::ProtectSafe | Self::ProtectClear => None,
            Self::AuthenticateData | Self::TrustData => None,
            Self::Adat(token) => Some(Base64::encode_string(token).into_bytes()),
            Self::User(text) | Self::Pass(Password(text)) => Some(checked(text)?.to_vec()),
            Self::Retr(name) | Self::Stor(name) | Self::Size(name) | Self::Mdtm(name) => Some(checked(name)?.to_vec()),
            Self::Mlsc(name) => Some(checked(name)?.to_vec()),
            Self::Mlst(name) | Self::Mlsd(name) | Self::Mkd(name) | Self::Rmd(name) => Some(checked(name)?.to_vec()),
            Self::Dele(name) | Self::Rnfr(name) | Self::Rnto(name) => Some(checked(name)?.to_vec()),
            Self::Cwd(name) | Self::Hash(name) | Self::Xsha256(name) => Some(checked(name)?.to_vec()),
            Self::Mfmt(time, name) | Self::MdtmSet(time, name) => Some([&time[..], b" ", checked(name)?].concat()),
            Self::HashOption(algorithm) => Some(algorithm.as_bytes().to_vec()),
            Self::Parallelism(streams) => Some(format!("Parallelism={streams},{streams},{streams};").into_bytes()),
            Self::BufferSize(bytes) => Some(bytes.to_string().into_bytes()),
            Self::Port(address) => Some(match address.ip().to_canonical() {
                IpAddr::V4(ip) => port_argument(ip, address.port()).into_bytes(),
                IpAddr::V6(_) => eprt_argument(*address).into_bytes(),
            }),
            Self::Rest(offset) => Some(offset.to_string().into_bytes()),
            Self::RestRanges(ranges) => {
                let ranges: Vec<String> = ranges.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
                Some(ranges.join(",").into_bytes())
            }
            Self::Cksm(algorithm, name) => Some([format!("{algorithm} 0 -1 ").as_bytes(), checked(name)?].concat()),
        };
        let mut line = self.verb().as_bytes().to_vec();
        if let Some(argument) = argument {
            line.push(b' ');
            line.extend_from_slice(&argument);
        }
        line.extend_from_slice(b"\r\n");
        Ok(line)
    }
}

fn checked(name: &[u8]) -> Result<&[u8], NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(NameError::Control(printable(name)));
    }
    if name.len() > ARGUMENT_BYTES_MAX {
        return Err(NameError::TooLong(printable(name)));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_servers_read_them() {
        let written = |command: Command| String::from_utf8(command.encode().unwrap()).unwrap();
        assert_eq!(written(Command::Retr(b"/a b".to_vec())), "RETR /a b\r\n");
        assert_eq!(written(Command::Parallelism(4)), "OPTS RETR Parallelism=4,4,4;\r\n");
        assert_eq!(written(Command::BufferSize(65_536)), "SBUF 65536\r\n");
        assert_eq!(written(Command::Cksm("SHA256", b"/x".to_vec())), "CKSM SHA256 0 -1 /x\r\n");
        assert_eq!(written(Command::Mfmt(*b"20200102030405", b"/x".to_vec())), "MFMT 20200102030405 /x\r\n");
        assert_eq!(written(Command::Port("[::1]:2000".parse().unwrap())), "EPRT |2|::1|2000|\r\n");
        let ranges = vec![Range { start: 0, end: 5 }, Range { start: 9, end: 12 }];
        assert_eq!(written(Command::RestRanges(ranges)), "REST 0-5,9-12\r\n");
    }

    #[test]
    fn no_name_becomes_a_second_command() {
        let commands: [fn(Vec<u8>) -> Command; 17] = [
            Command::User,
            |text| Command::Pass(Password(text)),
            Command::Retr,
            Command::Stor,
            Command::Size,
            Command::Mlst,
            Command::Mlsd,
            Command::Mlsc,
            Command::Mkd,
            Command::Dele,
            Command::Rnfr,
            Command::Rnto,
            |text| Command::Cksm("MD5", text),
            |text| Command::Mfmt([b'0'; 14], text),
            Command::Cwd,
            Command::Hash,
            Command::Xsha256,
        ];
        for command in commands {
            for name in [&b"a\r\nDELE b"[..], b"a\nb", b"a\rb", b"a\0b"] {
                assert!(matches!(command(name.to_vec()).encode(), Err(NameError::Control(_))), "{name:?}");
            }
            assert_eq!(command(Vec::new()).encode(), Err(NameError::Empty));
            assert!(matches!(command(vec![b'a'; 4097]).encode(), Err(NameError::TooLong(_))));
        }
    }

    #[test]
    fn no_password_is_shown() {
        let login = Login { user: b"anna".to_vec(), password: b"secret".to_vec() };
        let shown = format!("{login:?} {:?}", Command::Pass(Password(b"secret".to_vec())));
        assert!(shown.contains("anna") && !shown.contains("secret"), "{shown}");
    }
}
