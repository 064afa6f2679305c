//! One integration binary: everything that is seen from outside a module.
