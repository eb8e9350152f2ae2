//! Reads the import section of a WebAssembly module: what it asks of its host.
//!
//! Refuses a module whose header, section lengths or strings do not hold together. Used to check
//! that `core` reaches for no host at all: no socket, file or clock can be behind it.
//!
//! Source: WebAssembly Core Specification 1.0, sections 5.2 (values) and 5.5 (modules).

/// The names of all imports, as `module.name`.
///
/// # Errors
///
/// A phrase saying at which byte the module stops making sense.
pub fn imports(module: &[u8]) -> Result<Vec<String>, String> {
    let mut bytes = Reader { bytes: module, at: 0 };
    if bytes.take(8)? != b"\0asm\x01\0\0\0" {
        return Err("not a WebAssembly module of version 1".to_owned());
    }
    let mut names = Vec::new();
    while bytes.at < module.len() {
        let id = bytes.take(1)?[0];
        let length = bytes.number()?;
        let section = bytes.take(length)?;
        if id == 2 {
            let mut section = Reader { bytes: section, at: 0 };
            for _ in 0..section.number()? {
                let module = section.name()?;
                let name = section.name()?;
                names.push(format!("{module}.{name}"));
                section.skip_description()?;
            }
        }
    }
    Ok(names)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count);
        let slice = end.and_then(|end| self.bytes.get(self.at..end));
        let slice = slice.ok_or_else(|| format!("ends inside {count} bytes at {}", self.at))?;
        self.at += count;
        Ok(slice)
    }

    /// An unsigned LEB128 number of at most 32 bits.
    fn number(&mut self) -> Result<usize, String> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|error| error.to_string());
            }
        }
        Err(format!("a number longer than 32 bits at {}", self.at))
    }

    fn name(&mut self) -> Result<String, String> {
        let length = self.number()?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn skip_description(&mut self) -> Result<(), String> {
        match self.take(1)?[0] {
            0 => drop(self.number()?),
            1 => {
                self.take(1)?;
                self.skip_limits()?;
            }
            2 => self.skip_limits()?,
            3 => drop(self.take(2)?),
            other => return Err(format!("import of an unknown kind {other} at {}", self.at)),
        }
        Ok(())
    }

    fn skip_limits(&mut self) -> Result<(), String> {
        let has_maximum = self.take(1)?[0] & 1 == 1;
        self.number()?;
        if has_maximum {
            self.number()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn imports_of_every_kind_are_named() {
        let section = [
            &b"\x04"[..],
            b"\x03env\x01f\x00\x05",
            b"\x03env\x01t\x01\x70\x01\x00\x80\x01",
            b"\x03env\x01m\x02\x00\x01",
            b"\x01w\x01g\x03\x7f\x00",
        ]
        .concat();
        let module =
            [HEADER, b"\x01\x01\x00", b"\x02", &[u8::try_from(section.len()).unwrap()], &section]
                .concat();
        assert_eq!(imports(&module).unwrap(), ["env.f", "env.t", "env.m", "w.g"]);
    }

    #[test]
    fn a_module_without_imports_has_none() {
        assert_eq!(imports(HEADER).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_cut_or_foreign_is_refused() {
        assert!(imports(b"\x7fELF\x01\0\0\0").is_err());
        assert!(imports(&[HEADER, b"\x02\x05\x01"].concat()).is_err());
        assert!(imports(&[HEADER, b"\x02\xff\xff\xff\xff\xff\xff"].concat()).is_err());
        assert!(imports(&[HEADER, b"\x02\x05\x01\x00\x00\x09\x00"].concat()).is_err());
    }
}
