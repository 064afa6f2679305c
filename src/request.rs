//! What a rule may know of a request. No host types: the host implements [`Facts`].

/// The facts of one request, asked for only when a rule needs them.
pub trait Facts {
    /// The value of a request header, by its lower-case name, as raw bytes that need not be UTF-8.
    /// `:method`, `:path` and `:authority` are headers too. Several lines of one header come joined
    /// by `,`. `None` when absent; `Some` of nothing when present and empty.
    fn header(&self, name: &str) -> Option<Vec<u8>>;

    /// An Envoy attribute by its path, such as `["source", "address"]`, in the host's raw encoding
    /// (text as is, integers as 8 bytes little-endian, booleans as 1 byte).
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;
}
