//! The stack machine.

use super::{
    Id, MAX_VALUES, PickleFault, Value,
    memo::Memo,
    opcode as op,
    value::{Items, Pickle, Text},
};

/// Reads the pickle at the front of `bytes`.
pub(crate) fn load(bytes: &[u8]) -> Result<Pickle<'_>, PickleFault> {
    let mut machine = Machine {
        bytes,
        at: 0,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memo::default(),
    };
    for value in [Value::None, Value::Bool(false), Value::Bool(true), Value::Tuple(Vec::new())] {
        machine.make(value)?;
    }
    for n in 0..=255 {
        machine.make(Value::Int(n))?;
    }
    while machine.step()? {}
    let root = machine.pop()?;
    Ok(Pickle { bytes, values: machine.values, root, len: machine.at })
}

// Values that stand in every arena, so that the commonest opcodes make none.
const NONE: Id = Id(0);
const FALSE: Id = Id(1);
const TRUE: Id = Id(2);
const EMPTY_TUPLE: Id = Id(3);
const INTS: u32 = 4;

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: Memo,
}

type Outcome<T> = Result<T, PickleFault>;

fn bad<T>(why: impl Into<String>) -> Outcome<T> {
    Err(PickleFault::Bad(why.into()))
}

impl<'a> Machine<'a> {
    /// Runs one opcode; false after `STOP`.
    fn step(&mut self) -> Outcome<bool> {
        let opcode = self.array::<1>()?[0];
        match opcode {
            op::STOP => return Ok(false),
            op::PROTO => drop(self.array::<1>()?),
            op::FRAME => drop(self.array::<8>()?),
            op::MARK => self.marks.push(self.stack.len()),
            op::POP if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            op::POP => drop(self.pop()?),
            op::POP_MARK => drop(self.pop_mark()?),
            op::DUP => self.stack.push(self.top()?),
            op::NONE => self.stack.push(NONE),
            op::NEWTRUE => self.stack.push(TRUE),
            op::NEWFALSE => self.stack.push(FALSE),
            op::EMPTY_TUPLE => self.stack.push(EMPTY_TUPLE),
            op::BININT1 => {
                let n = self.array::<1>()?[0];
                self.stack.push(Id(INTS + u32::from(n)));
            }
            op::PUT | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => {
                let index = match opcode {
                    op::MEMOIZE => self.memo.len(),
                    op::PUT => self.decimal()?,
                    _ => self.count(if opcode == op::BINPUT { 1 } else { 4 })?,
                };
                self.memo.put(index, self.top()?);
            }
            op::GET | op::BINGET | op::LONG_BINGET => {
                let index = match opcode {
                    op::GET => self.decimal()?,
                    _ => self.count(if opcode == op::BINGET { 1 } else { 4 })?,
                };
                match self.memo.get(index) {
                    Some(id) => self.stack.push(id),
                    None => return bad(format!("fetches memo entry {index} before it is made")),
                }
            }
            op::APPEND | op::APPENDS | op::ADDITEMS | op::SETITEM | op::SETITEMS => {
                self.add(opcode)?;
            }
            op::BUILD => self.build()?,
            _ => {
                let value = self.value(opcode)?;
                let id = self.make(value)?;
                self.stack.push(id);
            }
        }
        Ok(true)
    }

