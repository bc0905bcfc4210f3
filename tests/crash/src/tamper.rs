//! Storage that lies: a program whose large writes take a part, or say that they took what they did not. A tracer stops it at each
//! such call and changes the call's length or its answer, so the program under test is the real one, whoever makes its calls.
//!
//! Python speaks ptrace by its foreign functions, for which Rust would need unsafe code; where it cannot (another processor, no
//! right to trace), [`Tamper::works`] says so.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Half is written, and that is said.
    Short,
    /// Half is written, and it is said that all was.
    Half,
    /// Nothing is written, and it is said that all was.
    Nothing,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Short, Self::Half, Self::Nothing];

    const fn word(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Half => "half",
            Self::Nothing => "nothing",
        }
    }
}

/// Starts a program, stops it (seccomp) at every `pwrite64` of more than 4 KiB, which a journal never has, and does the named thing to
/// those with the numbers `first` to `last`, counted over all threads. Its log has a line for each.
const TRACER: &str = r"
import ctypes, os, signal, struct, sys
lie, first, last, log = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
PWRITE, LEAST = 18, 4096
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in (
        'r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs').split()]
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
def trace(request, pid, address=0, data=0):
    return libc.ptrace(request, pid, address, data)
child = os.fork()
if child == 0:
    if trace(0, 0) != 0:
        os._exit(99)
    os.kill(os.getpid(), signal.SIGSTOP)
    # Architecture, number of the call: stop at PWRITE, let all else pass.
    code = b''.join(struct.pack('HBBI', *line) for line in (
        (0x20, 0, 0, 4), (0x15, 0, 3, 0xc000003e), (0x20, 0, 0, 0), (0x15, 0, 1, PWRITE), (6, 0, 0, 0x7ff00000), (6, 0, 0, 0x7fff0000)))
    program = Program(6, code)
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
        os._exit(99)
    os.execv(sys.argv[5], sys.argv[5:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.waitpid(child, 0)
# Calls told apart from signals, new threads and processes with it, seccomp; all of it ends with the tracer.
trace(0x4200, child, 0, 1 | 2 | 4 | 8 | 0x10 | 0x80 | 0x100000)
trace(7, child)
seen, raised, registers = 0, {}, Registers()
out = open(log, 'w', buffering=1)
while True:
    try:
        pid, status = os.waitpid(-1, 0x40000000)
    except InterruptedError:
        continue
    except ChildProcessError:
        sys.exit(98)
    if os.WIFEXITED(status) or os.WIFSIGNALED(status):
        if pid == child:
            sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 97)
        continue
    stop, event = os.WSTOPSIG(status), status >> 16
    request, deliver = 7, 0
    if stop == signal.SIGTRAP and event == 7:
        trace(12, pid, 0, ctypes.addressof(registers))
        if registers.orig_rax == PWRITE and registers.rdx > LEAST:
            seen += 1
            if first <= seen <= last:
                whole = registers.rdx
                print(lie, whole, registers.r10, file=out)
                if lie == 'nothing':
                    registers.orig_rax, registers.rax = 2 ** 64 - 1, whole
                else:
                    registers.rdx = whole // 2
                trace(13, pid, 0, ctypes.addressof(registers))
                if lie == 'half':
                    raised[pid] = whole
                    request = 24
    elif stop == signal.SIGTRAP | 0x80:
        whole = raised.pop(pid, None)
        if whole is not None:
            trace(12, pid, 0, ctypes.addressof(registers))
            if registers.rax == whole // 2:
                registers.rax = whole
                trace(13, pid, 0, ctypes.addressof(registers))
    elif stop not in (signal.SIGTRAP, signal.SIGSTOP):
        deliver = stop
    trace(request, pid, 0, deliver)
";

/// A tracer for one program.
#[derive(Debug)]
pub struct Tamper {
    lie: Lie,
    /// Numbers of the writes, from 1, the last one included.
    writes: (u64, u64),
    log: PathBuf,
}

impl Tamper {
    /// Does this to the writes with these numbers; notes are kept in `log`.
    pub fn new(lie: Lie, first: u64, last: u64, log: PathBuf) -> Self {
        Self { lie, writes: (first, last), log }
    }

    /// `program` under it; the words of the program follow.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("python3");
        let (first, last) = self.writes;
        command
            .args(["-c", TRACER, self.lie.word(), &first.to_string(), &last.to_string()])
            .arg(&self.log)
            .arg(program);
        command
    }

    /// Writes that were tampered with.
    pub fn struck(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().count()
    }

    /// Whether programs can be traced here; the error says what that takes.
    pub fn works(scratch: PathBuf) -> Result<(), String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("a processor of the x86_64 kind, whose registers the tracer knows".to_owned());
        }
        let tamper = Self::new(Lie::Short, 1, 1, scratch);
        match tamper.command(Path::new("/bin/true")).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("ptrace: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("python3: {error}")),
        }
    }
}
