//! `lodectl` as a program.

mod links;
mod verbs;
