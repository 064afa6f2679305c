//! RESP2: what Redis answers.

/// One reply of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+OK`
    Status(Vec<u8>),
    /// `-NOSCRIPT …`
    Error(Vec<u8>),
    /// `:1`
    Integer(i64),
    /// `$3\r\nabc`
    Bulk(Vec<u8>),
    /// `$-1` or `*-1`
    Nil,
    /// `*2…`
    Array(Vec<Value>),
}
