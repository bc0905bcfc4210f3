//! What is printed: in the shapes of globus-xioperf, as one line, or as JSON. Without input or output.
//!
//! Human units are powers of two, as globus-xioperf has them: `M` is 2^20 bytes, `m/s` 2^20 bits a
//! second. JSON has bytes, seconds and bits a second.

use crate::datagrams::Findings;
use crate::tally::Moved;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// As wide as globus-xioperf's.
pub(crate) const RULE: &str = "---------------------------------------------------------------";

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// As text, each.
    Full,
    /// One line at the end.
    Quiet,
    /// As JSON, each.
    Json,
}

/// Units of a report (-f).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Units {
    shift: u32,
    bits: bool,
}

impl Units {
    /// Reads `k`, `m`, `g` (bits) and `K`, `M`, `G` (bytes).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (shift, bits) = match text {
            "k" => (10, true),
            "m" => (20, true),
            "g" => (30, true),
            "K" => (10, false),
            "M" => (20, false),
            "G" => (30, false),
            _ => return Err("it is one of the letters kmgKMG".to_owned()),
        };
        Ok(Self { shift, bits })
    }

    fn letter(self) -> char {
        let letter = match self.shift {
            10 => 'k',
            20 => 'm',
            _ => 'g',
        };
        if self.bits { letter } else { letter.to_ascii_uppercase() }
    }

    /// `10.00 M`
    fn amount(self, bytes: u64) -> String {
        let letter = self.letter().to_ascii_uppercase();
        format!("{:.2} {letter}", bytes as f64 / f64::from(1_u32 << self.shift))
    }

    /// `94.30`
    fn rate(self, bytes: u64, elapsed: Duration) -> f64 {
        let of_bytes = bytes as f64 / elapsed.as_secs_f64().max(1e-9) / f64::from(1_u32 << self.shift);
        if self.bits { of_bytes * 8.0 } else { of_bytes }
    }

    /// `94.30 m/s`
    fn bandwidth(self, bytes: u64, elapsed: Duration) -> String {
        format!("{:.2} {}/s", self.rate(bytes, elapsed), self.letter())
    }
}

/// What is known of an interval or of a whole run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Figures {
    pub(crate) elapsed: Duration,
    /// Of each stream.
    pub(crate) streams: Vec<Moved>,
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    /// Of received datagrams.
    pub(crate) findings: Option<Findings>,
}

/// Something to print.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A server waits there.
    Listening { contact: &'a str, stack: &'a str },
    /// All streams are open.
    Connected { stack: &'a str, streams: usize },
    /// An interval has passed; it ended so long after the start.
    Interval { figures: &'a Figures, end: Duration },
    /// The run is over.
    End { figures: &'a Figures, why: &'a str },
}

impl Event<'_> {
    /// The lines to print, each with its end; may be empty.
    pub(crate) fn text(&self, style: Style, units: Units) -> String {
        match style {
            Style::Full => self.full(units),
            Style::Quiet => match self {
                Event::Interval { figures, .. } | Event::End { figures, .. } => figures.quiet(units),
                _ => String::new(),
            },
            Style::Json => format!("{}\n", self.json()),
        }
    }

    fn full(&self, units: Units) -> String {
        match self {
            Self::Listening { contact, .. } => format!("{RULE}\nserver listening on: {contact}\n{RULE}\n"),
            Self::Connected { .. } => format!("Connection established\n{RULE}\n"),
            Self::Interval { figures, .. } => format!("{}{RULE}\n", figures.full(units)),
            Self::End { figures, .. } => format!("Closing connection\n{}", figures.full(units)),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Listening { contact, stack } => json!({"event": "listening", "contact": contact, "stack": stack}),
            Self::Connected { stack, streams } => json!({"event": "connected", "stack": stack, "streams": streams}),
            Self::Interval { figures, end } => {
                let mut value = figures.json();
                value["event"] = "interval".into();
                value["end"] = end.as_secs_f64().into();
                value
            }
            Self::End { figures, why } => {
                let mut value = figures.json();
                value["event"] = "end".into();
                value["why"] = (*why).into();
                value
            }
        }
    }
}

/// `00:10.0009`: minutes, and seconds with four places that are cut off, not rounded.
fn clock(elapsed: Duration) -> String {
    let minutes = elapsed.as_secs() / 60;
    format!("{minutes:02}:{}.{:04}", elapsed.as_secs() % 60, elapsed.subsec_micros() / 100)
}

impl Figures {
    fn total(&self) -> Moved {
        Moved::total(&self.streams)
    }

    fn full(&self, units: Units) -> String {
        let mut text = format!("\tTime:         {}\n", clock(self.elapsed));
        let total = self.total();
        if self.streams.len() > 1 {
            for (at, stream) in self.streams.iter().enumerate() {
                let _ = writeln!(text, "\tStream {:<7}{}", at + 1, self.of_stream(*stream, units));
            }
        }
        if self.receives {
            let _ = writeln!(text, "\tBytes recv:   {}", units.amount(total.received));
            let _ = writeln!(text, "\tRead BW:      {}", units.bandwidth(total.received, self.elapsed));
        }
        if self.sends {
            let _ = writeln!(text, "\tBytes sent:   {}", units.amount(total.sent));
            let _ = writeln!(text, "\tWrite BW:     {}", units.bandwidth(total.sent, self.elapsed));
        }
        if let Some(findings) = &self.findings {
            let (lost, sent) = (findings.lost(), findings.sent());
            let share = lost as f64 * 100.0 / sent.max(1) as f64;
            let _ = writeln!(text, "\tJitter:       {:.3} ms", findings.jitter().as_secs_f64() * 1e3);
            let _ = writeln!(text, "\tLost:         {lost} of {sent} ({share:.2} %)");
            if findings.out_of_order > 0 {
                let _ = writeln!(text, "\tOut of order: {}", findings.out_of_order);
            }
            if findings.foreign > 0 {
                let _ = writeln!(text, "\tOf others:    {}", findings.foreign);
            }
        }
        text
    }

