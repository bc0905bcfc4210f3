//! What an attacker on the path can do to records, and that each of it is refused; through the public interface alone.

use xdfs_proto::base::{ChannelId, Level, SessionId};
use xdfs_secure::Error;
use xdfs_secure::keys::{ChannelKeys, GrantSecret, JoinSecret, Role, RoleKeys};
use xdfs_secure::record::{HEAD_BYTES, Limits, Opener, Sealer, TAG_BYTES, Tag};

const LEVELS: [Level; 3] = [Level::Clear, Level::Integrity, Level::Private];
/// No multiple of a cipher block, and longer than the wide paths of the cipher need.
const PAYLOAD_BYTES: usize = 1003;

type Outcome = Result<(), Error>;

fn keys(channel: u16, role: Role) -> Result<RoleKeys, Error> {
    let keys = ChannelKeys::derive(
        &JoinSecret::new(&[1; 32]),
        &GrantSecret::new(&[2; 32]),
        SessionId([3; 16]),
        ChannelId(channel),
    )?;
    Ok(keys.for_role(role))
}

/// The client's sealer and the server's opener of one channel.
fn pair_with(channel: u16, limits: Limits) -> Result<(Sealer, Opener), Error> {
    let sealer = Sealer::new(keys(channel, Role::Client)?.seal, limits)?;
    Ok((sealer, Opener::new(keys(channel, Role::Server)?.open, limits)?))
}

fn pair() -> Result<(Sealer, Opener), Error> {
    pair_with(1, Limits::STANDARD)
}

/// Head and payload with recognisable bytes.
fn plain(seed: u8) -> Vec<u8> {
    (0..HEAD_BYTES + PAYLOAD_BYTES).map(|index| (index as u8).wrapping_mul(7) ^ seed).collect()
}

/// A record as it crosses the wire.
#[derive(Clone)]
struct Sealed {
    headed: Vec<u8>,
    tag: Tag,
}

fn seal(sealer: &mut Sealer, level: Level, seed: u8) -> Result<Sealed, Error> {
    let mut headed = plain(seed);
    let tag = sealer.seal(level, &mut headed)?;
    Ok(Sealed { headed, tag })
}

impl Sealed {
    fn open(&self, opener: &mut Opener, level: Level) -> Result<Vec<u8>, Error> {
        let mut headed = self.headed.clone();
        opener.open(level, &mut headed, &self.tag).map(|()| headed)
    }
}

#[test]
fn records_of_all_levels_alternate_under_one_sequence() -> Outcome {
    let (mut sealer, mut opener) = pair()?;
    for round in 0..30u8 {
        let level = LEVELS[round as usize % 3];
        assert_eq!((sealer.sequence(), opener.sequence()), (round.into(), round.into()));
        assert_eq!(seal(&mut sealer, level, round)?.open(&mut opener, level)?, plain(round));
    }
    Ok(())
}

#[test]
fn only_private_hides_the_payload_and_no_level_hides_the_head() -> Outcome {
    for level in LEVELS {
        let sealed = seal(&mut pair()?.0, level, 5)?.headed;
        assert_eq!(sealed[..HEAD_BYTES], plain(5)[..HEAD_BYTES]);
        assert_eq!(sealed[HEAD_BYTES..] == plain(5)[HEAD_BYTES..], level != Level::Private, "{level:?}");
    }
    Ok(())
}

#[test]
fn the_calls_per_level_do_what_the_common_call_does() -> Outcome {
    let (mut common, mut opener) = pair()?;
    let (mut single, _) = pair()?;
    let head: [u8; HEAD_BYTES] = std::array::from_fn(|index| plain(1)[index]);
    let clear = seal(&mut common, Level::Clear, 1)?;
    assert_eq!(clear.tag, single.seal_clear(&head)?);
    opener.open_clear(&head, &clear.tag)?;
    let integrity = seal(&mut common, Level::Integrity, 2)?;
    assert_eq!(integrity.tag, single.seal_integrity(&plain(2))?);
    let private = seal(&mut common, Level::Private, 3)?;
    let mut headed = plain(3);
    assert_eq!(private.tag, single.seal_private(&mut headed)?);
    assert_eq!(private.headed, headed);
    assert_eq!(integrity.open(&mut opener, Level::Integrity)?, plain(2));
    assert_eq!(private.open(&mut opener, Level::Private)?, plain(3));
    Ok(())
}

#[test]
fn a_flipped_bit_is_refused_wherever_the_level_protects() -> Outcome {
    for level in LEVELS {
        let sealed = seal(&mut pair()?.0, level, 9)?;
        for byte in 0..sealed.headed.len() {
            let mut altered = sealed.clone();
            altered.headed[byte] ^= 1 << (byte % 8);
            let result = altered.open(&mut pair()?.1, level);
            // At `clear` the payload is outside the tag: that is what the level means.
            if level == Level::Clear && byte >= HEAD_BYTES {
                assert_eq!(result, Ok(altered.headed), "{level:?}, byte {byte}");
            } else {
                assert_eq!(result, Err(Error::BadTag), "{level:?}, byte {byte}");
            }
        }
        for byte in 0..TAG_BYTES {
            let mut altered = sealed.clone();
            altered.tag[byte] ^= 1 << (byte % 8);
            assert_eq!(altered.open(&mut pair()?.1, level), Err(Error::BadTag), "{level:?}, tag byte {byte}");
        }
    }
    Ok(())
}

