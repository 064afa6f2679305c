//! RESP2, the protocol of Redis: an incremental reader of replies and the writers of commands.
//!
//! The reader keeps no unread input: it takes bytes as they come, in whatever pieces, and holds only
//! the reply it is in the middle of. What a server announces never allocates anything; what it sends
//! is bounded. It knows nothing of who asked; that is [`super::pipeline`].

use std::fmt;

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

/// Why a stream of replies cannot be read on. Its connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A reply began with this byte, which is no RESP2 type.
    UnknownType(u8),
    /// A line did not end in `\r\n`, or a bulk string was not followed by it.
    LineEnd,
    /// An integer or a length was not a decimal number in range.
    Number,
    /// Arrays nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A reply of more than [`MAX_REPLY_BYTES`], announced or sent.
    TooLarge,
    /// A reply of more than [`MAX_ELEMENTS`] values, announced or sent.
    TooManyElements,
    /// A reply that nobody asked for.
    Unasked,
}

impl Violation {
    /// A short name for metrics and logs: `[a-z_]+`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownType(_) => "unknown_type",
            Self::LineEnd => "line_end",
            Self::Number => "number",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::TooManyElements => "too_many_elements",
            Self::Unasked => "unasked",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) => write!(f, "0x{byte:02x} begins no RESP2 reply"),
            Self::LineEnd => f.write_str("a line of a reply does not end in CR LF"),
            Self::Number => {
                f.write_str("a length or an integer of a reply is not a number in range")
            }
            Self::TooDeep => write!(f, "a reply is nested deeper than {MAX_DEPTH} arrays"),
            Self::TooLarge => write!(f, "a reply is larger than {MAX_REPLY_BYTES} bytes"),
            Self::TooManyElements => write!(f, "a reply has more than {MAX_ELEMENTS} values"),
            Self::Unasked => f.write_str("a reply came that nobody asked for"),
        }
    }
}

impl std::error::Error for Violation {}

/// Most bytes of one reply, its protocol bytes included.
pub const MAX_REPLY_BYTES: usize = 64 * 1024;
/// Most values in one reply, arrays themselves included.
pub const MAX_ELEMENTS: usize = 4096;
/// Most arrays around a value.
pub const MAX_DEPTH: usize = 4;

/// Reads a stream of replies, in pieces of any size, in time linear in the bytes.
///
/// Call [`Reader::read`] until it answers `None` for each piece that arrives. After a violation it
/// answers with the same violation for ever: nobody can know where the next reply would begin.
#[derive(Debug, Default)]
pub struct Reader {
    /// What is being read now.
    part: Part,
    /// The arrays around it, outermost first.
    open: Vec<Open>,
    /// Bytes of the current reply so far.
    size: usize,
    /// Values of the current reply so far, counting those that open arrays have announced.
    values: usize,
    broken: Option<Violation>,
}

/// A piece of a reply whose end has not come.
#[derive(Debug, Default)]
enum Part {
    /// The byte that says what comes.
    #[default]
    Type,
    /// The rest of the line that began with `kind`; `cr` once its `\r` was seen.
    Line { kind: u8, text: Vec<u8>, cr: bool },
    /// A bulk string of which `left` bytes have not come, its `\r\n` included.
    Bulk { data: Vec<u8>, left: usize },
}

/// An array of which `left` values have not come.
#[derive(Debug)]
struct Open {
    items: Vec<Value>,
    left: usize,
}

