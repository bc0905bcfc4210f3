//! `xdfs sum`: the BLAKE3 hashes of files, computed on the machine that holds them.

use std::os::unix::ffi::OsStrExt;

use xdfs_client::{Digest, Error, ErrorKind, Payload, hexadecimal};
use xdfs_io::store::{LocalPlace, Source};

use super::remote::{SessionRequest, Sessions, wire_name};
use crate::exit::{Exit, Failure, Side};
use crate::output::{JsonLines, SumLine, complain, print, told};
use crate::plan::{Local, SumOf, SumPlan};
use crate::text::printable;
use crate::url::Url;

/// Hashes every readable file; errors of the others are reported and do not stop it.
pub(crate) fn run(plan: &SumPlan) -> Result<Exit, Failure> {
    let mut sessions = Sessions::new(SessionRequest::default(), plan.login.clone());
    let mut exits = Vec::with_capacity(plan.files.len());
    for (of, typed) in &plan.files {
        let summed = match of {
            SumOf::Here(local) => here(local, plan),
            SumOf::There(url) => there(&mut sessions, url, plan),
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
                complain(&failure.message);
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
    Ok(Exit::of_all(&exits))
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
    summed.map_err(|error| failed(&format!("{url}: "), &error, Side::Peer))
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