#[test]
fn a_payload_of_another_length_is_refused_where_it_is_protected() -> Outcome {
    for level in [Level::Integrity, Level::Private] {
        let sealed = seal(&mut pair()?.0, level, 9)?;
        for length in [HEAD_BYTES, HEAD_BYTES + 1, sealed.headed.len() - 1, sealed.headed.len() + 1] {
            let mut altered = sealed.clone();
            altered.headed.resize(length, 0);
            assert_eq!(altered.open(&mut pair()?.1, level), Err(Error::BadTag), "{level:?}, {length} bytes");
        }
    }
    Ok(())
}

#[test]
fn a_reordered_record_is_refused() -> Outcome {
    for level in LEVELS {
        let (mut sealer, mut opener) = pair()?;
        let _first = seal(&mut sealer, level, 1)?;
        let second = seal(&mut sealer, level, 2)?;
        assert_eq!(second.open(&mut opener, level), Err(Error::BadTag));
    }
    Ok(())
}

#[test]
fn a_repeated_record_is_refused() -> Outcome {
    for level in LEVELS {
        let (mut sealer, mut opener) = pair()?;
        let record = seal(&mut sealer, level, 1)?;
        record.open(&mut opener, level)?;
        assert_eq!(record.open(&mut opener, level), Err(Error::BadTag));
    }
    Ok(())
}

#[test]
fn a_record_sent_back_to_its_sender_is_refused() -> Outcome {
    for level in LEVELS {
        let record = seal(&mut pair()?.0, level, 1)?;
        let mut client_opener = Opener::new(keys(1, Role::Client)?.open, Limits::STANDARD)?;
        assert_eq!(record.open(&mut client_opener, level), Err(Error::BadTag));
    }
    Ok(())
}

#[test]
fn a_record_moved_to_another_channel_is_refused() -> Outcome {
    for level in LEVELS {
        let record = seal(&mut pair()?.0, level, 1)?;
        let (_, mut other) = pair_with(2, Limits::STANDARD)?;
        assert_eq!(record.open(&mut other, level), Err(Error::BadTag));
    }
    Ok(())
}

#[test]
fn a_record_opened_at_another_level_is_refused() -> Outcome {
    for sealed_at in LEVELS {
        for opened_at in LEVELS.into_iter().filter(|&level| level != sealed_at) {
            let record = seal(&mut pair()?.0, sealed_at, 1)?;
            assert_eq!(record.open(&mut pair()?.1, opened_at), Err(Error::BadTag), "{sealed_at:?} as {opened_at:?}");
        }
    }
    Ok(())
}

#[test]
fn a_record_of_the_wrong_epoch_is_refused() -> Outcome {
    for level in LEVELS {
        let (mut sealer, mut opener) = pair()?;
        let old = seal(&mut sealer, level, 1)?;
        sealer.rekey()?;
        let new = seal(&mut sealer, level, 1)?;
        assert_eq!(new.open(&mut pair()?.1, level), Err(Error::BadTag), "too early");
        opener.rekey()?;
        assert_eq!(old.open(&mut opener, level), Err(Error::BadTag), "too late");
    }
    Ok(())
}

#[test]
fn an_opener_that_met_a_bad_record_opens_nothing_more() -> Outcome {
    for level in LEVELS {
        let (mut sealer, mut opener) = pair()?;
        let good = seal(&mut sealer, level, 1)?;
        let mut bad = good.clone();
        bad.tag[0] ^= 1;
        assert_eq!(bad.open(&mut opener, level), Err(Error::BadTag));
        assert_eq!(good.open(&mut opener, level), Err(Error::Poisoned));
        assert_eq!(opener.rekey(), Err(Error::Poisoned));
        assert_eq!(good.open(&mut opener, level), Err(Error::Poisoned));
        assert_eq!(opener.open_clear(&[0; HEAD_BYTES], &good.tag), Err(Error::Poisoned));
        assert_eq!(opener.sequence(), 0);
    }
    Ok(())
}

#[test]
fn no_plain_text_of_a_refused_record_is_left_in_the_buffer() -> Outcome {
    let (mut sealer, mut opener) = pair()?;
    let mut record = seal(&mut sealer, Level::Private, 1)?;
    record.tag[15] ^= 1;
    assert_eq!(opener.open(Level::Private, &mut record.headed, &record.tag), Err(Error::BadTag));
    assert!(record.headed[HEAD_BYTES..].iter().all(|&byte| byte == 0));
    Ok(())
}

