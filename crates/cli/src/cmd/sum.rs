//! `xdfs sum`: the BLAKE3 hashes of files, computed on the machine that holds them.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use xdfs_client::{Digest, Error, ErrorKind, Level, Payload, hexadecimal};
use xdfs_gridftp::listing::Kind;
use xdfs_gridftp::ranges::Range;
use xdfs_io::store::stream::StreamSource;
use xdfs_io::store::{LocalPlace, Source};

use super::connect::SessionRequest;
use super::ftp::{FtpServers, error_of};
use super::meant::meant;
use super::pattern;
use super::remote::{Sessions, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, SumLine, print, report, told};
use crate::plan::{Local, SumOf, SumPlan};
use crate::signal::StopFlag;
use crate::text::printable;
use crate::url::Url;

/// Hashes every readable file; errors of the others are reported and do not stop it.
pub(crate) fn run(plan: &SumPlan) -> Result<Exit, Failure> {
    let mut sessions = Sessions::new(SessionRequest::default(), plan.login.clone());
    let mut servers = FtpServers::new(plan.login.clone(), Level::Private, StopFlag::default());
    let mut exits = Vec::with_capacity(plan.files.len());
    let files: Vec<_> = plan.files.iter().flat_map(|(of, typed)| expanded(&mut sessions, of, typed)).collect();
    for (of, typed) in &files {
        let summed = match of {
            Ok(SumOf::Here(local)) => here(local, plan),
            Ok(SumOf::There(url)) if url.is_ftp() => there_by_ftp(&mut servers, url, plan),
            Ok(SumOf::There(url)) => there(&mut sessions, url, plan),
            Err(failed) => Err(failed.clone()),
        };
        let (name, escaped) = told(typed.as_bytes());
        match summed {
            Ok(digest) if plan.json => {
                let hash = hexadecimal(&digest);
                JsonLines.write(&SumLine {
                    file: name.into_owned(),
                    offset: plan.offset,
                    length: plan.length,
                    hash,
                    file_escaped: escaped,
                })?;
            }
            Ok(digest) => print(&line(&hexadecimal(&digest), typed.as_bytes()))?,
            Err((failure, kind)) => {
                report(&failure.message);
                if plan.json {
                    JsonLines.error(&name, kind, &failure.message)?;
                }
                exits.push(failure.exit);
                continue;
            }
        }
        exits.push(Exit::Done);
    }
    sessions.close();
    servers.close(Exit::Done);
    Ok(Exit::of_all(&exits))
}

type Expanded = (Result<SumOf, (Failure, ErrorKind)>, OsString);

/// The files that an operand stands for, and their names: as they were typed, but for a password.
fn expanded(sessions: &mut Sessions, of: &SumOf, typed: &OsString) -> Vec<Expanded> {
    let name = match of {
        SumOf::There(url) if url.password.is_some() => url.to_string().into(),
        _ => typed.clone(),
    };
    let itself = || vec![(Ok(of.clone()), name.clone())];
    let SumOf::There(url) = of else { return itself() };
    match pattern::expand(sessions, url) {
        Ok(urls) if urls.as_slice() == std::slice::from_ref(url) => itself(),
        Ok(urls) => urls.into_iter().map(|url| (Ok(SumOf::There(url.clone())), url.to_string().into())).collect(),
        Err(failed) => vec![(Err(failed), name)],
    }
}

fn here(local: &Local, plan: &SumPlan) -> Result<Digest, (Failure, ErrorKind)> {
    let source = match local {
        Local::File(path) => LocalPlace::of(path.as_os_str().as_bytes()).and_then(|place| place.open()),
        Local::Stdin => Source::standard_input(),
        Local::Zero(size) => Ok(Source::zero(Some(*size))),
        Local::Random(size) => Source::random(Some(*size)),
    };
    let payload = source.and_then(|source| Payload::source(source, plan.offset, plan.length));
    payload.and_then(Payload::sum).map_err(|error| failed("", &error, Side::Here))
}

fn there(sessions: &mut Sessions, url: &Url, plan: &SumPlan) -> Result<Digest, (Failure, ErrorKind)> {
    let (session, _) = sessions.with(url)?;
    let summed = session.sum(wire_name(url), plan.offset, plan.length);
    summed.map_err(|error| {
        let (failure, kind) = failed(&format!("{url}: "), &error, Side::Peer);
        let meant = if kind == ErrorKind::NotFound { meant(url, sessions) } else { None };
        (meant.into_iter().fold(failure, Failure::help), kind)
    })
}

/// FTP servers compute no BLAKE3: the file comes here, through a pipe, and is hashed here.
fn there_by_ftp(servers: &mut FtpServers, url: &Url, plan: &SumPlan) -> Result<Digest, (Failure, ErrorKind)> {
    let server = servers.with(url)?;
    let path = server.path(url);
    let told = |error: Error| failed(&format!("{url}: "), &error, Side::Peer);
    let looked = server.session.look(&path).map_err(|error| told(error_of(error)))?;
    let file = looked.filter(|entry| entry.kind == Kind::File);
    let file = file.ok_or_else(|| told(Error::new(ErrorKind::NotFound, "no such file")))?;
    let size = match file.size {
        Some(size) => size,
        None => server.session.client().size(&path).map_err(|error| told(error_of(error)))?,
    };
    let end = plan.length.map_or(size, |length| plan.offset.saturating_add(length));
    if plan.offset > end || end > size {
        return Err(told(Error::new(ErrorKind::OutOfRange, format!("the file has {size} bytes"))));
    }
    let pipe = std::io::pipe().map_err(|error| told(Error::new(ErrorKind::Resources, error.to_string())))?;
    let (receiver, mut sender) = pipe;
    let client = server.session.client();
    let (received, summed) = std::thread::scope(|scope| {
        let source = Source::new(StreamSource::new(receiver.into(), url.to_string()));
        let length = end - plan.offset;
        let summing = scope.spawn(move || Payload::source(source, 0, Some(length)).and_then(Payload::sum));
        let received = client.download(&path, Range { start: plan.offset, end: size }, &mut |at, bytes| {
            let wanted = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            sender.write_all(&bytes[..wanted])
        });
        drop(sender);
        let panicked = || Err(Error::new(ErrorKind::Resources, "hashing ended early"));
        (received, summing.join().unwrap_or_else(|_| panicked()))
    });
    if let Err(error) = received {
        servers.forget(url);
        return Err(told(error_of(error)));
    }
    summed.map_err(told)
}

/// Messages about local files name them already.
fn failed(before: &str, error: &Error, side: Side) -> (Failure, ErrorKind) {
    (Failure::new(Exit::of_error(error, side), format!("{before}{error}")), error.kind)
}

/// In the format of b3sum: a name with a backslash or a line break is escaped, and the line then
/// begins with a backslash.
fn line(hash: &str, name: &[u8]) -> String {
    let escaped: Vec<u8> = name
        .iter()
        .flat_map(|byte| match byte {
            b'\\' => b"\\\\".to_vec(),
            b'\n' => b"\\n".to_vec(),
            byte => vec![*byte],
        })
        .collect();
    let mark = if escaped.len() > name.len() { "\\" } else { "" };
    format!("{mark}{hash}  {}\n", printable(&escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_one_of_b3sum_and_commands_no_terminal() {
        for (name, expected) in [
            (&b"a b"[..], "af13  a b\n"),
            (b"a\nb", "\\af13  a\\nb\n"),
            (b"a\\b", "\\af13  a\\\\b\n"),
            (b"a\x1b[2J", "af13  a\\u{1b}[2J\n"),
        ] {
            assert_eq!(line("af13", name), expected);
        }
    }
}
