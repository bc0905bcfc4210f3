//! A terminal of a fixed size, as far as progress bars use one. It must not do input or output.

/// What is shown, and where the next character goes.
#[derive(Debug)]
pub(super) struct Screen {
    columns: usize,
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Bytes that are no whole character or control sequence yet.
    rest: Vec<u8>,
}

impl Screen {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, lines: vec![Vec::new()], row: 0, column: 0, rest: Vec::new() }
    }

    /// Shows what a program wrote.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let rest = std::mem::take(&mut self.rest);
        let (text, cut) = match std::str::from_utf8(&rest) {
            Ok(text) => (text, rest.len()),
            Err(error) => (std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(), error.valid_up_to()),
        };
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\u{1b}' => {
                    // It ends with a letter.
                    let Some((end, _)) = characters.find(|(_, character)| character.is_ascii_alphabetic()) else {
                        self.rest = rest[at..].to_vec();
                        return;
                    };
                    self.control(&text[at + 1..=end]);
                }
                '\r' => self.column = 0,
                '\n' => self.down(1),
                '\u{8}' => self.column = self.column.saturating_sub(1),
                character if character.is_control() => {}
                character => self.put(character),
            }
        }
        self.rest = rest[cut..].to_vec();
    }

    /// The lines without blanks at their ends.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    fn put(&mut self, character: char) {
        if self.column == self.columns {
            self.column = 0;
            self.down(1);
        }
        let line = &mut self.lines[self.row];
        line.resize(line.len().max(self.column + 1), ' ');
        line[self.column] = character;
        self.column += 1;
    }

    fn down(&mut self, count: usize) {
        self.row += count;
        self.lines.resize(self.lines.len().max(self.row + 1), Vec::new());
    }

    /// A control sequence, from its bracket on; what only changes colours is left out.
    fn control(&mut self, sequence: &str) {
        let Some(parameters) = sequence.strip_prefix('[') else { return };
        let (number, kind) = parameters.split_at(parameters.len() - 1);
        let count = number.parse().unwrap_or(1);
        match kind {
            "A" => self.row = self.row.saturating_sub(count),
            "B" => self.down(count),
            "C" => self.column = (self.column + count).min(self.columns),
            "D" => self.column = self.column.saturating_sub(count),
            "K" if number == "2" => self.lines[self.row].clear(),
            "K" => self.lines[self.row].truncate(self.column),
            "J" => {
                self.lines[self.row].truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_drawn_over_itself_and_lines_stay_above_it() {
        let mut screen = Screen::new(10);
        for piece in ["$ go\r\n", "\u{1b}[2K", "10 %", "\r\u{1b}[", "2K20 %\u{1b}[1A\u{1b}[1B", "\r\u{1b}[Kdone\r\n"] {
            screen.write(piece.as_bytes());
        }
        assert_eq!(screen.lines(), ["$ go", "done"]);
        screen.write("gr\u{fc}n 7890123\u{1b}[1mx".as_bytes());
        assert_eq!(screen.lines(), ["$ go", "done", "gr\u{fc}n 78901", "23x"]);
        screen.write(&"\u{fc}".as_bytes()[..1]);
        screen.write(&"\u{fc}".as_bytes()[1..]);
        assert_eq!(screen.lines()[3], "23x\u{fc}");
    }
}
