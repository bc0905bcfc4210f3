//! Rows of values in which every pair of values of two factors occurs (a pairwise covering array).

use super::random::Random;

/// Rows tried for each row that is taken.
const CANDIDATES: usize = 50;

/// Rows for factors with so many values each: at least `least` rows, and as many more as it takes until every pair occurs.
pub fn rows(sizes: &[usize], least: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut open = pairs(sizes);
    let mut rows = Vec::new();
    while !open.is_empty() || rows.len() < least {
        let covers = |row: &[usize]| open.iter().filter(|pair| holds(row, pair)).count();
        let candidates = (0..CANDIDATES).map(|_| {
            let mut row: Vec<usize> = sizes.iter().map(|&size| random.below(size)).collect();
            // Each row covers at least one open pair, so this ends.
            if let Some(&[(a, x), (b, y)]) = open.first() {
                (row[a], row[b]) = (x, y);
            }
            row
        });
        let row = candidates.max_by_key(|row| covers(row)).expect("there are candidates");
        open.retain(|pair| !holds(&row, pair));
        rows.push(row);
    }
    rows
}

/// Two factors with a value each.
type Pair = [(usize, usize); 2];

fn holds(row: &[usize], pair: &Pair) -> bool {
    pair.iter().all(|&(factor, value)| row[factor] == value)
}

fn pairs(sizes: &[usize]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (a, &first) in sizes.iter().enumerate() {
        for (b, &second) in sizes.iter().enumerate().skip(a + 1) {
            pairs.extend((0..first).flat_map(|x| (0..second).map(move |y| [(a, x), (b, y)])));
        }
    }
    pairs
}

#[test]
fn every_pair_of_values_occurs_and_few_rows_are_needed() {
    for seed in 0..20 {
        let sizes = [4, 2, 5, 3, 2, 2];
        let rows = rows(&sizes, 0, seed);
        assert!(pairs(&sizes).iter().all(|pair| rows.iter().any(|row| holds(row, pair))), "seed {seed}");
        assert!(rows.len() <= 30, "seed {seed}: {} rows", rows.len());
    }
    assert_eq!(rows(&[2, 2], 30, 1).len(), 30);
}
