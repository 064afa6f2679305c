//! One integration binary: everything that is seen from outside a module.

mod policy;
mod reply;
mod reply_fields;
mod reply_merge;
mod reply_policy;
