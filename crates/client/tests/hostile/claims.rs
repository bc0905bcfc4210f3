//! A server that claims what it does not have: bytes of an earlier attempt, or a file that is committed. The client ends well only
//! where the server knows the hash of the client's own bytes, and said so behind FINISH.

use super::liar::{HONEST, Lie, with_liar};
use super::raw::RawChannel;
use super::support::{BLOCK, PATIENCE, Scratch, pattern, upload_of};
use xdfs_client::{Error, ErrorKind, Level, PutOptions, Report, Session, Verify};
use xdfs_proto::base::{Digest, Extent};
use xdfs_proto::wire::control::{Ack, Control, Grant, Safety};
use xdfs_secure::content::Tree;

const LENGTH: usize = 8 << 20;

/// What such a server does when it has read the request, and knows the right hash.
type Claim = fn(&mut RawChannel, Level, Digest);

fn uploaded(level: Level, verify: Verify, claim: Claim) -> Result<Report, Error> {
    let scratch = Scratch::new();
    let content = pattern(LENGTH, 7);
    let path = scratch.write("file", &content);
    let digest = xdfs_secure::content::hash(&content);
    let then = move |channel: &mut RawChannel| {
        channel.read().expect("the request");
        claim(channel, level, digest);
    };
    with_liar(level, Lie { accept: HONEST, then: Box::new(then) }, |options| {
        let session = Session::connect(options).unwrap();
        let put = PutOptions { verify, durable: true, resume: true, ..PutOptions::default() };
        session.put(upload_of(&path), "data/file", &put).unwrap().wait_for(PATIENCE).expect("an outcome")
    })
}

/// The server grants, and claims to have `kept`.
fn grant(channel: &mut RawChannel, level: Level, kept: u64) {
    granted(channel, level, kept, None);
}

/// The same, of which it says that it doubts it: as servers did that cannot compare blinded hashes, or as one that can.
fn granted(channel: &mut RawChannel, level: Level, kept: u64, doubts: Option<Doubts>) {
    let range = |to| vec![Extent::new(0, to).unwrap()];
    channel.control(
        1,
        &Control::Grant(Grant {
            level,
            block: BLOCK as u32,
            credit_limit: LENGTH as u64,
            length: Some(LENGTH as u64),
            ranges: range(LENGTH as u64),
            kept: if kept > 0 { range(kept) } else { Vec::new() },
            hash: true,
            unverified: doubts.is_some(),
            blinded: doubts == Some(Doubts::Blinded),
            ..Grant::default()
        }),
    );
}

#[derive(Clone, Copy, PartialEq)]
enum Doubts {
    Plain,
    Blinded,
}

/// What a liar can make of FINISH: the hash of the whole, or one that fits the values of its parts.
fn gathered(channel: &mut RawChannel) -> Digest {
    let finish = channel.until("FINISH", |_, control| match control {
        Control::Finish(finish) => Some(finish),
        _ => None,
    });
    let mut tree = Tree::new(u64::MAX >> 1);
    // All but the last step, which makes the root.
    let half = LENGTH as u64 / 2;
    let (left, right): (Vec<_>, Vec<_>) = finish.subtrees.into_iter().partition(|one| one.extent.end() <= half);
    left.into_iter().for_each(|one| assert!(tree.adopt(one)));
    let mut beside = Tree::new(half);
    right.into_iter().for_each(|one| assert!(beside.adopt(one)));
    let beside: Vec<_> = beside.subtrees().collect();
    finish.root.or_else(|| tree.root(LENGTH as u64, &beside)).unwrap_or([2; 32])
}

fn committed(channel: &mut RawChannel, root: Option<Digest>) {
    let (length, version) = (LENGTH as u64, b"v".to_vec());
    channel.control(1, &Control::Committed { length, safety: Safety::Durable, version, root });
}

fn committed_behind_finish(channel: &mut RawChannel, root: Digest) {
    assert_eq!(finished(channel), None, "of what the server claimed it tells nothing");
    committed(channel, Some(root));
}

/// What FINISH says of the whole.
fn finished(channel: &mut RawChannel) -> Option<Digest> {
    channel.until("FINISH", |_, control| match control {
        Control::Finish(finish) => Some(finish.root),
        _ => None,
    })
}

/// The server takes so many bytes of blocks, and acknowledges all of the file.
fn takes(channel: &mut RawChannel, left: usize) {
    takes_again(channel, left, 0);
}

/// The same of a repetition.
fn takes_again(channel: &mut RawChannel, mut left: usize, round: u16) {
    while left > 0 {
        let (_, payload) = channel.read().expect("a block");
        // Nothing else is as long as a block.
        left -= if payload.len() == BLOCK { BLOCK } else { 0 };
    }
    let (low, edge) = (LENGTH as u64, LENGTH as u64);
    channel.control(
        1,
        &Control::Ack(Ack { safety: Safety::Written, contiguous: low, credit_limit: edge, ranges: Vec::new(), round }),
    );
}

const EARLY: &[ErrorKind] = &[ErrorKind::Protocol];
const OTHER: &[ErrorKind] = &[ErrorKind::Corrupted];
const EITHER: &[ErrorKind] = &[ErrorKind::Protocol, ErrorKind::Corrupted];

