//! A tree as a compiler's installation is: 100,000 files and about 3 GB, most of 1 to 20 KiB and a few of tens of MiB, in directories
//! of one name to some thousand, up to twelve deep. Made from a seed: the same on every machine.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::files::{CHUNK, Generator};
use crate::world::Interrupt;

/// So deep is a directory at most, the top counted as 0.
const DEPTH_MAX: u32 = 12;

/// A value by its rank: of a million values, so many are smaller than the value beside them. Between two lines it is
/// proportional.
type Curve = [(u64, u64)];

/// Bytes of a file. On the average 31 KiB.
const SIZES: &Curve = &[
    (0, 0),
    (20_000, 256),
    (150_000, 1 << 10),
    (400_000, 4 << 10),
    (800_000, 20 << 10),
    (955_000, 64 << 10),
    (990_000, 256 << 10),
    (998_800, 1 << 20),
    (999_900, 8 << 20),
    (1_000_000, 48 << 20),
];

/// Files of a directory. On the average 18.
const FILES: &Curve =
    &[(0, 1), (500_000, 4), (850_000, 15), (970_000, 60), (997_000, 300), (999_900, 2500), (1_000_000, 3000)];

/// Makes `files` files below `top`, which must not be there, and makes them durable. Their bytes.
pub fn create(top: &Path, files: u32, interrupt: &Interrupt) -> Result<u64> {
    let mut generator = Generator::default();
    let mut content = vec![0_u8; CHUNK];
    generator.fill(&mut content);
    let mut directories: Vec<(PathBuf, u32)> = vec![(top.to_owned(), 0)];
    let (mut made, mut bytes) = (0, 0);
    while made < files {
        interrupt.check()?;
        let (path, depth) = if made == 0 { (top.to_owned(), 0) } else { below(&directories, &mut generator) };
        fs::create_dir(&path).context(|| path.display().to_string())?;
        let count = u32::try_from(on(FILES, generator.below(1_000_000))).unwrap_or(u32::MAX).min(files - made);
        for number in 0..count {
            let length = on(SIZES, generator.below(1_000_000));
            write(&path.join(format!("part-{number}.rlib")), length, &mut content, &mut generator)?;
            bytes += length;
        }
        if made > 0 {
            directories.push((path, depth));
        }
        made += count;
    }
    rustix::fs::sync();
    Ok(bytes)
}

/// The next directory: rather below an old one than below a young one, which keeps the tree as flat as people do.
fn below(directories: &[(PathBuf, u32)], generator: &mut Generator) -> (PathBuf, u32) {
    let count = directories.len() as u64;
    let index = generator.below(count).min(generator.below(count));
    let open = |at: u64| directories.get(usize::try_from(at).unwrap_or(0)).filter(|(_, depth)| *depth < DEPTH_MAX);
    let (parent, depth) = open(index).unwrap_or(&directories[0]);
    (parent.join(format!("unit-{count}")), depth + 1)
}

fn on(curve: &Curve, rank: u64) -> u64 {
    let above = curve.iter().position(|(at, _)| *at > rank).unwrap_or(curve.len() - 1);
    let ((from, low), (to, high)) = (curve[above - 1], curve[above]);
    low + (high - low) * (rank - from) / (to - from)
}

fn write(path: &Path, length: u64, content: &mut [u8], generator: &mut Generator) -> Result<()> {
    let writing = || path.display().to_string();
    let mut file = File::create_new(path).context(writing)?;
    // No two files are alike.
    generator.fill(&mut content[..8]);
    let mut left = length;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        file.write_all(&content[..part]).context(writing)?;
        left -= part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a directory of its own")]
    use super::*;

    #[test]
    fn the_curves_have_the_shape_that_the_tables_say() {
        let sizes: Vec<u64> = (0..1_000_000).step_by(10).map(|rank| on(SIZES, rank)).collect();
        let total: u64 = sizes.iter().sum();
        assert!((2_900_000_000..3_500_000_000).contains(&total), "100,000 files have {total} bytes");
        let usual = sizes.iter().filter(|size| (1 << 10..=20 << 10).contains(*size)).count();
        assert!(usual > 60_000, "{usual} files of 1 to 20 KiB");
        assert!(sizes.iter().any(|size| *size > 30_000_000));
        assert!((0..1_000_000).step_by(10).all(|rank| on(FILES, rank) >= 1));
    }

    #[test]
    fn a_tree_is_the_same_each_time() {
        let scratch = tempfile::tempdir().expect("a directory");
        let make = |name: &str| {
            let top = scratch.path().join(name);
            let bytes = create(&top, 300, &Interrupt::default()).expect("tree");
            (top, bytes)
        };
        let ((one, bytes), (other, again)) = (make("one"), make("other"));
        assert_eq!(bytes, again);
        crate::files::check_tree("the second tree", &one, &other).expect("the same");
        let count = fs::read_dir(&one).expect("top").count();
        assert!(count > 1, "{count} names in the top directory");
    }
}
