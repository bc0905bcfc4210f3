//! What a server can do, from its answer to FEAT (RFC 2389).

use crate::reply::Reply;

/// What a server can do besides RFC 959.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features {
    /// MLST and MLSD: facts of names in a form for programs.
    pub facts: bool,
    /// MLSC: the same facts over the control channel.
    pub facts_by_control: bool,
    /// MFMT: a file's time can be set.
    pub mfmt: bool,
    /// MDTM: a file's time can be asked for.
    pub mdtm: bool,
    /// Mode E with several connections.
    pub parallel: bool,
    /// How it says a file's SHA-256, if it does.
    pub sha256: Option<Sha256By>,
}

/// The command that says a file's SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sha256By {
    /// CKSM of GridFTP.
    Cksm,
    /// HASH of draft-ietf-ftpext2-hash.
    Hash,
    /// XSHA256 of several servers.
    Xsha256,
}

impl Features {
    /// What a reply to FEAT names.
    pub fn of(reply: &Reply) -> Self {
        let mut features = Self::default();
        for line in &reply.lines {
            let line = line.trim_ascii().to_ascii_uppercase();
            let (name, rest) = match line.iter().position(|&byte| byte == b' ') {
                Some(space) => (&line[..space], &line[space + 1..]),
                None => (&line[..], &b""[..]),
            };
            match name {
                b"MLST" => features.facts = true,
                b"MLSC" => features.facts_by_control = true,
                b"MFMT" => features.mfmt = true,
                b"MDTM" => features.mdtm = true,
                b"PARALLEL" => features.parallel = true,
                b"CKSM" if names(rest, b"SHA256") => features.sha256 = Some(Sha256By::Cksm),
                b"HASH" if names(rest, b"SHA-256") => features.sha256 = features.sha256.or(Some(Sha256By::Hash)),
                b"XSHA256" => features.sha256 = features.sha256.or(Some(Sha256By::Xsha256)),
                _ => {}
            }
        }
        features
    }
}

/// Whether a list such as `MD5:10;SHA256:11;` or `SHA-1;SHA-256*` has this name.
fn names(list: &[u8], name: &[u8]) -> bool {
    let mut parts = list.split(|&byte| byte == b';');
    parts.any(|part| {
        let part = part.split(|&byte| byte == b':').next().unwrap_or_default();
        part.strip_suffix(b"*").unwrap_or(part) == name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Features {
        Features::of(&Reply { code: 211, lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect() })
    }

    #[test]
    fn the_answers_of_real_servers_are_read() {
        let vsftpd = of(&["Features:", " EPRT", " EPSV", " MDTM", " PASV", " REST STREAM", " SIZE", " TVFS", "End"]);
        assert_eq!(vsftpd, Features { mdtm: true, ..Features::default() });
        let globus = of(&[
            "Extensions supported",
            " CKSM MD5:10;ADLER32:10;SHA1:10;SHA256:11;SHA512:12;",
            " MFMT",
            " MLSC",
            " PARALLEL",
            " MLST Type*;Size*;Modify*;",
            " MDTM",
            "End.",
        ]);
        let sha256 = Some(Sha256By::Cksm);
        assert_eq!(
            globus,
            Features { facts: true, facts_by_control: true, mfmt: true, mdtm: true, parallel: true, sha256 }
        );
        assert_eq!(of(&[" hash SHA-1;sha-256*;MD5"]).sha256, Some(Sha256By::Hash));
        assert_eq!(of(&[" HASH SHA-1*;SHA-2567"]).sha256, None);
        assert_eq!(of(&[" XSHA256"]).sha256, Some(Sha256By::Xsha256));
        assert_eq!(of(&[" CKSM ADLER32;"]).sha256, None);
    }
}
