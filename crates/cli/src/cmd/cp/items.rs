//! Pairs each source with its target, as `cp` does: a directory receives the sources under their
//! names.
//!
//! The target was examined before; nothing here accesses a file.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::exit::{Exit, Failure};
use crate::plan::{Local, LocalTarget};
use crate::text::{printable, printable_path};
use crate::url::Url;

/// A local source and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Upload {
    pub(super) source: Local,
    pub(super) target: Url,
}

/// The name under which a source goes into a directory; none for 'x/.', '.', '..' and '/', whose contents do.
pub(super) fn own_name(path: &Path) -> Option<&OsStr> {
    path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/."))
}

/// A file on a server and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Download {
    pub(super) source: Url,
    pub(super) target: LocalTarget,
}

/// Whether the meaning of the command depends on the existing target of an upload: one source, and
/// a path that may name a file as well as a directory.
pub(super) fn target_may_be_either(sources: &[Local], target: &Url) -> bool {
    sources.len() == 1 && matches!(sources[0], Local::File(_)) && !target.directory && !target.path.is_root()
}

/// Pairs of an upload; a source that cannot be paired has its failure instead.
pub(super) fn uploads(sources: &[Local], target: &Url, into_directory: bool) -> Vec<Result<Upload, Failure>> {
    let into_directory = into_directory || sources.len() > 1 || target.directory || target.path.is_root();
    if !into_directory {
        let one = |source: &Local| Ok(Upload { source: source.clone(), target: target.clone() });
        return sources.iter().map(one).collect();
    }
    let mut taken: HashSet<&[u8]> = HashSet::with_capacity(sources.len());
    sources.iter().map(|source| upload_into(source, target, &mut taken)).collect()
}

fn upload_into<'a>(source: &'a Local, directory: &Url, taken: &mut HashSet<&'a [u8]>) -> Result<Upload, Failure> {
    // The plan lets only files go into a directory; a directory that was not seen to be one then
    // needs a name, too.
    let Local::File(path) = source else {
        let message =
            format!("{directory}: this is a directory\nhelp: name the file that standard input or zeros become");
        return Err(Failure::new(Exit::Usage, message));
    };
    let name = own_name(path).map(OsStr::as_bytes).ok_or_else(|| {
        let message = format!("{}: this names a directory\nhelp: copy it with -r", printable_path(path));
        Failure::new(Exit::Usage, message)
    })?;
    take(name, taken, || (printable_path(path), directory.to_string()))?;
    let target = directory.join(name).map_err(|error| {
        Failure::new(Exit::Usage, format!("{}: the server could not name it: {error}", printable_path(path)))
    })?;
    Ok(Upload { source: source.clone(), target })
}

/// Pairs of a download; a source that cannot be paired has its failure instead.
pub(super) fn downloads(sources: &[Url], target: &LocalTarget, into_directory: bool) -> Vec<Result<Download, Failure>> {
    let directory = match target {
        LocalTarget::Path(path) if into_directory => path,
        _ => {
            let one = |source: &Url| Ok(Download { source: source.clone(), target: target.clone() });
            return sources.iter().map(one).collect();
        }
    };
    let mut taken: HashSet<&[u8]> = HashSet::with_capacity(sources.len());
    sources.iter().map(|source| download_into(source, directory, &mut taken)).collect()
}

fn download_into<'a>(source: &'a Url, directory: &Path, taken: &mut HashSet<&'a [u8]>) -> Result<Download, Failure> {
    let name = source
        .name()
        .filter(|_| !source.contents)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("{source}: this names a directory\nhelp: copy it with -r")))?;
    take(name, taken, || (source.to_string(), printable_path(directory)))?;
    // One component without a slash and not '..': `RelPath` holds nothing else, so it stays in the
    // directory.
    let target = LocalTarget::Path(directory.join(OsStr::from_bytes(name)));
    Ok(Download { source: source.clone(), target })
}

