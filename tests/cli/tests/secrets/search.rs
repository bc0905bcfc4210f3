//! Everything that was said, and what must not be in it in any form.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::process::Pid;
use xdfs_test_cli::Outcome;

/// Shorter secrets would be found by chance.
const CANARY_BYTES_MIN: usize = 16;

/// Searches all recorded output for secrets in any encoding.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) said: Vec<(String, Vec<u8>)>,
    canaries: BTreeSet<Vec<u8>>,
}

impl Search {
    /// This is a secret.
    pub(crate) fn canary(&mut self, secret: impl AsRef<[u8]>) {
        let secret = secret.as_ref();
        assert!(secret.len() >= CANARY_BYTES_MIN, "'{}' is too short to be looked for", secret.escape_ascii());
        self.canaries.insert(secret.to_vec());
    }

    /// Both outputs of a command.
    pub(crate) fn keep(&mut self, what: &str, outcome: &Outcome) {
        self.said.push((format!("{what}: standard output"), outcome.output.clone()));
        self.said.push((format!("{what}: standard error"), outcome.messages.clone().into_bytes()));
    }

    /// What anybody on the machine sees of a process and of what it started: words for all, variables for those that it
    /// started (its own are its caller's). How many processes these were.
    pub(crate) fn keep_processes(&mut self, first: Pid) -> usize {
        let first = first.as_raw_nonzero().get();
        let family = family(first);
        let words = |process: i32| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let own = words(first);
        for process in &family {
            let words = words(*process);
            // Until a process has become another program it shows what its parent has.
            if *process != first
                && words != own
                && let Ok(variables) = std::fs::read(format!("/proc/{process}/environ"))
            {
                self.said.push((format!("variables of process {process}"), variables));
            }
            self.said.push((format!("words of process {process}"), words));
        }
        family.len()
    }

    /// All files below a folder, but for those that `holds` says to hold a secret on purpose.
    pub(crate) fn keep_files(&mut self, folder: &Path, holds: impl Fn(&Path) -> bool) {
        let mut found = Vec::new();
        files(folder, &mut found);
        for path in found.into_iter().filter(|path| !holds(path)) {
            self.said.push((path.display().to_string(), std::fs::read(&path).expect("it was listed")));
        }
    }

    /// Fails where a secret is: as it is, as text of any usual kind, or within base64 of something longer.
    pub(crate) fn look(&self) {
        assert!(!self.canaries.is_empty());
        for canary in &self.canaries {
            let forms = forms(canary);
            for (what, bytes) in &self.said {
                for form in &forms {
                    let found = memmem::find(bytes, form).is_some();
                    assert!(
                        !found,
                        "'{}' is in {what}:\n{}",
                        form.escape_ascii(),
                        String::from_utf8_lossy(bytes).escape_debug()
                    );
                }
            }
        }
    }

    /// The secrets, but for these, that are in the memory of a process, each with where it is.
    pub(crate) fn in_memory_of(&self, process: Pid, but: &[Vec<u8>]) -> Vec<String> {
        let searches: Vec<_> =
            self.canaries.iter().filter(|canary| !but.contains(canary)).map(memmem::Finder::new).collect();
        let process = process.as_raw_nonzero();
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("the process is there");
        let mut memory = std::fs::File::open(format!("/proc/{process}/mem")).expect("whoever runs tests may look");
        let mut found = BTreeSet::new();
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (from, until) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let [from, until] = [from, until].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            let mut bytes = Vec::new();
            memory.seek(SeekFrom::Start(from)).expect("an address");
            // A part of it may not be readable, as that of a device.
            let _ = (&memory).take(until - from).read_to_end(&mut bytes);
            for search in searches.iter().filter(|search| search.find(&bytes).is_some()) {
                let region = line.split_whitespace().nth(5).unwrap_or("no name");
                found.insert(format!("{} in {region}", hex(search.needle())));
            }
        }
        found.into_iter().collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A secret as it may be shown.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let lower = hex(secret);
    let listed = secret.iter().map(u8::to_string).collect::<Vec<_>>();
    let mut forms =
        vec![secret.to_vec(), lower.to_uppercase().into_bytes(), listed.join(", ").into(), listed.join(",").into()];
    forms.push(lower.into_bytes());
    forms.push(secret.escape_ascii().to_string().into_bytes());
    for digits in [b"+/", b"-_"] {
        // Whatever stands before it in what was encoded: digits that depend on it alone are looked for.
        for before in 0..3 {
            let whole = base64(&[&vec![0; before][..], secret].concat(), *digits);
            let end = (before + secret.len()) * 8 / 6;
            forms.push(whole[(before * 8).div_ceil(6)..end].to_vec());
        }
    }
    forms
}

/// Base64 without padding, its last two digits as given.
fn base64(bytes: &[u8], last: [u8; 2]) -> Vec<u8> {
    let digits: Vec<u8> = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').chain(last).collect();
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let digit = |at: usize| (0..6).fold(0, |value, more| value << 1 | usize::from(bit(at * 6 + more)));
    (0..(bytes.len() * 8).div_ceil(6)).map(|at| digits[digit(at)]).collect()
}

/// A process and all that it started, and so on.
fn family(first: i32) -> Vec<i32> {
    let parents: Vec<(i32, i32)> = std::fs::read_dir("/proc")
        .expect("Linux has /proc")
        .filter_map(|entry| {
            let process = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let state = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // Behind the name, which may hold anything: state, parent.
            let parent = state.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((process, parent))
        })
        .collect();
    let mut family = vec![first];
    let mut next = 0;
    while next < family.len() {
        let one = family[next];
        family.extend(parents.iter().filter(|(_, parent)| *parent == one).map(|(process, _)| *process));
        next += 1;
    }
    family
}

/// All files below a folder.
pub(crate) fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    // What a program removes meanwhile is not there.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn a_secret_in_the_memory_of_a_process_is_found() {
    let mut search = Search::default();
    let (one, other) = (b"a secret that is here".to_vec(), b"another that is here".to_vec());
    [&one, &other].into_iter().for_each(|secret| search.canary(secret));
    let found = search.in_memory_of(rustix::process::getpid(), std::slice::from_ref(&other));
    assert!(!found.is_empty() && found.iter().all(|text| text.starts_with(&hex(&one))), "{found:?}");
}

#[test]
fn a_secret_is_found_in_every_form() {
    let secret: Vec<u8> = (0..32).map(|number| number * 7 + 3).collect();
    let around = |text: Vec<u8>| {
        let mut search = Search::default();
        search.canary(&secret);
        search.said.push(("a text".into(), [b"before ", &text[..], b" behind"].concat()));
        std::panic::catch_unwind(|| search.look()).is_err()
    };
    assert!(!around(Vec::new()));
    assert!(!around(secret[1..].to_vec()), "a part is not the secret");
    assert!(around(secret.clone()));
    assert!(around(format!("{secret:?}").into_bytes()));
    assert!(around(format!("{secret:02x?}").replace([',', ' '], "").into_bytes()));
    assert!(around(hex(&secret).to_uppercase().into_bytes()));
    for before in 0..5 {
        for digits in [b"+/", b"-_"] {
            let long = [&vec![0xfb; before][..], &secret, b"and more"].concat();
            assert!(around(base64(&long, *digits)), "{before} bytes before it");
        }
    }
    assert_eq!(base64(b"any carnal pleas", *b"+/"), b"YW55IGNhcm5hbCBwbGVhcw");
}
