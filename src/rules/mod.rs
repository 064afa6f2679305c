//! Which limits apply to a request, and the key, plan and cost of each.
