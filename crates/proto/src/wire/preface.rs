//! The first eight bytes of each direction: service, version range, and how the connection
//! continues (WIRE-04..08, WIRE-22).

use super::codec::WireError;
use crate::base::Duration;
use crate::limits;

/// Bytes of a preface.
pub const PREFACE_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"xdfs";

/// The service that the first byte of a connection requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Service {
    /// File transfer and remote files (WIRE-05).
    Xdfs = 0,
    /// Remote processes (WIRE-06): never offered by this server.
    RemoteProcess = 1,
    /// Remote threads (WIRE-07): never offered by this server.
    Thread = 2,
}

/// How the connection continues after the preface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Continuation {
    /// A TLS 1.3 handshake.
    Tls = 1,
    /// The channel joins an open session.
    Join = 2,
}

/// The client's preface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientPreface {
    /// Code of the service: kept as a number so that an unknown one can be answered.
    pub service: u8,
    /// Oldest version that the client speaks.
    pub version_min: u8,
    /// Newest version that the client speaks.
    pub version_max: u8,
    /// Code of [`Continuation`].
    pub start: u8,
}

/// How a server answers a preface. Only `Available` continues; after the others the server closes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// The service is available (WIRE-08).
    Available = 1,
    /// No such service here.
    NoService = 2,
    /// No common version; the answer's version is the newest of the server.
    NoVersion = 3,
    /// This continuation is not offered.
    NoStart = 4,
    /// Too many connections now.
    Busy = 5,
    /// The session, channel number, grant or MAC of a JOIN is wrong. The reply does not state
    /// which.
    JoinRefused = 6,
    /// The bytes are not a valid preface.
    NotXdfs = 7,
    /// Too many connections of this address are in their handshake now.
    TooManyOfYou = 8,
    /// Too many wrong passwords came from this address: it must wait.
    Penalised = 9,
}

impl Status {
    /// Every status, in the order of its code.
    pub const ALL: [Status; 9] = [
        Self::Available,
        Self::NoService,
        Self::NoVersion,
        Self::NoStart,
        Self::Busy,
        Self::JoinRefused,
        Self::NotXdfs,
        Self::TooManyOfYou,
        Self::Penalised,
    ];

    /// The text for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::NoService => "the service is not available on this server",
            Self::NoVersion => "no common protocol version",
            Self::NoStart => "this kind of handshake is not offered by the server",
            Self::Busy => "the server has too many connections now; try again later",
            Self::JoinRefused => {
                "the server refused the channel (unknown session, or the grant was used or is too old)"
            }
            Self::NotXdfs => "the server did not understand the opening bytes",
            Self::TooManyOfYou => {
                "too many connections from this address are being opened now; try again in some seconds"
            }
            Self::Penalised => "too many wrong passwords came from this address",
        }
    }
}

/// The server's preface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerPreface {
    /// The answer.
    pub status: Status,
    /// The version that both will speak; of a refusal for wrong passwords the time to wait, in units of
    /// five seconds.
    pub version: u8,
    /// The client's start code, repeated.
    pub start: u8,
}

/// The unit of the time to wait. The longest wait of a source takes 120 of them.
const WAIT_UNIT: Duration = Duration::from_secs(5);

impl ClientPreface {
    /// The preface of this code for a way to go on.
    pub const fn of(start: Continuation) -> Self {
        Self {
            service: Service::Xdfs as u8,
            version_min: limits::VERSION_MIN,
            version_max: limits::VERSION_MAX,
            start: start as u8,
        }
    }

    /// The bytes on the wire.
    pub const fn encode(&self) -> [u8; PREFACE_BYTES] {
        let [x, d, f, s] = MAGIC;
        [self.service, x, d, f, s, self.version_min, self.version_max, self.start]
    }

    /// Reads a preface; any service, version and start code is a preface.
    pub fn decode(bytes: &[u8; PREFACE_BYTES]) -> Result<Self, WireError> {
        let [service, magic @ .., version_min, version_max, start] = *bytes;
        if magic != MAGIC {
            return Err(WireError::Invalid("preface"));
        }
        Ok(Self { service, version_min, version_max, start })
    }

