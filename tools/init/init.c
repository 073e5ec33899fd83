/* Pid 1 of a sandbox: says "ready", reaps orphans, and is nothing else.
 *
 * It is started from a memfd as `/proc/self/fd/N READY`, so it needs no file of the agent's root, no libc and
 * no loader. It runs twice:
 *
 *   1. argv[0] starts with '/': moves the ready descriptor to READY_FD and executes itself again from descriptor N
 *      with a neutral command line and no environment, because /proc/1/cmdline is readable by everybody inside.
 *      Any failure ends it with status 111.
 *   2. blocks every signal, hides its memory and descriptors (dumpable 0), writes "ready\n", closes everything
 *      from 3 up, and waits for children for ever. It sleeps in wait4, or for SIGCHLD while it has no child. Where nobody
 *      is there to be told, it ends with status 111.
 *
 * The kernel delivers no signal from inside the namespace to a pid 1 without handlers; SIGKILL from outside ends it.
 */

#define READY_FD 6
#define FAILED 111

#if defined(__x86_64__)
enum { SYS_write = 1, SYS_close = 3, SYS_rt_sigaction = 13, SYS_rt_sigprocmask = 14, SYS_wait4 = 61, SYS_prctl = 157,
       SYS_rt_sigtimedwait = 128, SYS_exit_group = 231, SYS_dup3 = 292, SYS_execveat = 322, SYS_close_range = 436 };
__asm__(".globl _start\n"
        "_start:\n"
        "  xor %ebp, %ebp\n"
        "  mov %rsp, %rdi\n"
        "  and $-16, %rsp\n"
        "  call start\n");
static long sys(long n, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { SYS_dup3 = 24, SYS_close = 57, SYS_write = 64, SYS_exit_group = 94, SYS_rt_sigaction = 134,
       SYS_rt_sigprocmask = 135, SYS_rt_sigtimedwait = 137, SYS_prctl = 167, SYS_wait4 = 260, SYS_execveat = 281,
       SYS_close_range = 436 };
__asm__(".globl _start\n"
        "_start:\n"
        "  mov x29, xzr\n"
        "  mov x30, xzr\n"
        "  mov x0, sp\n"
        "  bl start\n");
static long sys(long n, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "no pid 1 for this machine yet"
#endif

enum { SIGCHLD = 17, SIG_BLOCK = 0, PR_SET_DUMPABLE = 4, PR_SET_NAME = 15, AT_EMPTY_PATH = 0x1000, WALL = 0x40000000 };

static void fail(void)
{
    for (;;)
        sys(SYS_exit_group, FAILED, 0, 0, 0, 0);
}

/* The number a text ends with: 9 of "/proc/self/fd/9". Ends the program when there is none. */
static long trailing_number(const char *text)
{
    const char *end = text;
    while (*end)
        end++;
    const char *digit = end;
    while (digit > text && digit[-1] >= '0' && digit[-1] <= '9')
        digit--;
    if (digit == end || end - digit > 6)
        fail();
    long number = 0;
    for (; digit < end; digit++)
        number = number * 10 + (*digit - '0');
    return number;
}

static void become_neutral(long argc, char **argv)
{
    char *neutral[] = {"sleep", "infinity", 0};
    char *nothing[] = {0};
    if (argc != 2)
        fail();
    long self = trailing_number(argv[0]), ready = trailing_number(argv[1]);
    if (self == READY_FD || self == ready)
        fail();
    if (ready != READY_FD && sys(SYS_dup3, ready, READY_FD, 0, 0, 0) < 0)
        fail();
    sys(SYS_execveat, self, (long)"", (long)neutral, (long)nothing, AT_EMPTY_PATH);
    fail();
}

static void close_from(long first)
{
    if (sys(SYS_close_range, first, 0x7fffffff, 0, 0, 0) == 0)
        return;
    for (long fd = first; fd < 65536; fd++) /* a kernel before 5.9 */
        sys(SYS_close, fd, 0, 0, 0, 0);
}

__attribute__((noreturn, used)) void start(long *stack)
{
    char **argv = (char **)(stack + 1);
    if (stack[0] < 1)
        fail();
    if (argv[0][0] == '/')
        become_neutral(stack[0], argv);

    unsigned long every = ~0UL, child = 1UL << (SIGCHLD - 1);
    unsigned long standard[4] = {0, 0, 0, 0}; /* an inherited SIG_IGN would survive the exec */
    sys(SYS_rt_sigprocmask, SIG_BLOCK, (long)&every, 0, sizeof every, 0);
    sys(SYS_rt_sigaction, SIGCHLD, (long)standard, 0, sizeof every, 0);
    sys(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    sys(SYS_prctl, PR_SET_NAME, (long)"sleep", 0, 0, 0);
    if (sys(SYS_write, READY_FD, (long)"ready\n", 6, 0, 0) != 6)
        fail(); /* who started all this is dead: killed before it could have us die with it */
    close_from(3);
    for (;;)
        if (sys(SYS_wait4, -1, 0, WALL, 0, 0) < 0)
            sys(SYS_rt_sigtimedwait, (long)&child, 0, 0, sizeof every, 0);
}
