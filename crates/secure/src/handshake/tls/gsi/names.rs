//! Names of certificates in the form in which grids write them: `/O=Grid/CN=Anna`.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Encode, Tag, Tagged};
use x509_cert::name::Name;

/// The names of attributes.
const ATTRIBUTES: [(&str, &str); 15] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

pub(super) const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A name on one line.
pub(super) fn one_line(name: &Name) -> String {
    let mut line = String::new();
    for part in name.0.iter().flat_map(|part| part.0.iter()) {
        let oid = part.oid.to_string();
        let known = ATTRIBUTES.iter().find(|(known, _)| *known == oid);
        line.push('/');
        line.push_str(known.map_or(&oid, |(_, name)| name));
        line.push('=');
        line.push_str(&text_of(part));
    }
    line
}

/// The text of an attribute; what could not be shown is escaped.
pub(super) fn text_of(part: &AttributeTypeAndValue) -> String {
    let bytes = part.value.value();
    let text = match part.value.tag() {
        Tag::BmpString => {
            let units: Vec<u16> =
                bytes.chunks(2).map(|pair| pair.iter().fold(0, |sum, &b| sum << 8 | u16::from(b))).collect();
            String::from_utf16_lossy(&units)
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    let shown = |letter: char| match letter {
        _ if letter.is_control() => letter.escape_default().to_string(),
        _ => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// The last attribute of a name, if it is a CN and stands alone.
pub(super) fn last_common_name(name: &Name) -> Option<String> {
    let last = name.0.last()?;
    let [part] = last.0.as_slice() else { return None };
    (part.oid == COMMON_NAME).then(|| text_of(part))
}

/// Whether a name is that of its signer and one CN.
pub(super) fn is_below(name: &Name, signer: &Name) -> bool {
    let (parts, above) = (&name.0, &signer.0);
    parts.len() == above.len() + 1 && parts[..above.len()] == above[..] && last_common_name(name).is_some()
}

/// Whether two names are the same, byte by byte.
pub(super) fn same(one: &Name, other: &Name) -> bool {
    matches!((one.to_der(), other.to_der()), (Ok(one), Ok(other)) if one == other)
}

/// A name as signing policies and users write it: mail addresses have several.
pub(super) fn normal(line: &str) -> String {
    line.replace("/Email=", "/emailAddress=").replace("/E=", "/emailAddress=")
}
