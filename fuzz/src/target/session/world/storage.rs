//! What storage answers.

use super::{Question, World, answer};
use crate::target::session::step::BLOCK;
use xdfs_proto::base::Extent;
use xdfs_proto::session::{Comparison, Mismatch, SourceFacts, StageFacts, TargetFacts};
use xdfs_proto::wire::control::Safety;

impl World {
    pub(super) fn storage(&mut self, ok: bool, size: u64, window: Option<u64>) {
        match self.questions.pop_front() {
            None => {}
            Some(Question::Open(operation)) => {
                let facts = SourceFacts {
                    size: window.is_none().then_some(size),
                    mode: 0o600,
                    version: vec![1],
                    ..SourceFacts::default()
                };
                self.session.on_opened(operation, answer(ok, facts));
            }
            Some(Question::Stage(operation)) => {
                let receive_window = window.map(|window| window.min(16 * u64::from(BLOCK)));
                // Whatever storage says it has is only believed where somebody asked for it.
                let kept = Extent::new(size % 3 * u64::from(BLOCK), 5 * u64::from(BLOCK)).into_iter().collect();
                self.session.on_staged(
                    operation,
                    answer(
                        ok,
                        StageFacts {
                            receive_window,
                            kept,
                            unverified: size.is_multiple_of(2),
                            reread: size.is_multiple_of(5),
                            ..StageFacts::default()
                        },
                    ),
                );
            }
            Some(Question::Execute(operation)) => {
                self.session.on_answered(operation, answer(ok, (size % u64::from(BLOCK)) as u32 + 1));
            }
            Some(Question::Check(operation)) => self.session.on_checked(operation, answer(ok, ())),
            Some(Question::Verify(operation)) => {
                let bad = Extent::new(size % 7 * 9999, size % 100_000)
                    .into_iter()
                    .filter(|_| size.is_multiple_of(3))
                    .collect();
                let root = (!size.is_multiple_of(4)).then_some([size as u8 % 2; 32]);
                let found = Comparison { root, bad, place: Mismatch::OnTheWay };
                self.session.on_verified(operation, answer(ok, found));
            }
            Some(Question::Commit(operation)) => {
                assert!(self.committing.remove(&operation));
                self.session
                    .on_committed(operation, answer(ok, TargetFacts { safety: Safety::Durable, version: vec![3] }));
            }
        }
    }
}