/// The target of a server's file in a directory of another server.
pub(super) fn url_into<'a>(source: &'a Url, directory: &Url, taken: &mut HashSet<&'a [u8]>) -> Result<Url, Failure> {
    let nameless = || Failure::new(Exit::Usage, format!("{source}: this names a directory"));
    let name = source.name().ok_or_else(nameless)?;
    take(name, taken, || (source.to_string(), directory.to_string()))?;
    directory
        .join(name)
        .map_err(|error| Failure::new(Exit::Usage, format!("{source}: the server could not name it: {error}")))
}

/// Of two sources with one name the second would replace the first, as if that had never been
/// copied.
fn take<'a>(
    name: &'a [u8],
    taken: &mut HashSet<&'a [u8]>,
    shown: impl Fn() -> (String, String),
) -> Result<(), Failure> {
    if !taken.insert(name) {
        let (source, directory) = shown();
        let message = format!(
            "{source}: another source was copied to {directory} as {} already\nhelp: copy this one under another name",
            printable(name)
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(OsStr::new(text)).unwrap()
    }

    fn file(path: &str) -> Local {
        Local::File(path.into())
    }

    fn upload_targets(sources: &[Local], target: &str, into_directory: bool) -> Vec<Result<String, Exit>> {
        uploads(sources, &url(target), into_directory)
            .into_iter()
            .map(|upload| upload.map(|upload| upload.target.to_string()).map_err(|failure| failure.exit))
            .collect()
    }

    #[test]
    fn one_file_becomes_the_target_or_goes_into_it() {
        let sources = [file("/tmp/a b.bin")];
        assert_eq!(upload_targets(&sources, "xdfs://h/e/x", false), [Ok("xdfs://h/e/x".to_owned())]);
        assert_eq!(upload_targets(&sources, "xdfs://h/e/x", true), [Ok("xdfs://h/e/x/a%20b.bin".to_owned())]);
        assert_eq!(upload_targets(&sources, "xdfs://h/e/x/", false), [Ok("xdfs://h/e/x/a%20b.bin".to_owned())]);
        assert_eq!(upload_targets(&sources, "xdfs://h/e", false), [Ok("xdfs://h/e/a%20b.bin".to_owned())]);
    }

    #[test]
    fn what_has_no_name_of_its_own_cannot_go_into_a_directory() {
        assert_eq!(upload_targets(&[Local::Stdin], "xdfs://h/e/x", true), [Err(Exit::Usage)]);
        assert_eq!(upload_targets(&[Local::Zero(5)], "xdfs://h/e/x", true), [Err(Exit::Usage)]);
        assert_eq!(upload_targets(&[file("..")], "xdfs://h/e/x", true), [Err(Exit::Usage)]);
        assert_eq!(upload_targets(&[file("/")], "xdfs://h/e/x", true), [Err(Exit::Usage)]);
    }

    #[test]
    fn the_second_source_of_a_name_is_refused_and_the_others_go_on() {
        let sources = [file("a/x"), file("b/x"), file("b/y")];
        let expected = [Ok("xdfs://h/e/d/x".to_owned()), Err(Exit::Usage), Ok("xdfs://h/e/d/y".to_owned())];
        assert_eq!(upload_targets(&sources, "xdfs://h/e/d", false), expected);
        let sources = [url("xdfs://h/e/x"), url("xdfs://g/e/x")];
        let results = downloads(&sources, &LocalTarget::Path("d".into()), true);
        assert!(results[0].is_ok() && results[1].is_err());
    }

    #[test]
    fn downloads_go_into_a_directory_under_their_names_and_nowhere_else() {
        let sources = [url("xdfs://h/e/d/%2e%2e%2e"), url("xdfs://h/e/a%20b")];
        let targets: Vec<_> = downloads(&sources, &LocalTarget::Path("d".into()), true)
            .into_iter()
            .map(|download| download.unwrap().target)
            .collect();
        assert_eq!(targets, [LocalTarget::Path("d/...".into()), LocalTarget::Path("d/a b".into())]);
        for target in [LocalTarget::Null, LocalTarget::Stdout, LocalTarget::Path("f".into())] {
            let result = downloads(&sources[1..], &target, false);
            assert_eq!(result, [Ok(Download { source: sources[1].clone(), target })]);
        }
    }
}
