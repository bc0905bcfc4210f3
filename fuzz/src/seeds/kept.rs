//! Seeds of what is read from the machine: journals, agents' answers, certificates, users, and URLs.

use super::Seed;
use xdfs_secure::identity::KeyPair;
use xdfs_secure::identity::openssh::write_public;

pub(super) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    journals(&mut seeds);
    agents(&mut seeds);
    certificates(&mut seeds);
    users(&mut seeds);
    urls(&mut seeds);
    seeds
}

/// Records whose checks the target computes: kind, length, payload.
fn journals(seeds: &mut Vec<Seed>) {
    let record = |kind: u8, payload: &[u8]| -> Vec<u8> {
        let length = (payload.len() as u16).to_be_bytes();
        [&[kind], &length[..], payload].concat()
    };
    // Transfer, length, boot, device and inode, and two lengths with their bytes: the source's version and the owner.
    let about =
        [vec![7; 16], vec![0, 0, 0, 0, 0, 4, 0, 0], vec![9; 32], vec![0, 2, 1, 2, 0, 4], b"anna".to_vec()].concat();
    let range = |flags: u8, offset: u64, length: u64| {
        [vec![flags], offset.to_be_bytes().to_vec(), length.to_be_bytes().to_vec()].concat()
    };
    let value = [range(1, 65_536, 65_536), vec![3; 32]].concat();
    let present = record(2, &[range(0, 0, 65_536), value.clone(), range(2, 1 << 18, 1)].concat());
    let begun = record(1, &about);
    let whole = [begun.clone(), present.clone(), record(3, &2_u64.to_be_bytes()), record(2, &value)].concat();
    for (name, records) in [
        ("whole", whole.clone()),
        ("begun", begun.clone()),
        ("cut", whole[..whole.len() - 9].to_vec()),
        ("out-of-order", [present, begun.clone()].concat()),
        ("twice-begun", [begun.clone(), begun.clone()].concat()),
        ("unknown-kind", [begun.clone(), record(9, b"later")].concat()),
        ("range-past-the-end", [begun, record(2, &range(0, u64::MAX, 2))].concat()),
    ] {
        seeds.push(("journal", name.to_owned(), [&[1], &records[..]].concat()));
    }
    seeds.push((
        "journal",
        "no-check".to_owned(),
        [&[0], b"xdfsjnl1".as_slice(), &[0, 0, 0, 4, 1, 2, 3, 4, 1]].concat(),
    ));
}

fn agents(seeds: &mut Vec<Seed>) {
    let string = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let blob = |kind: &[u8], key: &[u8]| [string(kind), string(key)].concat();
    let key = |kind: &[u8], comment: &[u8]| [string(&blob(kind, &[5; 32])), string(comment)].concat();
    let answer = |count: u32, keys: &[Vec<u8>]| [&[12], &count.to_be_bytes()[..], &keys.concat()].concat();
    let (ours, other) = (key(b"ssh-ed25519", b"ada@laptop"), key(b"ssh-rsa", b"old"));
    let signature = [&[14], &string(&blob(b"ssh-ed25519", &[6; 64]))[..]].concat();
    for (name, bytes) in [
        ("two-keys", answer(2, &[ours.clone(), other])),
        ("no-keys", answer(0, &[])),
        ("too-many", answer(u32::MAX, std::slice::from_ref(&ours))),
        ("cut", answer(1, &[ours[..20].to_vec()])),
        ("control", answer(1, &[key(b"ssh-ed25519", b"\x1b[2J\xff")])),
        ("failure", vec![5]),
        ("signature", signature.clone()),
        ("signature-cut", signature[..40].to_vec()),
        ("signature-of-another-kind", [&[14], &string(&blob(b"ssh-rsa", &[6; 64]))[..]].concat()),
    ] {
        seeds.push(("agent", name.to_owned(), bytes));
    }
}