#[test]
fn a_slice_shorter_than_a_head_is_an_error_and_spends_no_sequence() -> Outcome {
    for level in LEVELS {
        let (mut sealer, mut opener) = pair()?;
        assert_eq!(sealer.seal(level, &mut [0; HEAD_BYTES - 1]), Err(Error::NoHead));
        assert_eq!(sealer.sequence(), 0);
        assert_eq!(opener.open(level, &mut [0; HEAD_BYTES - 1], &[0; TAG_BYTES]), Err(Error::NoHead));
        // A head alone is a record.
        let tag = sealer.seal(level, &mut [7; HEAD_BYTES])?;
        pair()?.1.open(level, &mut [7; HEAD_BYTES], &tag)?;
    }
    Ok(())
}

#[test]
fn an_epoch_takes_its_limit_of_records_and_not_one_more() -> Outcome {
    let limits = Limits { records: 3, ..Limits::STANDARD };
    let (mut sealer, mut opener) = pair_with(1, limits)?;
    for epoch in 0..5 {
        assert_eq!((sealer.epoch(), opener.epoch()), (epoch, epoch));
        for (sequence, level) in LEVELS.into_iter().enumerate() {
            // The third is the record that announces the next epoch.
            assert_eq!(sealer.rekey_due(PAYLOAD_BYTES), sequence == 2);
            assert_eq!(sealer.sequence(), sequence as u64);
            assert_eq!(seal(&mut sealer, level, epoch as u8)?.open(&mut opener, level)?, plain(epoch as u8));
        }
        let mut untouched = plain(1);
        assert_eq!(sealer.seal(Level::Private, &mut untouched), Err(Error::EpochFull));
        assert_eq!(untouched, plain(1), "nothing is sealed beyond the limit");
        assert_eq!(sealer.sequence(), 3);
        sealer.rekey()?;
        opener.rekey()?;
    }
    Ok(())
}

#[test]
fn the_last_epoch_that_a_head_can_name_has_no_successor() -> Outcome {
    let (mut sealer, mut opener) = pair()?;
    for _ in 0..u16::MAX {
        sealer.rekey()?;
        opener.rekey()?;
    }
    assert_eq!(seal(&mut sealer, Level::Private, 1)?.open(&mut opener, Level::Private)?, plain(1));
    assert_eq!((sealer.rekey(), opener.rekey()), (Err(Error::EpochFull), Err(Error::EpochFull)));
    assert_eq!(sealer.sequence(), 1, "no nonce comes back");
    Ok(())
}

#[test]
fn an_epoch_takes_its_limit_of_bytes_and_not_one_more() -> Outcome {
    let record = (HEAD_BYTES + PAYLOAD_BYTES) as u64;
    let limits = Limits { bytes: 2 * record + HEAD_BYTES as u64, ..Limits::STANDARD };
    let (mut sealer, mut opener) = pair_with(1, limits)?;
    for level in [Level::Private, Level::Integrity] {
        assert!(!sealer.rekey_due(PAYLOAD_BYTES));
        seal(&mut sealer, level, 1)?.open(&mut opener, level)?;
    }
    assert!(sealer.rekey_due(0));
    assert_eq!(seal(&mut sealer, Level::Private, 1).err(), Some(Error::EpochFull));
    // A payload at `clear` passes the cipher by and counts nothing, so a head alone still fits.
    seal(&mut sealer, Level::Clear, 1)?.open(&mut opener, Level::Clear)?;
    assert_eq!(seal(&mut sealer, Level::Clear, 1).err(), Some(Error::EpochFull));
    sealer.rekey()?;
    assert!(!sealer.rekey_due(PAYLOAD_BYTES));
    Ok(())
}

#[test]
fn a_peer_that_passes_the_limit_is_cut_off() -> Outcome {
    let (mut sealer, _) = pair()?;
    let (_, mut opener) = pair_with(1, Limits { records: 3, ..Limits::STANDARD })?;
    for level in LEVELS {
        seal(&mut sealer, level, 1)?.open(&mut opener, level)?;
    }
    let fourth = seal(&mut sealer, Level::Clear, 1)?;
    assert_eq!(fourth.open(&mut opener, Level::Clear), Err(Error::EpochFull));
    assert_eq!(fourth.open(&mut opener, Level::Clear), Err(Error::Poisoned));
    Ok(())
}

#[test]
fn records_under_other_keys_never_look_alike() -> Outcome {
    let mut tags = Vec::new();
    for channel in [1, 2, 256] {
        for role in [Role::Client, Role::Server] {
            let mut sealer = Sealer::new(keys(channel, role)?.seal, Limits::STANDARD)?;
            for _ in 0..2 {
                for _ in 0..3 {
                    tags.push(sealer.seal_clear(&[0; HEAD_BYTES])?);
                }
                sealer.rekey()?;
            }
        }
    }
    let count = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!((tags.len(), count), (36, 36));
    Ok(())
}