    /// The value that an opcode pushes.
    fn value(&mut self, opcode: u8) -> Outcome<Value> {
        Ok(match opcode {
            op::BININT => Value::Int(i32::from_le_bytes(self.array()?).into()),
            op::BININT2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            op::LONG1 => self.long(1)?,
            op::LONG4 => self.long(4)?,
            op::INT | op::LONG => self.int_line()?,
            op::BINFLOAT => Value::Float(f64::from_be_bytes(self.array()?)),
            op::FLOAT => {
                let line = self.line()?;
                let text = std::str::from_utf8(&self.bytes[line.range()]).unwrap_or("");
                text.parse().map_or(Value::Bytes(line), Value::Float)
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => Value::Str(self.counted(1)?),
            op::BINUNICODE | op::BINSTRING => Value::Str(self.counted(4)?),
            op::BINUNICODE8 => Value::Str(self.counted(8)?),
            op::UNICODE | op::STRING => Value::Str(self.line()?),
            op::SHORT_BINBYTES => Value::Bytes(self.counted(1)?),
            op::BINBYTES => Value::Bytes(self.counted(4)?),
            op::BINBYTES8 | op::BYTEARRAY8 => Value::Bytes(self.counted(8)?),
            op::EMPTY_LIST | op::EMPTY_SET => Value::List(Vec::new()),
            op::EMPTY_DICT => Value::Dict(Vec::new()),
            op::TUPLE => Value::Tuple(self.pop_mark()?),
            op::LIST | op::FROZENSET => Value::List(self.pop_mark()?),
            op::DICT => Value::Dict(self.pop_pairs()?),
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                Value::Tuple(self.pop_n(usize::from(opcode - op::TUPLE1) + 1)?)
            }
            op::GLOBAL => Value::Global(self.line()?, self.line()?),
            op::STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (&self.values[module.index()], &self.values[name.index()]) {
                    (Value::Str(module), Value::Str(name)) => Value::Global(*module, *name),
                    _ => return bad("names a global by something else than strings"),
                }
            }
            op::REDUCE | op::NEWOBJ => {
                let (args, func) = (self.pop()?, self.pop()?);
                call(func, args)
            }
            op::NEWOBJ_EX => {
                let (_keywords, args, class) = (self.pop()?, self.pop()?, self.pop()?);
                call(class, args)
            }
            op::OBJ => {
                let mut args = self.pop_mark()?;
                if args.is_empty() {
                    return bad("makes an object of no class");
                }
                let class = args.remove(0);
                call(class, self.make(Value::Tuple(args))?)
            }
            op::INST => {
                let class = Value::Global(self.line()?, self.line()?);
                let class = self.make(class)?;
                let args = self.pop_mark()?;
                call(class, self.make(Value::Tuple(args))?)
            }
            op::BINPERSID => Value::Persistent(self.pop()?),
            op::PERSID => {
                let line = self.line()?;
                Value::Persistent(self.make(Value::Str(line))?)
            }
            op::EXT1 | op::EXT2 | op::EXT4 => {
                let start = self.at;
                self.count(1 << (opcode - op::EXT1))?;
                Value::Bytes(self.text(start)?)
            }
            op::NEXT_BUFFER => Value::Bytes(self.text(self.at)?),
            op::READONLY_BUFFER => {
                let id = self.pop()?;
                self.values[id.index()].clone_leaf()
            }
            _ => return bad(format!("has the unknown opcode {opcode:#04x}")),
        })
    }

    /// Adds elements from the stack to the container below them.
    fn add(&mut self, opcode: u8) -> Outcome<()> {
        let items = match opcode {
            op::APPEND => self.pop_n(1)?,
            op::SETITEM => self.pop_n(2)?,
            op::SETITEMS => self.pop_pairs()?,
            _ => self.pop_mark()?,
        };
        let pairs = matches!(opcode, op::SETITEM | op::SETITEMS);
        let target = self.top()?;
        match &mut self.values[target.index()] {
            Value::List(list) if !pairs => list.extend(items),
            Value::Dict(dict) if pairs => dict.extend(items),
            Value::Call { items: added, .. } => {
                let added = added.get_or_insert_with(|| Box::new(Items::default()));
                if pairs { &mut added.pairs } else { &mut added.elements }.extend(items);
            }
            _ => return bad("adds elements to something that has none"),
        }
        Ok(())
    }

    /// Sets the state of the object below the top. Plain containers keep no attributes.
    fn build(&mut self) -> Outcome<()> {
        let new_state = self.pop()?;
        let target = self.top()?;
        if let Value::Call { state, .. } = &mut self.values[target.index()] {
            *state = Some(new_state);
        }
        Ok(())
    }

    fn make(&mut self, value: Value) -> Outcome<Id> {
        if self.values.len() >= MAX_VALUES {
            return bad(format!("holds more than {MAX_VALUES} values"));
        }
        self.values.push(value);
        Ok(Id(self.values.len() as u32 - 1))
    }

    /// The stack above the last mark, which is what an opcode may take without a mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Outcome<Id> {
        if self.stack.len() <= self.floor() {
            return bad("takes from an empty stack");
        }
        self.stack.pop().map_or_else(|| bad("takes from an empty stack"), Ok)
    }

    fn top(&self) -> Outcome<Id> {
        match self.stack.last() {
            Some(id) if self.stack.len() > self.floor() => Ok(*id),
            _ => bad("takes from an empty stack"),
        }
    }

    fn pop_n(&mut self, n: usize) -> Outcome<Vec<Id>> {
        match self.stack.len().checked_sub(n) {
            Some(from) if from >= self.floor() => Ok(self.stack.split_off(from)),
            _ => bad("takes from an empty stack"),
        }
    }

    fn pop_mark(&mut self) -> Outcome<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => bad("ends a group that never began"),
        }
    }

    fn pop_pairs(&mut self) -> Outcome<Vec<Id>> {
        let items = self.pop_mark()?;
        if items.len() % 2 == 1 { bad("gives a key without a value") } else { Ok(items) }
    }

    fn take(&mut self, n: usize) -> Outcome<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest.get(..n).ok_or(PickleFault::Short)?;
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A little-endian number of `width` bytes (at most 8).
    fn count(&mut self, width: usize) -> Outcome<u64> {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(wide))
    }

    /// The text from `start` to here.
    fn text(&self, start: usize) -> Outcome<Text> {
        Text::new(start, self.at).map_or_else(|| bad("is longer than 4 GiB"), Ok)
    }

    /// A text with its length, of `width` bytes, before it.
    fn counted(&mut self, width: usize) -> Outcome<Text> {
        let n = self.count(width)?;
        let start = self.at;
        self.take(usize::try_from(n).map_err(|_| PickleFault::Short)?)?;
        self.text(start)
    }

    /// A text that ends with its line.
    fn line(&mut self) -> Outcome<Text> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let n = rest.iter().position(|b| *b == b'\n').ok_or(PickleFault::Short)?;
        let start = self.at;
        self.at += n;
        let text = self.text(start)?;
        self.at += 1;
        Ok(text)
    }

    fn decimal(&mut self) -> Outcome<u64> {
        let line = self.line()?;
        let text = std::str::from_utf8(&self.bytes[line.range()]).unwrap_or("");
        text.parse().or_else(|_| bad("has a memo index that is not a number"))
    }

    /// `INT` or `LONG`: a decimal line, `00` and `01` for bools, perhaps an `L` behind it.
    fn int_line(&mut self) -> Outcome<Value> {
        let line = self.line()?;
        let text = std::str::from_utf8(&self.bytes[line.range()]).unwrap_or("");
        Ok(match text {
            "00" => Value::Bool(false),
            "01" => Value::Bool(true),
            _ => text.trim_end_matches('L').parse().map_or(Value::Bytes(line), Value::Int),
        })
    }

    /// A little-endian two's complement integer with its length, of `width` bytes, before it.
    fn long(&mut self, width: usize) -> Outcome<Value> {
        let text = self.counted(width)?;
        let bytes = &self.bytes[text.range()];
        if bytes.len() > 8 {
            return Ok(Value::Bytes(text));
        }
        let negative = bytes.last().is_some_and(|b| *b >= 0x80);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(wide)))
    }
}

fn call(func: Id, args: Id) -> Value {
    Value::Call { func, args, state: None, items: None }
}

impl Value {
    /// A copy of a value without parts; `None` for others, so that copies stay small.
    fn clone_leaf(&self) -> Value {
        match self {
            Value::Bytes(text) => Value::Bytes(*text),
            _ => Value::None,
        }
    }
}