impl Reader {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes from the front of `input` up to the end of the next whole reply. `None`: all of
    /// `input` was taken and the reply goes on.
    ///
    /// # Errors
    /// When the stream is no RESP2, or a reply is beyond the bounds.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Violation> {
        if let Some(violation) = self.broken {
            return Err(violation);
        }
        let read = self.reply(input);
        if let Err(violation) = read {
            *self = Self {
                broken: Some(violation),
                ..Self::default()
            };
        }
        read
    }

    /// Whether a reply has begun and not ended.
    #[must_use]
    pub fn is_inside_a_reply(&self) -> bool {
        self.size > 0
    }

    fn reply(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Violation> {
        while !input.is_empty() {
            let Some(value) = self.step(input)? else {
                continue;
            };
            if let Some(whole) = self.place(value) {
                (self.size, self.values) = (0, 0);
                return Ok(Some(whole));
            }
        }
        Ok(None)
    }

    /// Goes on with the current part. `Some` when that completes a value that is not an open array.
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Value>, Violation> {
        match &mut self.part {
            Part::Type => {
                let Some((&kind, rest)) = input.split_first() else {
                    return Ok(None);
                };
                *input = rest;
                if !b"+-:$*".contains(&kind) {
                    return Err(Violation::UnknownType(kind));
                }
                self.count_bytes(1)?;
                self.part = Part::Line {
                    kind,
                    text: Vec::new(),
                    cr: false,
                };
                Ok(None)
            }
            Part::Line {
                kind,
                text,
                cr: true,
            } => {
                let Some((b'\n', rest)) = input.split_first() else {
                    return Err(Violation::LineEnd);
                };
                *input = rest;
                let (kind, text) = (*kind, std::mem::take(text));
                self.part = Part::Type;
                self.count_bytes(1)?;
                self.line(kind, text)
            }
            Part::Line { kind, text, cr } => {
                let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                let (piece, rest) = input.split_at(end.unwrap_or(input.len()));
                let bound = if matches!(kind, b'+' | b'-') {
                    MAX_REPLY_BYTES
                } else {
                    MAX_DIGITS
                };
                if text.len().saturating_add(piece.len()) > bound {
                    let text_kind = bound == MAX_REPLY_BYTES;
                    return Err(if text_kind {
                        Violation::TooLarge
                    } else {
                        Violation::Number
                    });
                }
                text.extend_from_slice(piece);
                let taken = match rest.split_first() {
                    Some((b'\r', rest)) => {
                        *cr = true;
                        *input = rest;
                        piece.len().saturating_add(1)
                    }
                    Some(_) => return Err(Violation::LineEnd),
                    None => {
                        *input = rest;
                        piece.len()
                    }
                };
                self.count_bytes(taken)?;
                Ok(None)
            }
            Part::Bulk { data, left } => {
                // Its size was counted when it was announced.
                let (piece, rest) = input.split_at(input.len().min(*left));
                data.extend_from_slice(piece);
                *left = left.saturating_sub(piece.len());
                *input = rest;
                if *left > 0 {
                    return Ok(None);
                }
                let mut data = std::mem::take(data);
                self.part = Part::Type;
                if !data.ends_with(b"\r\n") {
                    return Err(Violation::LineEnd);
                }
                data.truncate(data.len().saturating_sub(2));
                Ok(Some(Value::Bulk(data)))
            }
        }
    }

    /// A whole line. `None` when it opens a bulk string or an array that is not empty.
    fn line(&mut self, kind: u8, text: Vec<u8>) -> Result<Option<Value>, Violation> {
        match kind {
            b'+' => return Ok(Some(Value::Status(text))),
            b'-' => return Ok(Some(Value::Error(text))),
            _ => {}
        }
        let number = std::str::from_utf8(&text)
            .ok()
            .and_then(|digits| digits.parse::<i64>().ok());
        let number = number.ok_or(Violation::Number)?;
        if kind == b':' {
            return Ok(Some(Value::Integer(number)));
        }
        if number == -1 {
            return Ok(Some(Value::Nil));
        }
        let length = usize::try_from(number).map_err(|_| {
            if number < 0 {
                Violation::Number
            } else {
                Violation::TooLarge
            }
        })?;
        if kind == b'$' {
            let left = length.saturating_add(2);
            self.count_bytes(left)?;
            self.part = Part::Bulk {
                data: Vec::new(),
                left,
            };
            return Ok(None);
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Violation::TooDeep);
        }
        self.values = self.values.saturating_add(length);
        // The outermost array is a value too, and was not announced by another.
        if self.values.saturating_add(1) > MAX_ELEMENTS {
            return Err(Violation::TooManyElements);
        }
        if length == 0 {
            return Ok(Some(Value::Array(Vec::new())));
        }
        self.open.push(Open {
            items: Vec::new(),
            left: length,
        });
        Ok(None)
    }

    /// Puts a value into the array around it. `Some` when that, or the value itself, is a whole reply.
    fn place(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(array) = self.open.last_mut() else {
                return Some(value);
            };
            array.items.push(value);
            array.left = array.left.saturating_sub(1);
            if array.left > 0 {
                return None;
            }
            value = Value::Array(self.open.pop()?.items);
        }
    }

    fn count_bytes(&mut self, n: usize) -> Result<(), Violation> {
        self.size = self.size.saturating_add(n);
        if self.size > MAX_REPLY_BYTES {
            Err(Violation::TooLarge)
        } else {
            Ok(())
        }
    }
}

