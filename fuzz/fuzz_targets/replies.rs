//! Any bytes, in any pieces, are the same replies and the same violation, within the bounds.
#![no_main]

use aforo::redis::resp::{MAX_DEPTH, MAX_ELEMENTS, Reader, Value, Violation};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (usize, &[u8])| {
    let (piece, stream) = input;
    let whole = read_all(stream, usize::MAX);
    assert_eq!(whole, read_all(stream, piece % 9 + 1));
    for value in &whole.0 {
        let (depth, count) = measure(value);
        assert!(depth <= MAX_DEPTH && count <= MAX_ELEMENTS);
    }
});

fn read_all(stream: &[u8], piece: usize) -> (Vec<Value>, Option<Violation>) {
    let (mut reader, mut values) = (Reader::new(), Vec::new());
    for mut input in stream.chunks(piece) {
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

/// Arrays around the innermost value, and values in all.
fn measure(value: &Value) -> (usize, usize) {
    let Value::Array(items) = value else { return (0, 1) };
    let inner = items.iter().map(measure);
    let (depth, count) = inner.fold((0, 0), |(d, c), (depth, count)| (d.max(depth), c + count));
    (depth + 1, count + 1)
}