fn certificates(seeds: &mut Vec<Seed>) {
    let element = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let times = |from: (u8, &str), until: (u8, &str)| {
        element(0x30, &[element(from.0, from.1.as_bytes()), element(until.0, until.1.as_bytes())].concat())
    };
    let certificate = |version: &[u8], validity: &[u8]| {
        let before = [element(2, &[1]), element(0x30, &[6, 1, 1]), element(0x30, &[])].concat();
        element(0x30, &element(0x30, &[version, &before, validity].concat()))
    };
    let version = element(0xa0, &[2, 1, 2]);
    let (short, long) = ((0x17, "261120134726Z"), (0x18, "20501120134726Z"));
    let good = certificate(&version, &times(short, long));
    for (name, bytes) in [
        ("version-3", good.clone()),
        ("version-1", certificate(&[], &times(short, short))),
        ("cut", good[..good.len() - 10].to_vec()),
        ("long-form", [&[0x30, 0x84, 0, 0, 0, good.len() as u8], &good[..]].concat()),
        ("no-length", vec![0x30, 0x80, 0, 0]),
        ("bad-time", certificate(&version, &times((0x17, "26112013472Z"), long))),
        ("last-century", certificate(&version, &times((0x17, "991120134726Z"), short))),
    ] {
        seeds.push(("certificate", name.to_owned(), bytes));
    }
}

fn users(seeds: &mut Vec<Seed>) {
    let key = KeyPair::from_seed(&[5; 32]).expect("a seed").public();
    let line = write_public(&key, "ada@laptop").expect("a line");
    let token = format!(
        "[[user.anna.token]]\nkey = \"{line}\"\nexport = \"data\"\npath = \"run7\"\nwrite = true\nuntil = 17\n"
    );
    let anna = format!("version = 1\n\n[user.anna]\nkeys = [\"{line}\"]\n");
    for (name, text) in [
        ("one", anna.clone()),
        ("token", format!("{anna}{token}")),
        ("revoked", format!("{anna}revoked = true\n")),
        ("salts", format!("salts = \"AAAAAAAAAAAAAAAAAAAAAA==\"\n{anna}")),
        ("password", format!("{anna}password = \"SCRAM-SHA-256$600000:W22ZaJ0SNY7soEsUEjb6gQ==$AAAA:AAAA\"\n")),
        ("other-version", anna.replace("version = 1", "version = 2")),
        ("unknown", format!("{anna}shell = \"/bin/sh\"\n")),
        ("nobody", "version = 1\n".to_owned()),
        ("cut", anna[..anna.len() - 8].to_owned()),
    ] {
        seeds.push(("users", name.to_owned(), text.into_bytes()));
    }
}

fn urls(seeds: &mut Vec<Seed>) {
    let key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    for (name, text) in [
        ("whole", format!("xdfs://anna@[::1]:40001/data/run%207/image.bin#{key}")),
        ("host", "xdfs://localhost/data/".to_owned()),
        ("address", "xdfs://192.0.2.1:2799/data".to_owned()),
        ("escapes", "xdfs://h/data/%ff%2e%25/a%20b".to_owned()),
        ("up", "xdfs://h/data/../x".to_owned()),
        ("escaped-slash", "xdfs://h/data/a%2fb".to_owned()),
        ("bad-escape", "xdfs://h/data/%zz".to_owned()),
        ("password", "xdfs://a:b@h/data/x".to_owned()),
        ("port", "xdfs://h:99999/data/x".to_owned()),
        ("no-export", "xdfs://h".to_owned()),
        ("other-scheme", "http://h/data/x".to_owned()),
        ("server", "[::1]:2799".to_owned()),
        ("ftp", "ftp://anna%40site:a%2fb@h:2121//d/x/".to_owned()),
        ("gsiftp", "gsiftp://h/~/d/.".to_owned()),
    ] {
        seeds.push(("urls", name.to_owned(), text.into_bytes()));
    }
    seeds.push(("urls", "no-text".to_owned(), b"xdfs://h/data/\xff\xfe".to_vec()));
}
