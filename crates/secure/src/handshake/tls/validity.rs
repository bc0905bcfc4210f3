//! From when until when a certificate is good, out of its DER (RFC 5280, section 4.1.2.5).
//!
//! It must not look at a clock, nor judge anything else of a certificate: TLS does that, and whoever shows one asks here
//! before it does.

/// Two points in time, UTC, each as `2026-11-20 13:47:26`: earlier is less, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The first second at which the certificate is good.
    pub from: String,
    /// The last one.
    pub until: String,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

impl Validity {
    /// That of a certificate; none where its bytes are none.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (signed, _) = expect(SEQUENCE, certificate)?;
        let (mut fields, _) = expect(SEQUENCE, signed)?;
        // Left out where the version is 1.
        if let Some((_, behind)) = expect(VERSION, fields) {
            fields = behind;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            (.., fields) = element(fields)?;
        }
        let (validity, _) = expect(SEQUENCE, fields)?;
        let (from, behind) = time(validity)?;
        let (until, behind) = time(behind)?;
        behind.is_empty().then_some(Self { from, until })
    }
}

/// The first element: its tag, its content, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        // Without a length, or longer than any certificate.
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((*tag, content, behind))
}

fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, behind)| (content, behind))
}

/// A point in time in the one form of each kind that certificates may have: to the second, in UTC.
fn time(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (tag, content, behind) = element(bytes)?;
    let digits = core::str::from_utf8(content.strip_suffix(b"Z")?).ok()?;
    let century = match tag {
        // RFC 5280: two digits are a year from 1950 to 2049.
        UTC_TIME if digits.len() == 12 => {
            if digits < "5" {
                "20"
            } else {
                "19"
            }
        }
        GENERALIZED_TIME if digits.len() == 14 => "",
        _ => return None,
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let all = format!("{century}{digits}");
    let part = |from: usize, to: usize| all.get(from..to).unwrap_or_default();
    let shown =
        format!("{}-{}-{} {}:{}:{}", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12), part(12, 14));
    Some((shown, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::date_time_ymd;

    fn certificate(from: i32, until: i32) -> Vec<u8> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (parameters.not_before, parameters.not_after) = (date_time_ymd(from, 2, 3), date_time_ymd(until, 11, 30));
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        // Until 2049 two digits stand for a year, from 2050 on four.
        for (from, until) in [(1950, 1999), (1999, 2000), (2000, 2049), (2049, 2050), (2050, 9999)] {
            let read = Validity::of(&certificate(from, until)).unwrap();
            let shown = (format!("{from}-02-03 00:00:00"), format!("{until}-11-30 00:00:00"));
            assert_eq!((read.from, read.until), shown);
        }
    }

    #[test]
    fn a_certificate_that_is_cut_or_altered_anywhere_is_read_or_refused_and_nothing_else() {
        let good = certificate(2020, 2030);
        // The signature stands behind what is read here, and TLS checks it.
        let times = good.windows(2).position(|bytes| bytes == [UTC_TIME, 13]).unwrap() + 30;
        for length in 0..good.len() {
            assert!(Validity::of(&good[..length]).is_none(), "cut at {length}");
        }
        for at in 0..times {
            for bit in 0..8 {
                let mut altered = good.clone();
                altered[at] ^= 1 << bit;
                if let Some(read) = Validity::of(&altered) {
                    assert!(read.from.len() == 19 && read.until.len() == 19, "{read:?}");
                }
            }
        }
    }
}
