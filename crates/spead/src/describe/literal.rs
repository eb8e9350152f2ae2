//! Literals of Python: what a NumPy header is written in.
//!
//! Strings, integers, `True`, `False`, `None`, tuples, lists, dictionaries; spaces and trailing commas as Python allows them.
//! Refuses everything else, and more than 16 levels. Source: Python Language Reference, 2.4; `docs/formats/spead.md`, section 4.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `'x'` or `"x"`.
    Text(String),
    /// `12`.
    Number(i64),
    /// `True` or `False`.
    Bool(bool),
    /// `None`.
    None,
    /// `(1, 2)`.
    Tuple(Vec<Literal>),
    /// `[1, 2]`.
    List(Vec<Literal>),
    /// `{'a': 1}`.
    Dict(Vec<(Literal, Literal)>),
}

/// Where a text stops being a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no Python literal at character {at}: {what}")]
pub struct LiteralError {
    /// Position.
    pub at: usize,
    /// What was found.
    pub what: &'static str,
}

const DEEPEST: usize = 16;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Literal {
    /// Reads a text that is one literal.
    ///
    /// # Errors
    /// The place where it is not.
    pub fn parse(text: &str) -> Result<Literal, LiteralError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0 };
        let value = parser.value()?;
        parser.space();
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err(parser.no("something behind the end")),
        }
    }
}

impl Parser<'_> {
    fn no(&self, what: &'static str) -> LiteralError {
        LiteralError { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Literal, LiteralError> {
        self.space();
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.no("too many levels"));
        }
        let value = match self.peek() {
            Some(b'\'' | b'"') => self.text().map(Literal::Text),
            Some(b'(') => self.tuple(),
            Some(b'[') => self.items(b']').map(|(items, _)| Literal::List(items)),
            Some(b'{') => self.dict(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'u' | b'b') if matches!(self.text.get(self.at + 1), Some(b'\'' | b'"')) => {
                self.at += 1;
                self.text().map(Literal::Text)
            }
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Result<Literal, LiteralError> {
        let words = [
            ("True", Literal::Bool(true)),
            ("False", Literal::Bool(false)),
            ("None", Literal::None),
        ];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.no("neither text, number, True, False, None nor a bracket"))
    }

    fn number(&mut self) -> Result<Literal, LiteralError> {
        let begin = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[begin..self.at]).unwrap_or("");
        let number = digits.parse().map_err(|_| self.no("no integer of 64 bits"))?;
        // As Python 2 wrote long integers.
        self.at += usize::from(self.peek() == Some(b'L'));
        Ok(Literal::Number(number))
    }

    fn text(&mut self) -> Result<String, LiteralError> {
        let quote = self.peek();
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek().ok_or(self.no("a text without its end"))?;
            self.at += 1;
            match byte {
                b if Some(b) == quote => break,
                b'\\' => {
                    let next = self.peek().ok_or(self.no("a text without its end"))?;
                    self.at += 1;
                    self.escape(next, &mut bytes)?;
                }
                b => bytes.push(b),
            }
        }
        String::from_utf8(bytes).map_err(|_| self.no("a text that is not UTF-8"))
    }

    fn escape(&mut self, next: u8, bytes: &mut Vec<u8>) -> Result<(), LiteralError> {
        match next {
            b'\\' | b'\'' | b'"' => bytes.push(next),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'x' => {
                let digits = self.text.get(self.at..self.at + 2);
                let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
                let code = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                let code = code.ok_or(self.no("no escape"))?;
                self.at += 2;
                bytes.extend(char::from(code).to_string().bytes());
            }
            _ => return Err(self.no("no escape")),
        }
        Ok(())
    }

    /// Values up to `end`, and whether a comma stood among them.
    fn items(&mut self, end: u8) -> Result<(Vec<Literal>, bool), LiteralError> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.eat(end) {
            if !items.is_empty() && !comma {
                return Err(self.no("no comma"));
            }
            items.push(self.value()?);
            let more = self.eat(b',');
            comma = more;
            if !more {
                return match self.eat(end) {
                    true => {
                        let comma = items.len() > 1;
                        Ok((items, comma))
                    }
                    false => Err(self.no("neither a comma nor the end")),
                };
            }
        }
        Ok((items, comma))
    }

    fn tuple(&mut self) -> Result<Literal, LiteralError> {
        let (mut items, comma) = self.items(b')')?;
        // One value in brackets is that value.
        match (items.len(), comma) {
            (1, false) => Ok(items.remove(0)),
            _ => Ok(Literal::Tuple(items)),
        }
    }

    fn dict(&mut self) -> Result<Literal, LiteralError> {
        self.at += 1;
        let mut entries = Vec::new();
        while !self.eat(b'}') {
            let key = self.value()?;
            if !self.eat(b':') {
                return Err(self.no("no colon"));
            }
            entries.push((key, self.value()?));
            if !self.eat(b',') {
                return match self.eat(b'}') {
                    true => Ok(Literal::Dict(entries)),
                    false => Err(self.no("neither a comma nor the end")),
                };
            }
        }
        Ok(Literal::Dict(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_python_reads() {
        let number = Literal::Number;
        let of = |text: &str| Literal::parse(text).unwrap();
        assert_eq!(of(" ( ) "), Literal::Tuple(vec![]));
        assert_eq!(of("(4,)"), Literal::Tuple(vec![number(4)]));
        assert_eq!(of("(4)"), number(4));
        assert_eq!(of("(4, -3L, )"), Literal::Tuple(vec![number(4), number(-3)]));
        assert_eq!(of("[]"), Literal::List(vec![]));
        assert_eq!(of("{}"), Literal::Dict(vec![]));
        assert_eq!(of("\"it's\""), Literal::Text("it's".into()));
        assert_eq!(of(r"'\x41\'\\'"), Literal::Text("A'\\".into()));
        let entry = (Literal::Text("a".into()), Literal::Bool(true));
        assert_eq!(of("{'a' : True,}"), Literal::Dict(vec![entry]));
        for bad in [
            "",
            "(",
            "(,)",
            "(1 2)",
            "{1}",
            "{1:2 3:4}",
            "'a",
            "1 2",
            "True1",
            "99999999999999999999",
            "{,}",
        ] {
            assert!(Literal::parse(bad).is_err(), "{bad}");
        }
        assert!(Literal::parse(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_literal_or_none(text in "[\\[\\](){}'\",: 0-9a-zTF\\\\-]{0,60}") {
            let _ = Literal::parse(&text);
        }
    }
}
