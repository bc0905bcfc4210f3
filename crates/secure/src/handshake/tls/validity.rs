//! The validity period of a certificate (RFC 5280, section 4.1.2.5).
//!
//! It must not read a clock, nor check anything else of a certificate: TLS does that, and a server
//! checks the period here before it presents a certificate.

use super::der::decode;
use x509_cert::Certificate;

/// Two points in time, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The first second at which the certificate is good.
    pub from: u64,
    /// The last one.
    pub until: u64,
}

impl Validity {
    /// That of a certificate; none where its bytes are none.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let validity = decode::<Certificate>(certificate).ok()?.tbs_certificate.validity;
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs();
        Some(Self { from: seconds(validity.not_before), until: seconds(validity.not_after) })
    }
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
        for (from, until, seconds) in [
            (1970, 1999, [2_851_200, 943_920_000]),
            (1999, 2000, [918_000_000, 975_542_400]),
            (2000, 2049, [949_536_000, 2_521_843_200]),
            (2049, 2050, [2_495_923_200, 2_553_379_200]),
            (2050, 9999, [2_527_459_200, 253_399_536_000]),
        ] {
            let read = Validity::of(&certificate(from, until)).unwrap();
            assert_eq!([read.from, read.until], seconds, "{from} {until}");
        }
    }

    #[test]
    fn a_certificate_that_is_cut_anywhere_is_refused() {
        let good = certificate(2020, 2030);
        for length in 0..good.len() {
            assert!(Validity::of(&good[..length]).is_none(), "cut at {length}");
        }
    }
}
