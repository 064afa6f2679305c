//! The policy: raw serde structs, checked into types that cannot be wrong.