/// Appends one command: every word as a bulk string, so that any bytes in it are safe.
pub fn write_command<W: AsRef<[u8]>>(out: &mut Vec<u8>, words: &[W]) {
    write_array_header(out, words.len());
    for word in words {
        write_bulk(out, word.as_ref());
    }
}

/// The words of one command as [`write_command`] writes it. `None` when it is not exactly that.
#[must_use]
pub fn words(command: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = header(command, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, after) = header(rest, b'$')?;
        let word = after.get(..length)?;
        rest = after.get(length..)?.strip_prefix(b"\r\n")?;
        words.push(word);
    }
    rest.is_empty().then_some(words)
}

/// The number in a header of this kind, and what follows it.
fn header(bytes: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let rest = bytes.strip_prefix(&[kind])?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
    Some((
        digits.parse().ok()?,
        rest.get(end..)?.strip_prefix(b"\r\n")?,
    ))
}

/// Appends the head of an array of `n` values, which must follow.
pub fn write_array_header(out: &mut Vec<u8>, n: usize) {
    out.push(b'*');
    write_decimal(out, n as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends a bulk string.
pub fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    write_decimal(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as a bulk string of its decimal digits.
pub fn write_bulk_number(out: &mut Vec<u8>, n: u64) {
    let digits = n
        .checked_ilog10()
        .map_or(1, |log| u64::from(log).saturating_add(1));
    out.push(b'$');
    write_decimal(out, digits);
    out.extend_from_slice(b"\r\n");
    write_decimal(out, n);
    out.extend_from_slice(b"\r\n");
}

fn write_decimal(out: &mut Vec<u8>, mut n: u64) {
    let start = out.len();
    loop {
        out.push(b'0'.saturating_add((n % 10) as u8));
        n /= 10;
        if n == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Longest line of digits: a sign, the 19 digits of an `i64`, and a few leading zeros.
const MAX_DIGITS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything that one stream says, in pieces of at most `piece` bytes.
    fn read_all(stream: &[u8], piece: usize) -> (Vec<Value>, Option<Violation>) {
        let (mut reader, mut values) = (Reader::new(), Vec::new());
        for mut input in stream.chunks(piece.max(1)) {
            loop {
                match reader.read(&mut input) {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => break,
                    Err(violation) => return (values, Some(violation)),
                }
            }
        }
        (values, None)
    }

    fn one(stream: &[u8]) -> Result<Value, Violation> {
        let (mut values, violation) = read_all(stream, usize::MAX);
        violation.map_or_else(|| Ok(values.remove(0)), Err)
    }

    fn encode(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Status(text) => out.extend([b"+", text.as_slice(), b"\r\n"].concat()),
            Value::Error(text) => out.extend([b"-", text.as_slice(), b"\r\n"].concat()),
            Value::Integer(n) => out.extend(format!(":{n}\r\n").bytes()),
            Value::Bulk(bytes) => write_bulk(out, bytes),
            Value::Nil => out.extend(b"$-1\r\n"),
            Value::Array(items) => {
                write_array_header(out, items.len());
                items.iter().for_each(|item| encode(item, out));
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let line = proptest::collection::vec(any::<u8>(), 0..40).prop_map(|mut text| {
            text.retain(|byte| !b"\r\n".contains(byte));
            text
        });
        let leaf = prop_oneof![
            line.clone().prop_map(Value::Status),
            line.prop_map(Value::Error),
            any::<i64>().prop_map(Value::Integer),
            proptest::collection::vec(any::<u8>(), 0..200).prop_map(Value::Bulk),
            Just(Value::Nil),
        ];
        leaf.prop_recursive(MAX_DEPTH as u32, 64, 6, |inner| {
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array)
        })
    }

    /// Bytes that look like RESP often enough to get deep into the reader.
    fn almost_resp() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\r\n".to_vec()),
            Just(b"*".to_vec()),
            Just(b"$".to_vec()),
            Just(b"*2\r\n".to_vec()),
            Just(b"$3\r\nabc\r\n".to_vec()),
            Just(b":-".to_vec()),
            Just(b"-ERR x".to_vec()),
            any::<i64>().prop_map(|n| n.to_string().into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..8),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn replies_survive_the_wire_in_pieces_of_any_size(
            replies in proptest::collection::vec(values(), 1..6),
            piece in 1_usize..64,
        ) {
            let mut stream = Vec::new();
            replies.iter().for_each(|reply| encode(reply, &mut stream));
            prop_assert_eq!(read_all(&stream, piece), (replies, None));
        }

        #[test]
        fn any_bytes_end_in_values_or_a_violation_the_same_in_any_pieces(
            stream in almost_resp(),
            piece in 1_usize..16,
        ) {
            prop_assert_eq!(read_all(&stream, piece), read_all(&stream, usize::MAX));
            let _ = super::words(&stream);
        }

        #[test]
        fn commands_are_arrays_of_their_words(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..8),
            number in any::<u64>(),
        ) {
            let mut out = Vec::new();
            write_command(&mut out, &words);
            prop_assert_eq!(super::words(&out), Some(words.iter().map(Vec::as_slice).collect()));
            prop_assert_eq!(super::words(&out[..out.len() - 1]), None);
            let expected = Value::Array(words.into_iter().map(Value::Bulk).collect());
            prop_assert_eq!(one(&out), Ok(expected));
            out.clear();
            write_bulk_number(&mut out, number);
            prop_assert_eq!(one(&out), Ok(Value::Bulk(number.to_string().into_bytes())));
        }
    }

    #[test]
    fn what_is_no_resp2_is_a_violation_with_its_kind() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        let wide = format!("*{MAX_ELEMENTS}\r\n");
        let nested_wide = format!("*2\r\n*{}\r\n", MAX_ELEMENTS - 2);
        let long_line = [b"+".as_slice(), &vec![b'x'; MAX_REPLY_BYTES]].concat();
        for (stream, violation) in [
            (
                b"HTTP/1.1 200 OK\r\n".as_slice(),
                Violation::UnknownType(b'H'),
            ),
            (b"%1\r\n", Violation::UnknownType(b'%')),
            (b"\r\n", Violation::UnknownType(b'\r')),
            (b"+OK\n", Violation::LineEnd),
            (b"+O\rK\r\n", Violation::LineEnd),
            (b"$1\r\nabc", Violation::LineEnd),
            (b":\r\n", Violation::Number),
            (b": 1\r\n", Violation::Number),
            (b":1.0\r\n", Violation::Number),
            (b":9223372036854775808\r\n", Violation::Number),
            (b":00000000000000000000000000000001\r\n", Violation::Number),
            (b"$-2\r\n", Violation::Number),
            (b"*-2\r\n", Violation::Number),
            (b"$5242880\r\n", Violation::TooLarge),
            (b"$9223372036854775807\r\n", Violation::TooLarge),
            (b"*9223372036854775807\r\n", Violation::TooManyElements),
            (wide.as_bytes(), Violation::TooManyElements),
            (nested_wide.as_bytes(), Violation::TooManyElements),
            (deep.as_bytes(), Violation::TooDeep),
            (&long_line, Violation::TooLarge),
        ] {
            let text = String::from_utf8_lossy(stream.get(..40).unwrap_or(stream)).into_owned();
            assert_eq!(read_all(stream, usize::MAX).1, Some(violation), "{text:?}");
            assert_eq!(
                read_all(stream, 1).1,
                Some(violation),
                "{text:?} byte by byte"
            );
        }
    }

    #[test]
    fn replies_at_the_bounds_are_read() {
        let deep = format!("{}:1\r\n", "*1\r\n".repeat(MAX_DEPTH));
        assert!(one(deep.as_bytes()).is_ok());
        let wide = format!(
            "*{}\r\n{}",
            MAX_ELEMENTS - 1,
            ":1\r\n".repeat(MAX_ELEMENTS - 1)
        );
        assert!(one(wide.as_bytes()).is_ok());
        let long = [b"+".as_slice(), &vec![b'x'; MAX_REPLY_BYTES - 3], b"\r\n"].concat();
        assert!(one(&long).is_ok());
        // The bounds are for one reply, not for a stream.
        assert_eq!(read_all(&long.repeat(3), 1000).0.len(), 3);
    }

    #[test]
    fn a_broken_stream_stays_broken_and_keeps_what_came_before() {
        let mut reader = Reader::new();
        let mut input = b":1\r\nx:2\r\n".as_slice();
        assert_eq!(reader.read(&mut input), Ok(Some(Value::Integer(1))));
        assert_eq!(reader.read(&mut input), Err(Violation::UnknownType(b'x')));
        assert_eq!(
            reader.read(&mut b":2\r\n".as_slice()),
            Err(Violation::UnknownType(b'x'))
        );
    }
}
