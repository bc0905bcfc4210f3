//! Reading DER (X.690) that somebody else wrote.
//!
//! It must not understand what it reads: the library of certificates does.

use x509_cert::der::{Decode, ErrorKind, Result, Tag};

/// Tags under which a certificate, a request or a list of names has nothing but other elements: attributes, extensions, and the
/// names of several parts. The library looks into them before it sees that they say to have none.
const NEVER_PRIMITIVE: [u8; 4] = [0x80, 0x83, 0x84, 0x85];

/// Elements within each other; a certificate has seven, and what its extensions hold is read on its own.
const DEPTH_MAX: usize = 32;

/// Reads a value that is all of `bytes`. The library reserves as much memory as an element says that it is long, up to 256 MiB, before
/// it looks for that many bytes: first it is seen that they are there.
pub(super) fn decode<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    if is_whole(bytes) { T::from_der(bytes) } else { Err(ErrorKind::Length { tag: Tag::Sequence }.into()) }
}

/// Whether every element lies within the one that it is part of.
fn is_whole(bytes: &[u8]) -> bool {
    let mut ends = vec![bytes.len()];
    let mut at = 0;
    while let Some(&end) = ends.last() {
        if at == end {
            ends.pop();
            continue;
        }
        let Some((is_constructed, start, length)) = head(bytes, at) else { return false };
        if start > end || length > end - start || ends.len() == DEPTH_MAX {
            return false;
        }
        at = start;
        match is_constructed {
            true => ends.push(start + length),
            false => at += length,
        }
    }
    true
}

/// Of the element at `at`: whether others are in it, where its content begins, and how long that is.
fn head(bytes: &[u8], at: usize) -> Option<(bool, usize, usize)> {
    let (tag, first) = (*bytes.get(at)?, *bytes.get(at + 1)?);
    // Numbers of tags above 30 take more bytes; no certificate has one.
    if tag & 0x1f == 0x1f || NEVER_PRIMITIVE.contains(&tag) {
        return None;
    }
    let digits = match first {
        0..=0x7f => return Some((tag & 0x20 != 0, at + 2, usize::from(first))),
        0x81..=0x84 => bytes.get(at + 2..at + 2 + usize::from(first & 0x7f))?,
        _ => return None,
    };
    let length = digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit));
    Some((tag & 0x20 != 0, at + 2 + digits.len(), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_longer_than_the_one_that_it_is_part_of() {
        for whole in [&[][..], &[5, 0], &[4, 2, 0xff, 0xff], &[0x30, 5, 2, 1, 7, 5, 0], &[0x30, 0x81, 2, 5, 0]] {
            assert!(is_whole(whole), "{whole:x?}");
        }
        for broken in [
            &[5][..],
            &[4, 2, 0xff],
            &[4, 0x80, 0, 0],
            &[4, 0x85, 0, 0, 0, 0, 0],
            &[0x1f, 0x81, 0],
            &[0x30, 2, 0x80, 0],
            // The number in the sequence: three bytes longer than all of it, then three million.
            &[0x30, 3, 2, 4, 7],
            &[0x30, 7, 2, 0x83, 0x30, 0xa0, 0x30, 7, 7],
            // It would end behind the sequence, but not behind the input.
            &[0x30, 3, 2, 2, 7, 7],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert!(!is_whole(broken), "{broken:x?}");
        }
    }

    #[test]
    fn elements_lie_in_each_other_only_so_deep() {
        let nested = |depth: usize| {
            (0..depth).fold(Vec::new(), |inner, _| [&[0x30, u8::try_from(inner.len()).unwrap()], &inner[..]].concat())
        };
        assert!(is_whole(&nested(DEPTH_MAX - 1)));
        assert!(!is_whole(&nested(DEPTH_MAX)));
    }

    /// Its attributes are marked as having no parts, and the value of one of them claims 256 MiB.
    #[test]
    fn what_is_hidden_in_a_primitive_element_is_not_looked_for() {
        let attribute = [&[0x30, 0x0d, 6, 3, 0x55, 4, 3, 0x31, 6, 4, 0x84, 0x0f, 0xff, 0xff, 0xff][..]].concat();
        let attributes = |tag: u8| [&[tag, 0x0f], &attribute[..]].concat();
        assert!(!is_whole(&attributes(0x80)) && !is_whole(&attributes(0xa0)));
        assert!(is_whole(&[0xa0, 2, 5, 0]) && is_whole(&[0x81, 1, 0xff]), "names without parts may be");
    }

    #[test]
    fn a_certificate_is_read_and_one_that_claims_more_than_it_has_is_not() {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let der = parameters.self_signed(&key).unwrap().der().to_vec();
        assert!(decode::<x509_cert::Certificate>(&der).is_ok());
        // A serial number of 16 million bytes in a sequence of 12.
        let claims = [0x30, 10, 0x30, 8, 2, 0x83, 0xff, 0xff, 0xff, 7, 7, 7];
        let error = decode::<x509_cert::Certificate>(&claims).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Length { tag: Tag::Sequence });
    }
}
