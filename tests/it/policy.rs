//! Policies: what loads, what is refused with which words, and what is selected.

mod cost;
mod facts;
mod load;
mod random;
mod select;
