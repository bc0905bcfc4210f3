//! Whether every run comes to its end: no state is reached twice on one way, and no way is longer than a bound.
//!
//! A property that holds eventually is no proof where ways can lead back or grow for ever: this looks at every way there is. Of a
//! state that was left, the longest way on is known; one that is met again while it is still on the way is a cycle.

use crate::marked::mark_of;
use crate::search::Searched;
use stateright::Model;
use std::collections::HashMap;
use std::hash::Hash;

/// No run of a setting takes as many steps as this, by far: the longest of all is told with each search.
pub const STEPS_MAX: usize = 2_000;

/// A run that does not end.
#[derive(Debug)]
pub struct Endless<A> {
    /// The steps to where that shows.
    pub way: Vec<A>,
    /// What shows.
    pub why: &'static str,
}

/// A state on the present way, with the steps that were not taken yet.
struct Place<M: Model> {
    state: M::State,
    mark: u64,
    left: Vec<M::Action>,
    /// The longest way on that is known.
    longest: usize,
    /// The step that led on from here.
    taken: Option<M::Action>,
}

/// Steps of the longest run there is.
pub fn longest_run<S: Searched>(setting: &S) -> Result<usize, Endless<S::Action>>
where
    S::State: Hash,
    S::Action: Clone,
{
    // None while the state is on the present way.
    let mut known: HashMap<u64, Option<usize>> = HashMap::new();
    let mut longest = 0;
    for state in setting.init_states() {
        let mut way = vec![place(setting, state)];
        known.insert(way[0].mark, None);
        while let Some(top) = way.last_mut() {
            let Some(action) = top.left.pop() else {
                let (mark, length) = (top.mark, top.longest);
                known.insert(mark, Some(length));
                way.pop();
                match way.last_mut() {
                    Some(before) => before.longest = before.longest.max(length + 1),
                    None => longest = longest.max(length),
                }
                continue;
            };
            top.taken = Some(action.clone());
            let Some(next) = setting.next_state(&top.state, action).filter(|next| setting.within_boundary(next)) else {
                continue;
            };
            let mark = mark_of(&next);
            match known.get(&mark) {
                Some(Some(length)) => top.longest = top.longest.max(length + 1),
                Some(None) => return Err(endless(way, "a state comes again")),
                None if way.len() >= STEPS_MAX => return Err(endless(way, "it is longer than any run may be")),
                None => {
                    known.insert(mark, None);
                    way.push(place(setting, next));
                }
            }
        }
    }
    Ok(longest)
}

fn place<S: Searched>(setting: &S, state: S::State) -> Place<S>
where
    S::State: Hash,
{
    let mut left = Vec::new();
    setting.actions(&state, &mut left);
    Place { mark: mark_of(&state), state, left, longest: 0, taken: None }
}

fn endless<S: Searched>(way: Vec<Place<S>>, why: &'static str) -> Endless<S::Action> {
    Endless { way: way.into_iter().filter_map(|place| place.taken).collect(), why }
}
