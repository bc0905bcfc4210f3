//! The pages of the repository as a package holds them: a link to what is not packaged is its text alone.

use super::stage::write;
use crate::Failure;
use std::path::Path;

/// Does that for every page of this folder.
pub(super) fn drop_dead_links(folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)?.flatten() {
        let page = entry.path();
        if page.extension().is_some_and(|kind| kind == "md") {
            let text = std::fs::read_to_string(&page).map_err(failed)?;
            let lives = |target: &str| target.contains("://") || folder.join(target).exists();
            write(&page, without_dead_links(&text, lives).as_bytes())?;
        }
    }
    Ok(())
}

/// The text with its links, but those whose target does not live; what is behind `#` is no part of a target.
fn without_dead_links(text: &str, lives: impl Fn(&str) -> bool) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("](") {
        done.push_str(before);
        let target = behind.split_once(')').map(|(target, _)| target);
        let file = target.map(|target| target.split('#').next().unwrap_or_default());
        match (file, done.rfind('[')) {
            (Some(file), Some(begin)) if !file.is_empty() && !file.contains(char::is_whitespace) && !lives(file) => {
                done.remove(begin);
                rest = &behind[target.map_or(0, str::len) + 1..];
            }
            // None, or one that leads somewhere.
            _ => {
                done.push_str("](");
                rest = behind;
            }
        }
    }
    done.push_str(rest);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_what_is_not_there_is_its_text() {
        let lives = |target: &str| target == "there.md";
        let page = "[a](there.md), [b `c`](gone.md#d), [e](#f), [g](there.md#h) and `x[1](2 3)`; [i](dir/gone)";
        let wanted = "[a](there.md), b `c`, [e](#f), [g](there.md#h) and `x[1](2 3)`; i";
        assert_eq!(without_dead_links(page, lives), wanted);
    }
}
