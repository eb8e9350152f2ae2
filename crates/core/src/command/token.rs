//! The token that opens the control port for clients of other machines.
//!
//! Refuses what is too short to keep anybody out. Comparing takes the same time whatever is sent.

use std::fmt;
use std::hint::black_box;

/// Shortest token, bytes.
pub const SHORTEST: usize = 16;
/// Longest token, bytes.
pub const LONGEST: usize = 256;

/// A token that nobody could send, or that everybody could find.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {SHORTEST} to {LONGEST} visible ASCII characters and no blanks; this one has {0}"
)]
pub struct TokenError(String);

/// A secret word.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    bytes: [u8; LONGEST],
    len: usize,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Token {
    /// The word in a file: blanks and newlines around it are none of it.
    ///
    /// # Errors
    /// It is too short or too long, or holds what no word of a command can.
    pub fn read(text: &str) -> Result<Token, TokenError> {
        let word = text.trim().as_bytes();
        if !(SHORTEST..=LONGEST).contains(&word.len()) {
            return Err(TokenError(format!("{} characters", word.len())));
        }
        if !word.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError("others".into()));
        }
        Ok(Token { bytes: padded(word), len: word.len() })
    }

    /// True if `word` is the token. Takes the same time for any word of up to 256 bytes; longer ones are none.
    pub fn is(&self, word: &[u8]) -> bool {
        let other = padded(&word[..word.len().min(LONGEST)]);
        let mut different = u8::from(self.len != word.len());
        for (a, b) in self.bytes.iter().zip(&other) {
            different |= black_box(a ^ b);
        }
        black_box(different) == 0
    }
}

fn padded(word: &[u8]) -> [u8; LONGEST] {
    let mut bytes = [0; LONGEST];
    bytes[..word.len()].copy_from_slice(word);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_is_the_token() {
        let token = Token::read(" abcdefghijklmnop\n").unwrap();
        assert!(token.is(b"abcdefghijklmnop"));
        for other in
            [&b""[..], b"abcdefghijklmno", b"abcdefghijklmnoq", b"abcdefghijklmnop\0", &[b'a'; 300]]
        {
            assert!(!token.is(other));
        }
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        for bad in ["", "short", &"x".repeat(257), "abcdefgh ijklmnop", "abcdefghijklmn\u{e4}p"] {
            assert!(Token::read(bad).unwrap_err().to_string().contains("16 to 256"), "{bad}");
        }
    }
}
