//! How a call is written: as a RESP command, or as a list of words.

/// Where a call's words go: a RESP command, or a list.
pub trait Words {
    /// A call of so many words follows.
    fn begin(&mut self, words: usize);

    /// The next word.
    fn word(&mut self, word: &[u8]);

    /// The next word, a number in decimal.
    fn number(&mut self, n: i64) {
        let mut digits = Decimal::new();
        self.word(digits.of(n));
    }
}

/// Writes calls as RESP commands, one after the other.
#[derive(Debug)]
pub struct Commands<'a>(pub &'a mut Vec<u8>);

impl Words for Commands<'_> {
    fn begin(&mut self, words: usize) {
        self.head(b'*', words);
    }

    fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.0.extend_from_slice(word);
        self.0.extend_from_slice(b"\r\n");
    }
}

impl Commands<'_> {
    fn head(&mut self, kind: u8, n: usize) {
        self.0.push(kind);
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        self.0.extend_from_slice(Decimal::new().of(n));
        self.0.extend_from_slice(b"\r\n");
    }
}

/// Collects a call as a list of words. All of them are printable ASCII, but for the script's text.
impl Words for Vec<Vec<u8>> {
    fn begin(&mut self, words: usize) {
        self.reserve(words);
    }

    fn word(&mut self, word: &[u8]) {
        self.push(word.to_vec());
    }
}

/// A number in decimal, without an allocation.
struct Decimal([u8; 20]);

impl Decimal {
    const fn new() -> Self {
        Self([0; 20])
    }

    fn of(&mut self, n: i64) -> &[u8] {
        let mut rest = n.unsigned_abs();
        let mut start = self.0.len();
        for place in self.0.iter_mut().rev() {
            let (tens, digit) = (rest.checked_div(10), rest.checked_rem(10));
            *place = b'0'.saturating_add(u8::try_from(digit.unwrap_or(0)).unwrap_or(0));
            start = start.saturating_sub(1);
            rest = tens.unwrap_or(0);
            if rest == 0 {
                break;
            }
        }
        if n < 0 {
            start = start.saturating_sub(1);
            if let Some(sign) = self.0.get_mut(start) {
                *sign = b'-';
            }
        }
        self.0.get(start..).unwrap_or_default()
    }
}
