//! Errors of the client as the numbers that programs know.

use rustix::io::Errno;
use xdfs_client::{Error, ErrorKind};

/// The number of an error: the server's own if it told one, which is one of Linux.
pub(crate) fn of(error: &Error) -> Errno {
    match error.errno {
        // ESTALE of the server's disk is nothing that an open file here can recover from.
        0 => of_kind(error.kind),
        errno => Errno::from_raw_os_error(errno.into()),
    }
}

/// The number for a kind of error.
pub(crate) fn of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::PermissionDenied | ErrorKind::LoginRefused => Errno::ACCESS,
        // Rights on an export: nothing that other permission bits would change.
        ErrorKind::Refused => Errno::PERM,
        ErrorKind::AlreadyExists => Errno::EXIST,
        ErrorKind::IsDirectory => Errno::ISDIR,
        ErrorKind::NotDirectory => Errno::NOTDIR,
        ErrorKind::NotRegular | ErrorKind::InvalidPath | ErrorKind::OutOfRange => Errno::INVAL,
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::QuotaExceeded => Errno::DQUOT,
        ErrorKind::TooLarge => Errno::FBIG,
        ErrorKind::ReadOnly => Errno::ROFS,
        ErrorKind::LimitExceeded | ErrorKind::Resources => Errno::NFILE,
        ErrorKind::NotEmpty => Errno::NOTEMPTY,
        ErrorKind::Stale => Errno::STALE,
        ErrorKind::Locked => Errno::AGAIN,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_number_is_taken_if_it_told_one() {
        let error = Error::new(ErrorKind::Storage, "a name is too long");
        assert_eq!(of(&error), Errno::IO);
        assert_eq!(of(&error.with_errno(36)), Errno::NAMETOOLONG);
        assert_eq!(of(&Error::new(ErrorKind::ConnectionLost, "")), Errno::IO);
        assert_eq!(of(&Error::new(ErrorKind::NotFound, "")), Errno::NOENT);
    }
}
