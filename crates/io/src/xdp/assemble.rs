//! A small assembler for the kernel's packet programs (eBPF): instructions to 64-bit words.
//!
//! Knows the instructions that our filter uses and no others. Jumps go to labels, forward or back; the kernel's
//! verifier checks everything else. Refuses a label that is missing, doubled, or more than 16 bits away. Source: RFC
//! 9669 (BPF instruction set architecture).

/// A register. `R0` is the result, `R1`..`R5` are arguments and are lost in a call, `R6`..`R9` stay,
/// `R10` is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    /// Result of calls and of the program.
    R0,
    /// First argument; at the start, the context.
    R1,
    /// Second argument.
    R2,
    /// Third argument.
    R3,
    /// Fourth argument.
    R4,
    /// Fifth argument.
    R5,
    /// Kept in calls.
    R6,
    /// Kept in calls.
    R7,
    /// Kept in calls.
    R8,
    /// Kept in calls.
    R9,
    /// Frame pointer, read only.
    R10,
}

/// Bytes of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
}

/// A comparison; both sides without sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
}

/// A function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_redirect_map(map, index, what if there is nothing)`
    RedirectMap,
}

/// A place in the program, by number.
pub type Label = u8;

/// One instruction; `Place` makes no code, `LoadMap` and `LoadValue` make two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// Register = register.
    Move(Register, Register),
    /// Register = number (sign-extended to 64 bits).
    Set(Register, i32),
    /// Register += number.
    AddNumber(Register, i32),
    /// Register &= number.
    And(Register, i32),
    /// Register >>= number, zeros from the left.
    ShiftRight(Register, i32),
    /// First register = memory at second register + offset, zero-extended.
    Load(Width, Register, Register, i16),
    /// 64 bits of memory at first register + offset += second register, in one step.
    AtomicAdd(Register, i16, Register),
    /// Register = the map with this file descriptor.
    LoadMap(Register, i32),
    /// Register = address of byte `.2` in the first value of the map with descriptor `.1`.
    LoadValue(Register, i32, i32),
    /// Goes to the label.
    Jump(Label),
    /// Goes to the label if the low 32 bits of the register compare so with the number.
    JumpIf(Test, Register, u32, Label),
    /// Goes to the label if all 64 bits of the registers compare so.
    JumpIfRegister(Test, Register, Register, Label),
    /// Calls the kernel.
    Call(Helper),
    /// Ends the program with `R0`.
    Exit,
    /// The label is here.
    Place(Label),
}

/// An invalid program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A jump to nowhere.
    #[error("label {0} is used but not placed")]
    Nowhere(Label),
    /// Two places.
    #[error("label {0} is placed twice")]
    Twice(Label),
    /// Too far for the offset's 16 bits.
    #[error("label {0} is further away than 32,767 instructions")]
    TooFar(Label),
}

/// `LoadMap`/`LoadValue`: what the number in the instruction is (`BPF_PSEUDO_MAP_FD`, `_VALUE`).
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

impl Instruction {
    /// Words of code.
    fn len(&self) -> usize {
        match self {
            Instruction::Place(_) => 0,
            Instruction::LoadMap(..) | Instruction::LoadValue(..) => 2,
            _ => 1,
        }
    }
}

/// The words of a program, in the byte order of this host.
pub fn assemble(program: &[Instruction]) -> Result<Vec<u64>, AssembleError> {
    let mut places: [Option<usize>; 256] = [None; 256];
    let mut at = 0;
    for instruction in program {
        if let Instruction::Place(label) = instruction
            && places[usize::from(*label)].replace(at).is_some()
        {
            return Err(AssembleError::Twice(*label));
        }
        at += instruction.len();
    }
    let mut words = Vec::with_capacity(at);
    for instruction in program {
        let here = words.len();
        // Offsets count from the next instruction.
        let to = |label: Label| -> Result<i16, AssembleError> {
            let place = places[usize::from(label)].ok_or(AssembleError::Nowhere(label))?;
            i16::try_from(place as i64 - here as i64 - 1).map_err(|_| AssembleError::TooFar(label))
        };
        match *instruction {
            Instruction::Move(d, s) => words.push(word(0xbf, d as u8, s as u8, 0, 0)),
            Instruction::Set(d, n) => words.push(word(0xb7, d as u8, 0, 0, n)),
            Instruction::AddNumber(d, n) => words.push(word(0x07, d as u8, 0, 0, n)),
            Instruction::And(d, n) => words.push(word(0x57, d as u8, 0, 0, n)),
            Instruction::ShiftRight(d, n) => words.push(word(0x77, d as u8, 0, 0, n)),
            Instruction::Load(width, d, s, offset) => {
                let code = match width {
                    Width::Word => 0x61,
                    Width::Half => 0x69,
                    Width::Byte => 0x71,
                };
                words.push(word(code, d as u8, s as u8, offset, 0));
            }
            Instruction::AtomicAdd(d, offset, s) => {
                words.push(word(0xdb, d as u8, s as u8, offset, 0));
            }
            Instruction::LoadMap(d, fd) => {
                words.push(word(0x18, d as u8, MAP, 0, fd));
                words.push(0);
            }
            Instruction::LoadValue(d, fd, offset) => {
                words.push(word(0x18, d as u8, MAP_VALUE, 0, fd));
                words.push(word(0, 0, 0, 0, offset));
            }
            Instruction::Jump(label) => words.push(word(0x05, 0, 0, to(label)?, 0)),
            Instruction::JumpIf(test, d, n, label) => {
                // Class JMP32: the number is not sign-extended against a 64-bit register.
                words.push(word(0x06 | condition(test), d as u8, 0, to(label)?, n as i32));
            }
            Instruction::JumpIfRegister(test, d, s, label) => {
                let code = 0x0d | condition(test);
                words.push(word(code, d as u8, s as u8, to(label)?, 0));
            }
            Instruction::Call(Helper::RedirectMap) => words.push(word(0x85, 0, 0, 0, 51)),
            Instruction::Exit => words.push(word(0x95, 0, 0, 0, 0)),
            Instruction::Place(_) => {}
        }
    }
    Ok(words)
}