    fn of_stream(&self, moved: Moved, units: Units) -> String {
        let part = |bytes, way| format!("{} {way}, {}", units.amount(bytes), units.bandwidth(bytes, self.elapsed));
        let parts = [self.receives.then(|| part(moved.received, "recv")), self.sends.then(|| part(moved.sent, "sent"))];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    fn quiet(&self, units: Units) -> String {
        let total = self.total();
        let part = |bytes: u64| {
            let amount = bytes as f64 / f64::from(1_u32 << units.shift);
            format!("{amount:.2} {:.2}", units.rate(bytes, self.elapsed))
        };
        format!("{} {} {}\n", clock(self.elapsed), part(total.received), part(total.sent))
    }

    /// For the line of a terminal.
    pub(crate) fn line(&self, units: Units) -> String {
        format!("{}  {}", clock(self.elapsed), self.of_stream(self.total(), units))
    }

    fn json(&self) -> Value {
        let seconds = self.elapsed.as_secs_f64();
        let rate = |bytes: u64| bytes as f64 * 8.0 / seconds.max(1e-9);
        let moved = |moved: Moved| {
            let mut value = json!({});
            if self.receives {
                value["received_bytes"] = moved.received.into();
                value["received_bits_per_second"] = rate(moved.received).into();
            }
            if self.sends {
                value["sent_bytes"] = moved.sent.into();
                value["sent_bits_per_second"] = rate(moved.sent).into();
            }
            value
        };
        let mut value = moved(self.total());
        value["seconds"] = seconds.into();
        value["streams"] = self.streams.iter().map(|stream| moved(*stream)).collect();
        if let Some(findings) = &self.findings {
            value["jitter_seconds"] = findings.jitter().as_secs_f64().into();
            value["datagrams"] = findings.sent().into();
            value["datagrams_lost"] = findings.lost().into();
            value["datagrams_out_of_order"] = findings.out_of_order.into();
            value["datagrams_of_others"] = findings.foreign.into();
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(streams: &[u64]) -> Figures {
        let streams = streams.iter().map(|sent| Moved { received: 0, sent: *sent }).collect();
        Figures { elapsed: Duration::from_micros(10_000_950), streams, sends: true, receives: false, findings: None }
    }

    fn units(text: &str) -> Units {
        Units::parse(text).unwrap()
    }

    #[test]
    fn the_end_looks_as_in_the_paper() {
        // The figures of the paper's sample.
        let figures = figures(&[5474 * (1 << 20) + (1 << 19)]);
        let text = Event::End { figures: &figures, why: "time" }.text(Style::Full, units("m"));
        let expected =
            "Closing connection\n\tTime:         00:10.0009\n\tBytes sent:   5474.50 M\n\tWrite BW:     4379.18 m/s\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn small_letters_are_bits_and_large_ones_bytes() {
        let figures = Figures { elapsed: Duration::from_secs(2), ..figures(&[10 << 20]) };
        let rate = |letter| Event::End { figures: &figures, why: "bytes" }.text(Style::Full, units(letter));
        assert!(rate("m").ends_with("10.00 M\n\tWrite BW:     40.00 m/s\n"), "{}", rate("m"));
        assert!(rate("K").ends_with("10240.00 K\n\tWrite BW:     5120.00 K/s\n"), "{}", rate("K"));
        assert!(rate("g").ends_with("0.01 G\n\tWrite BW:     0.04 g/s\n"), "{}", rate("g"));
        assert!(Units::parse("kk").is_err());
    }

    #[test]
    fn several_streams_have_a_line_each_before_the_total() {
        let figures = figures(&[1 << 20, 3 << 20]);
        let text = Event::Interval { figures: &figures, end: Duration::from_secs(1) }.text(Style::Full, units("m"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "\tStream 1      1.00 M sent, 0.80 m/s");
        assert_eq!(lines[2], "\tStream 2      3.00 M sent, 2.40 m/s");
        assert_eq!(lines[3], "\tBytes sent:   4.00 M");
    }

    #[test]
    fn quiet_is_one_line_of_five_numbers() {
        let text = Event::End { figures: &figures(&[10 << 20]), why: "time" }.text(Style::Quiet, units("m"));
        assert_eq!(text, "00:10.0009 0.00 0.00 10.00 8.00\n");
    }

    #[test]
    fn json_has_bytes_and_bits_a_second() {
        let text = Event::End { figures: &figures(&[1000, 250]), why: "time" }.text(Style::Json, units("m"));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["event"], &value["sent_bytes"]), (&json!("end"), &json!(1250)));
        assert_eq!(value["streams"][1]["sent_bytes"], 250);
        let rate = value["sent_bits_per_second"].as_f64().unwrap();
        assert!((999.8..1000.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_minute_begins_at_sixty_seconds() {
        assert_eq!(clock(Duration::from_micros(59_999_999)), "00:59.9999");
        assert_eq!(clock(Duration::from_secs(60)), "01:0.0000");
    }
}