const LIES: &[(&str, Claim, &[ErrorKind])] = &[
    ("committed before it was granted", |c, _, right| committed(c, Some(right)), EARLY),
    (
        "committed right behind GRANT, without a hash",
        |c, level, _| {
            grant(c, level, 0);
            committed(c, None);
        },
        EARLY,
    ),
    (
        "committed right behind GRANT, with a wrong hash",
        |c, level, _| {
            grant(c, level, 0);
            committed(c, Some([1; 32]));
        },
        EARLY,
    ),
    (
        "committed all that it claims to have, before FINISH",
        // Whether FINISH has left by then, nobody knows.
        |c, level, _| {
            grant(c, level, LENGTH as u64);
            committed(c, Some([1; 32]));
        },
        EITHER,
    ),
    (
        "claims to have all, and knows no hash",
        |c, level, _| {
            grant(c, level, LENGTH as u64);
            finished(c);
            committed(c, None);
        },
        EARLY,
    ),
    (
        "claims to have half, and says what FINISH said",
        |c, level, _| {
            grant(c, level, LENGTH as u64 / 2);
            takes(c, LENGTH / 2);
            let said = finished(c);
            committed(c, said.or(Some([2; 32])));
        },
        OTHER,
    ),
    (
        "claims to have all, doubts it, and says what FINISH said",
        |c, level, _| {
            granted(c, level, LENGTH as u64, Some(Doubts::Plain));
            let said = gathered(c);
            committed(c, Some(said));
        },
        OTHER,
    ),
    (
        "claims to have all, doubts it, and says what blinded hashes say",
        |c, level, _| {
            granted(c, level, LENGTH as u64, Some(Doubts::Blinded));
            let said = gathered(c);
            committed(c, Some(said));
        },
        OTHER,
    ),
    (
        "claims to have half, doubts it, and says what FINISH said",
        |c, level, _| {
            granted(c, level, LENGTH as u64 / 2, Some(Doubts::Plain));
            takes(c, LENGTH / 2);
            let said = gathered(c);
            committed(c, Some(said));
        },
        OTHER,
    ),
    (
        "took all, and says another hash",
        |c, level, _| {
            grant(c, level, 0);
            takes(c, LENGTH);
            finished(c);
            committed(c, Some([3; 32]));
        },
        OTHER,
    ),
];

#[test]
fn a_server_that_claims_what_it_does_not_have_is_not_believed() {
    for level in [Level::Clear, Level::Private] {
        for (what, claim, kinds) in LIES {
            for verify in [Verify::Hash, Verify::Reread] {
                match uploaded(level, verify, *claim) {
                    Ok(report) => panic!("{level:?}: a server that {what} was believed: {report:?}"),
                    Err(error) => assert!(kinds.contains(&error.kind), "{level:?}, {what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn without_a_hash_committed_still_comes_behind_finish() {
    let unhashed: Claim = |c, level, _| {
        c.control(
            1,
            &Control::Grant(Grant {
                level,
                block: BLOCK as u32,
                credit_limit: LENGTH as u64,
                length: Some(LENGTH as u64),
                ranges: vec![Extent::new(0, LENGTH as u64).unwrap()],
                ..Grant::default()
            }),
        );
        committed(c, None);
    };
    let error = uploaded(Level::Private, Verify::None, unhashed).expect_err("nothing was sent");
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
}

#[test]
fn a_server_that_knows_the_hash_of_what_it_has_is_believed() {
    for level in [Level::Clear, Level::Private] {
        let honest: Claim = |c, level, right| {
            grant(c, level, LENGTH as u64);
            assert_eq!(finished(c), None, "FINISH would tell a liar what to say");
            committed(c, Some(right));
        };
        assert_eq!(uploaded(level, Verify::Hash, honest).unwrap().length, LENGTH as u64);
        let honest: Claim = |c, level, right| {
            grant(c, level, 0);
            takes(c, LENGTH);
            assert_eq!(finished(c), Some(right));
            committed(c, Some(right));
        };
        uploaded(level, Verify::Hash, honest).unwrap();
        // One that doubts what it has, and finds that it is what the client has.
        let honest: Claim = |c, level, right| {
            granted(c, level, LENGTH as u64, Some(Doubts::Blinded));
            assert_ne!(gathered(c), right, "FINISH would tell a liar what to say");
            committed(c, Some(right));
        };
        uploaded(level, Verify::Hash, honest).unwrap();
    }
}

#[test]
fn an_earlier_server_that_doubts_what_it_has_gets_it_again() {
    // It finds values of its own for which FINISH has none.
    let earlier: Claim = |c, level, right| {
        granted(c, level, LENGTH as u64, Some(Doubts::Plain));
        let finish = c.until("FINISH", |_, control| match control {
            Control::Finish(finish) => Some(finish),
            _ => None,
        });
        assert_eq!((finish.root, finish.subtrees.len()), (None, 0));
        c.control(1, &Control::Again { round: 1, ranges: vec![Extent::new(0, LENGTH as u64).unwrap()] });
        takes_again(c, LENGTH, 1);
        committed_behind_finish(c, right);
    };
    uploaded(Level::Private, Verify::Hash, earlier).unwrap();
}
