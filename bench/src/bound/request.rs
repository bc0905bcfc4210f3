//! The one message of the bound program: what the client wants. Fixed head, then a name. Every length is checked
//! before it is used; nothing else is negotiated.

use std::io::{Read, Write};

use crate::error::{Context, Error, Result};

const MAGIC: [u8; 8] = *b"xdbound1";

/// Head: magic 8, job 1, direction 1, name length 2, channels 4, block 4, padding 4, bytes 8.
const HEAD: usize = 32;

/// As many channels as the largest xdfs session may have.
pub const CHANNELS_MAX: u32 = 4096;

/// Largest buffer either side may be asked to allocate: sixteen of the blocks that are useful.
pub const BLOCK_MAX: u32 = 16 << 20;

/// Longest file name of Linux.
const NAME_MAX: usize = 255;

/// Which way the payload goes, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// What is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// `bytes` zeros over `channels` connections.
    Memory {
        /// Number of connections, the first included.
        channels: u32,
        /// Sum over all of them.
        bytes: u64,
    },
    /// One file over this connection. `bytes` is its length on the way up and 0 on the way down.
    File {
        /// Name inside the served directory.
        name: String,
        /// Length that the receiver may preallocate.
        bytes: u64,
    },
}

/// The message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is moved.
    pub job: Job,
    /// Which way.
    pub direction: Direction,
    /// Size of the single buffer of each side, in bytes.
    pub block: u32,
}

impl Request {
    /// Writes the message.
    pub fn write(&self, to: &mut impl Write) -> Result<()> {
        let (job, channels, bytes, name) = match &self.job {
            Job::Memory { channels, bytes } => (0, *channels, *bytes, ""),
            Job::File { name, bytes } => (1, 1, *bytes, name.as_str()),
        };
        let name_length = u16::try_from(name.len()).map_err(|_| Error::Bound("was given too long a name"))?;
        let mut message = Vec::with_capacity(HEAD + name.len());
        message.extend_from_slice(&MAGIC);
        message.push(job);
        message.push(u8::from(self.direction == Direction::Up));
        message.extend_from_slice(&name_length.to_be_bytes());
        message.extend_from_slice(&channels.to_be_bytes());
        message.extend_from_slice(&self.block.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&bytes.to_be_bytes());
        message.extend_from_slice(name.as_bytes());
        to.write_all(&message).context(|| "send the request".to_owned())
    }

    /// Reads and checks the message.
    pub fn read(from: &mut impl Read) -> Result<Self> {
        let mut head = [0_u8; HEAD];
        from.read_exact(&mut head).context(|| "read the request".to_owned())?;
        let [m0, m1, m2, m3, m4, m5, m6, m7, job, up, n0, n1, c0, c1, c2, c3, b0, b1, b2, b3, _, _, _, _, size @ ..] =
            head;
        if [m0, m1, m2, m3, m4, m5, m6, m7] != MAGIC {
            return Err(Error::Bound("does not speak this protocol"));
        }
        let name_length = usize::from(u16::from_be_bytes([n0, n1]));
        let channels = u32::from_be_bytes([c0, c1, c2, c3]);
        let block = u32::from_be_bytes([b0, b1, b2, b3]);
        let bytes = u64::from_be_bytes(size);
        if channels == 0 || channels > CHANNELS_MAX || block == 0 || block > BLOCK_MAX || name_length > NAME_MAX {
            return Err(Error::Bound("asked for more than the limits allow"));
        }
        let mut name = vec![0; name_length];
        from.read_exact(&mut name).context(|| "read the request".to_owned())?;
        let name = String::from_utf8(name).map_err(|_| Error::Bound("sent a name that is not text"))?;
        let job = match job {
            0 => Job::Memory { channels, bytes },
            1 => Job::File { name, bytes },
            _ => return Err(Error::Bound("asked for an unknown job")),
        };
        let direction = if up == 0 { Direction::Down } else { Direction::Up };
        Ok(Self { job, direction, block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_wire() {
        let request =
            Request { job: Job::File { name: "a b".to_owned(), bytes: 7 }, direction: Direction::Up, block: 1 << 20 };
        let mut wire = Vec::new();
        request.write(&mut wire).expect("a vector takes everything");
        assert_eq!(Request::read(&mut wire.as_slice()).expect("readable"), request);
    }

    #[test]
    fn a_block_above_the_limit_is_refused_before_anything_is_allocated() {
        let request =
            Request { job: Job::Memory { channels: 1, bytes: 1 }, direction: Direction::Down, block: BLOCK_MAX + 1 };
        let mut wire = Vec::new();
        request.write(&mut wire).expect("a vector takes everything");
        assert!(Request::read(&mut wire.as_slice()).is_err());
    }
}
