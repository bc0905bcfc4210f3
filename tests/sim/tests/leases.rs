//! Programs that share a file under leases and without see one file, whatever happens to sessions and server.
//!
//! ```text
//! XDFS_SIM_SESSIONS=1000000 cargo test --release -p xdfs-test-sim --test leases many      the long form
//! ```

use xdfs_test_sim::leases::{Faults, LEASE, Seen, run};

/// Runs where nobody asks for another number.
const RUNS: u64 = 24_000;

/// Every eighth run is one without faults.
fn faults(seed: u64) -> Faults {
    Faults { losses: seed & 1 != 0, restarts: seed & 2 != 0, silent: seed & 4 != 0 }
}

#[test]
fn many_programs_see_one_file_under_leases_and_without() {
    let runs = std::env::var("XDFS_SIM_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let mut all = Seen::default();
    for seed in 0..runs {
        let seen = run(seed, faults(seed)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if !faults(seed).losses && !faults(seed).restarts {
            let longest = LEASE + LEASE / 2;
            assert!(
                seen.longest <= longest,
                "seed {seed}: somebody waited for {:?}, longer than a lease",
                seen.longest
            );
        }
        assert_eq!(seen.recalled_anew, 0, "seed {seed}: a recalled lease began anew");
        all.kept_reads += seen.kept_reads;
        all.kept_writes += seen.kept_writes;
        all.told += seen.told;
        all.again += seen.again;
        all.recalls += seen.recalls;
        all.longest = all.longest.max(seen.longest);
        all.operations += seen.operations;
        all.faults += seen.faults;
    }
    println!("{runs} runs: {all:?}");
    for (what, count, least) in [
        ("reads from what was kept", all.kept_reads, runs),
        ("kept writes", all.kept_writes, runs / 2),
        ("kept writes that came too late", all.told, runs / 200),
        ("leases had again", all.again, runs / 4),
        ("recalls", all.recalls, runs),
        ("faults", all.faults, runs),
    ] {
        assert!(count >= least, "{what}: {count}");
    }
}