fn condition(test: Test) -> u8 {
    match test {
        Test::Equal => 0x10,
        Test::Greater => 0x20,
        Test::NotEqual => 0x50,
    }
}

/// Encodes one instruction as the kernel's `struct bpf_insn` in this host's byte order.
fn word(code: u8, destination: u8, source: u8, offset: i16, number: i32) -> u64 {
    let registers = match cfg!(target_endian = "big") {
        false => source << 4 | destination,
        true => destination << 4 | source,
    };
    let mut bytes = [0; 8];
    bytes[0] = code;
    bytes[1] = registers;
    bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
    bytes[4..8].copy_from_slice(&number.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::Instruction::*;
    use super::Register::*;
    use super::*;

    /// Golden words, from `llvm-mc --triple=bpfel --show-encoding` of the text in each comment (the
    /// bytes in memory order, read as one little-endian number).
    #[test]
    fn each_instruction_has_its_published_encoding() {
        let golden: [(Instruction, &[u64]); 14] = [
            (Move(R6, R1), &[0x0000_0000_0000_16bf]),      // r6 = r1
            (Set(R0, 2), &[0x0000_0002_0000_00b7]),        // r0 = 2
            (Set(R0, -1), &[0xffff_ffff_0000_00b7]),       // r0 = -1
            (AddNumber(R1, 14), &[0x0000_000e_0000_0107]), // r1 += 14
            (And(R2, 15), &[0x0000_000f_0000_0257]),       // r2 &= 15
            (ShiftRight(R3, 4), &[0x0000_0004_0000_0377]), // r3 >>= 4
            (Load(Width::Word, R7, R6, 0), &[0x6761]),     // r7 = *(u32 *)(r6 + 0)
            (Load(Width::Half, R5, R7, 12), &[0x0000_0000_000c_7569]), // r5 = *(u16 *)(r7 + 12)
            (Load(Width::Byte, R2, R7, -1), &[0x0000_0000_ffff_7271]), // r2 = *(u8 *)(r7 - 1)
            (AtomicAdd(R2, 8, R1), &[0x0000_0000_0008_12db]), // lock *(u64 *)(r2 + 8) += r1
            (LoadMap(R1, 5), &[0x0000_0005_0000_1118, 0]), // BPF_LD_MAP_FD(R1, 5)
            (LoadValue(R2, 6, 16), &[0x0000_0006_0000_2218, 0x0000_0010_0000_0000]),
            (Call(Helper::RedirectMap), &[0x0000_0033_0000_0085]), // call 51
            (Exit, &[0x95]),                                       // exit
        ];
        for (instruction, words) in golden {
            assert_eq!(assemble(&[instruction]).unwrap(), words, "{instruction:?}");
        }
    }

    #[test]
    fn jumps_count_from_the_next_instruction_and_over_double_words() {
        let program = [
            JumpIf(Test::NotEqual, R2, 17, 9), // if w2 != 17 goto +4
            JumpIf(Test::Equal, R5, 0x8000_0000, 9),
            LoadMap(R1, 1),
            Jump(9), // goto +0
            Place(9),
            JumpIfRegister(Test::Greater, R1, R8, 9), // if r1 > r8 goto -1
            JumpIf(Test::Greater, R2, 20, 9),         // if w2 > 20 goto -2
        ];
        assert_eq!(
            assemble(&program).unwrap(),
            [
                0x0000_0011_0004_0256,
                0x8000_0000_0003_0516,
                0x0000_0001_0000_1118,
                0,
                0x0000_0000_0000_0005,
                0x0000_0000_ffff_812d,
                0x0000_0014_fffe_0226,
            ]
        );
    }

    #[test]
    fn labels_must_be_placed_once_and_near() {
        assert_eq!(assemble(&[Jump(3)]), Err(AssembleError::Nowhere(3)));
        assert_eq!(assemble(&[Place(3), Place(3)]), Err(AssembleError::Twice(3)));
        let mut far = vec![Jump(1)];
        far.extend([Exit; 32_767]);
        far.push(Place(1));
        assert_eq!(assemble(&far).unwrap()[0], 0x7fff_0005);
        far.insert(1, Exit);
        assert_eq!(assemble(&far), Err(AssembleError::TooFar(1)));
        assert!(AssembleError::TooFar(1).to_string().contains("32,767"));
    }
}