    /// What this server answers: the service first, then the version, then the way to go on.
    pub fn answer(&self, offered: &[Continuation]) -> ServerPreface {
        let version = self.version_max.min(limits::VERSION_MAX);
        let (status, version) = if self.service != Service::Xdfs as u8 {
            (Status::NoService, 0)
        } else if self.version_min > self.version_max || version < self.version_min.max(limits::VERSION_MIN) {
            (Status::NoVersion, limits::VERSION_MAX)
        } else if !offered.iter().any(|start| *start as u8 == self.start) {
            (Status::NoStart, version)
        } else {
            (Status::Available, version)
        };
        ServerPreface { status, version, start: self.start }
    }
}

impl ServerPreface {
    /// The answer to a source that has to wait so long.
    pub fn penalised(wait: Duration, start: u8) -> Self {
        let units = wait.as_millis().div_ceil(WAIT_UNIT.as_millis());
        Self { status: Status::Penalised, version: u8::try_from(units).unwrap_or(u8::MAX), start }
    }

    /// How long to wait before the next login, if that is the answer and the server says it.
    pub fn wait(&self) -> Option<Duration> {
        (self.status == Status::Penalised && self.version > 0).then(|| WAIT_UNIT * u32::from(self.version))
    }

    /// The bytes on the wire.
    pub const fn encode(&self) -> [u8; PREFACE_BYTES] {
        let [x, d, f, s] = MAGIC;
        [self.status as u8, x, d, f, s, self.version, 0, self.start]
    }

    /// Reads an answer.
    pub fn decode(bytes: &[u8; PREFACE_BYTES]) -> Result<Self, WireError> {
        let [status, magic @ .., version, zero, start] = *bytes;
        if magic != MAGIC || zero != 0 {
            return Err(WireError::Invalid("server preface"));
        }
        let status = Status::ALL.into_iter().find(|known| *known as u8 == status);
        Ok(Self { status: status.ok_or(WireError::Invalid("status of the server preface"))?, version, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_wait_is_told_how_long_and_never_too_short_a_time() {
        for (wait, told) in [(1, 5), (5_000, 5), (5_001, 10), (14_999, 15), (600_000, 600), (10_000_000, 1275)] {
            let answer = ServerPreface::penalised(Duration::from_millis(wait), 1);
            let read = ServerPreface::decode(&answer.encode()).unwrap();
            assert_eq!(read.wait(), Some(Duration::from_secs(told)), "{wait}");
        }
        assert_eq!(ServerPreface::penalised(Duration::ZERO, 1).wait(), None);
        assert_eq!(ServerPreface { status: Status::Available, version: 1, start: 1 }.wait(), None);
    }

    #[test]
    fn the_answer_names_what_is_wrong() {
        let good = ClientPreface::of(Continuation::Tls);
        let answer = |preface: ClientPreface| preface.answer(&[Continuation::Tls, Continuation::Join]).status;
        assert_eq!(answer(good), Status::Available);
        assert_eq!(answer(ClientPreface { service: 1, ..good }), Status::NoService);
        assert_eq!(answer(ClientPreface { service: 255, ..good }), Status::NoService);
        assert_eq!(answer(ClientPreface { version_min: 2, version_max: 9, ..good }), Status::NoVersion);
        assert_eq!(answer(ClientPreface { version_min: 0, version_max: 0, ..good }), Status::NoVersion);
        assert_eq!(answer(ClientPreface { version_min: 2, version_max: 1, ..good }), Status::NoVersion);
        assert_eq!(answer(ClientPreface { start: 0, ..good }), Status::NoStart);
        assert_eq!(answer(ClientPreface { version_max: 200, ..good }), Status::Available);
    }

    #[test]
    fn prefaces_come_back() {
        let client = ClientPreface { service: 2, version_min: 1, version_max: 3, start: 9 };
        assert_eq!(ClientPreface::decode(&client.encode()), Ok(client));
        for status in Status::ALL {
            let server = ServerPreface { status, version: 1, start: 2 };
            assert_eq!(ServerPreface::decode(&server.encode()), Ok(server));
        }
        assert!(ClientPreface::decode(b"\0xdfS\x01\x01\0").is_err());
        assert!(ServerPreface::decode(b"\x63xdfs\x01\0\0").is_err());
    }
}
