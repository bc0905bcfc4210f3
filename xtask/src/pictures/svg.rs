//! Draws what a terminal showed as a picture that moves. It must not do input or output.

use std::fmt::Write;

/// What was shown from this moment on, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Frame {
    pub(super) at_ms: u64,
    pub(super) lines: Vec<String>,
}

/// Time for which the last frame stays before it begins again.
const REST_MS: u64 = 4_000;

const CHARACTER_WIDTH: usize = 8;
const LINE_HEIGHT: usize = 20;
const MARGIN: usize = 14;

/// The frames one after the other, for ever; the last one where nothing moves.
pub(super) fn draw(title: &str, columns: usize, frames: &[Frame]) -> String {
    let rows = frames.iter().map(|frame| frame.lines.len()).max().unwrap_or(0);
    let (width, height) = (columns * CHARACTER_WIDTH + 2 * MARGIN, rows * LINE_HEIGHT + 2 * MARGIN);
    let end = frames.last().map_or(0, |frame| frame.at_ms) + REST_MS;
    let (mut style, mut groups) = (String::new(), String::new());
    for (number, frame) in frames.iter().enumerate() {
        let next = frames.get(number + 1).map_or(end, |next| next.at_ms);
        let is_last = number + 1 == frames.len();
        // Writing to a String cannot fail.
        let _ = write!(style, "@keyframes f{number}{{0%{{visibility:hidden}}{}%", percent(frame.at_ms, end));
        let _ = write!(style, "{{visibility:visible}}{}%{{visibility:hidden}}}}", percent(next, end));
        let _ = writeln!(style, ".f{number}{{animation:f{number} {end}ms step-end infinite}}");
        let hidden = if is_last { "" } else { " visibility=\"hidden\"" };
        let _ = writeln!(groups, "<g class=\"f{number}\"{hidden}>");
        for (row, line) in frame.lines.iter().enumerate() {
            let y = MARGIN + (row + 1) * LINE_HEIGHT - 5;
            let length = line.chars().count() * CHARACTER_WIDTH;
            if !line.is_empty() {
                let text = escaped(line);
                let _ = writeln!(groups, "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{length}\">{text}</text>");
            }
        }
        groups.push_str("</g>\n");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{}</title>\n<style>\ntext{{font:13px monospace;fill:#e6e6e6;white-space:pre}}\n{style}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1e1e1e\"/>\n{groups}</svg>\n",
        escaped(title)
    )
}

/// A moment as a share of the whole, with two digits behind the point.
fn percent(at_ms: u64, end: u64) -> String {
    let share = at_ms * 10_000 / end.max(1);
    format!("{}.{:02}", share / 100, share % 100)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_seen_in_its_time_and_the_last_where_nothing_moves() {
        let frame = |at_ms, line: &str| Frame { at_ms, lines: vec![line.to_owned(), String::new()] };
        let picture = draw("a & b", 80, &[frame(0, "$ <go>"), frame(1000, "done")]);
        for part in [
            "width=\"668\" height=\"68\"",
            "<title>a &amp; b</title>",
            "@keyframes f0{0%{visibility:hidden}0.00%{visibility:visible}20.00%{visibility:hidden}}",
            "@keyframes f1{0%{visibility:hidden}20.00%{visibility:visible}100.00%{visibility:hidden}}",
            ".f1{animation:f1 5000ms step-end infinite}",
            "<g class=\"f0\" visibility=\"hidden\">\n<text x=\"14\" y=\"29\" textLength=\"48\">$ &lt;go&gt;</text>\n</g>",
            "<g class=\"f1\">",
        ] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
    }
}
