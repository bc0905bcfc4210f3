//! Attributes: what a driver can be told when it is pushed on a stack. A driver lists its own; the
//! framework reads and checks the text, so that a driver gets only names and values that it listed.

use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// The kind of an attribute's value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueKind {
    /// A number.
    Number,
    /// Bytes, `64KiB` or `1.5MB`; a rate may end in `/s`.
    Bytes,
    /// `true`, `false`; the name alone is `true`.
    Flag,
    /// `250ms`, `10s`, `2m`.
    Time,
    /// Any text.
    Text,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Value {
    /// Of [`ValueKind::Number`] and [`ValueKind::Bytes`].
    Number(u64),
    /// Of [`ValueKind::Flag`].
    Flag(bool),
    /// Of [`ValueKind::Time`].
    Time(Duration),
    /// Of [`ValueKind::Text`].
    Text(String),
}

/// An attribute that a driver knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AttributeInfo {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: ValueKind,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// An attribute, for the list of its driver.
pub(crate) const fn info(name: &'static str, kind: ValueKind, about: &'static str) -> AttributeInfo {
    AttributeInfo { name, kind, about }
}

/// The attributes that a driver was given.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes {
    values: Vec<(&'static str, Value)>,
}

impl Attributes {
    /// Reads `name=value;name=value`. A value without a name is that of the driver's first
    /// attribute (`100MB/s` for `rate`), a name without a value is a flag.
    pub fn parse(text: &str, known: &'static [AttributeInfo]) -> Result<Self> {
        let mut attributes = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
            let info = known.iter().find(|info| info.name == name);
            let (info, value) = match (info, value, known.first()) {
                (Some(info), Some(value), _) => (info, value),
                (Some(info), None, _) if info.kind == ValueKind::Flag => (info, "true"),
                (None, None, Some(first)) if attributes.find(first.name).is_some() => {
                    return Err(unnamed(name, first, known));
                }
                (None, None, Some(first)) => (first, name),
                (Some(_), None, _) => return Err(usage(format!("the attribute '{name}' needs a value"))),
                (None, ..) => return Err(unknown(name, known)),
            };
            attributes.set(info, value)?;
        }
        Ok(attributes)
    }

    fn set(&mut self, info: &'static AttributeInfo, text: &str) -> Result<()> {
        if self.find(info.name).is_some() {
            return Err(usage(format!("the attribute '{}' is given twice", info.name)));
        }
        let value = read(info.kind, text.trim()).ok_or_else(|| {
            let kind = match info.kind {
                ValueKind::Number => "a number",
                ValueKind::Bytes => "a number of bytes such as 64KiB",
                ValueKind::Flag => "true or false",
                ValueKind::Time => "a time such as 250ms",
                ValueKind::Text => "a text",
            };
            usage(format!("the attribute '{}' is {kind}, not '{}'", info.name, text.escape_debug()))
        })?;
        self.values.push((info.name, value));
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// All of them as a driver in another language reads them; texts as they were given.
    pub(crate) fn as_text(&self) -> String {
        let text = |(name, value): &(&str, Value)| match value {
            Value::Number(number) => format!("{name}={number}"),
            Value::Flag(flag) => format!("{name}={flag}"),
            Value::Time(time) => format!("{name}={}us", time.as_micros()),
            Value::Text(text) => format!("{name}={text}"),
        };
        self.values.iter().map(text).collect::<Vec<_>>().join(";")
    }

    /// The number or the bytes of that name.
    pub fn number(&self, name: &str) -> Option<u64> {
        if let Some(Value::Number(number)) = self.find(name) { Some(*number) } else { None }
    }

    /// The flag of that name; false where it is not given.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Value::Flag(true)))
    }

    /// The time of that name.
    pub fn time(&self, name: &str) -> Option<Duration> {
        if let Some(Value::Time(time)) = self.find(name) { Some(*time) } else { None }
    }

    /// The text of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        if let Some(Value::Text(text)) = self.find(name) { Some(text) } else { None }
    }
}

fn usage(what: String) -> Error {
    Error::new(ErrorKind::Usage, what)
}

fn unknown(name: &str, known: &[AttributeInfo]) -> Error {
    let names: Vec<_> = known.iter().map(|info| info.name).collect();
    let names = if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
    usage(format!("there is no attribute '{}'; {names}", name.escape_debug()))
}

