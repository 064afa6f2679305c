//! Verdicts turned into headers and bodies.