/// Of a value without a name where the attribute that it would be has one.
fn unnamed(value: &str, first: &AttributeInfo, known: &[AttributeInfo]) -> Error {
    let (value, name) = (value.escape_debug(), first.name);
    let names: Vec<_> = known.iter().map(|info| info.name).collect();
    let why = format!("'{value}' is a value without a name, which is that of '{name}', and '{name}' is given already");
    usage(format!("{why}: write NAME={value}; it has: {}", names.join(", ")))
}

fn read(kind: ValueKind, text: &str) -> Option<Value> {
    match kind {
        ValueKind::Number => text.parse().ok().map(Value::Number),
        ValueKind::Bytes => bytes(text.strip_suffix("/s").unwrap_or(text)).map(Value::Number),
        ValueKind::Flag => text.parse().ok().map(Value::Flag),
        ValueKind::Time => time(text).map(Value::Time),
        ValueKind::Text => Some(Value::Text(text.to_owned())),
    }
}

/// Number and unit; the number may have a fraction of up to six digits.
fn split_unit(text: &str) -> Option<(u64, u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let millionths = fraction.parse::<u64>().ok()? * 10u64.pow(6 - fraction.len() as u32);
    Some((whole.parse().ok()?, millionths, unit))
}

fn bytes(text: &str) -> Option<u64> {
    let (whole, millionths, unit) = split_unit(text)?;
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return None,
    };
    whole.checked_mul(factor)?.checked_add(millionths.checked_mul(factor)? / 1_000_000)
}

fn time(text: &str) -> Option<Duration> {
    let (whole, millionths, unit) = split_unit(text)?;
    let nanoseconds: u64 = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return None,
    };
    let total = whole.checked_mul(nanoseconds)?.checked_add(millionths.checked_mul(nanoseconds)? / 1_000_000)?;
    Some(Duration::from_nanos(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[AttributeInfo] = &[
        AttributeInfo { name: "rate", kind: ValueKind::Bytes, about: "" },
        AttributeInfo { name: "fast", kind: ValueKind::Flag, about: "" },
        AttributeInfo { name: "wait", kind: ValueKind::Time, about: "" },
        AttributeInfo { name: "count", kind: ValueKind::Number, about: "" },
        AttributeInfo { name: "name", kind: ValueKind::Text, about: "" },
    ];

    #[test]
    fn attributes_are_read_by_their_kinds() {
        let read = Attributes::parse("rate=1.5MB/s; fast;wait=250ms;count=7;name=a=b", KNOWN).unwrap();
        assert_eq!(read.number("rate"), Some(1_500_000));
        assert!(read.flag("fast"));
        assert_eq!(read.time("wait"), Some(Duration::from_millis(250)));
        assert_eq!(read.number("count"), Some(7));
        assert_eq!(read.text("name"), Some("a=b"));
        assert_eq!(
            Attributes::parse("100MiB/s", KNOWN).unwrap().number("rate"),
            Some(100 << 20),
            "the first by its value"
        );
        assert_eq!(Attributes::parse("", KNOWN).unwrap(), Attributes::default());
    }

    #[test]
    fn a_second_value_without_a_name_is_told_as_that() {
        for text in ["7;yes", "rate=7;yes", "count=1;7;yes"] {
            let error = Attributes::parse(text, KNOWN).unwrap_err().to_string();
            assert!(error.contains("'yes' is a value without a name"), "{text}: {error}");
        }
        let twice = Attributes::parse("7;rate=8", KNOWN).unwrap_err().to_string();
        assert!(twice.contains("the attribute 'rate' is given twice"), "{twice}");
    }

    #[test]
    fn bad_attributes_are_refused_by_name() {
        let cases = [
            ("speed=1", "'speed'"),
            ("rate=fast", "'rate'"),
            ("rate=1.MB", "'rate'"),
            ("rate=99999999999999999999", "'rate'"),
            ("rate=99999999999999GiB", "'rate'"),
            ("count=-1", "'count'"),
            ("count", "'count'"),
            ("fast=maybe", "'fast'"),
            ("wait=1h", "'wait'"),
            ("rate=1;rate=2", "'rate'"),
        ];
        for (text, name) in cases {
            let error = Attributes::parse(text, KNOWN).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{text}");
            assert!(error.to_string().contains(name), "{text}: {error}");
        }
        assert!(Attributes::parse("a=1", &[]).unwrap_err().to_string().contains("it has none"));
    }
}
