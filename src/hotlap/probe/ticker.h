/* -- the sampler's clock: a thread that asks the main thread for a stack sample, without Python's lock --

   It asks by a signal: Python handles those between any two instructions, and nothing else that comes from outside. Before Python
   hears of it, the signal's own handler notes when it came and where the processor was: in the interpreter, or in native code. */

typedef struct {
    uintptr_t begin, end;
} Code;

static struct {
    pthread_t thread, watched;
    volatile int running, stopped, asked, asleep, native, number;
    volatile int64_t delivered;
    int64_t period, when;
    char status[64]; /* the file that says whether the watched thread runs */
    Code interpreter, hooks, clock; /* reading the clock is so short that Python's call of it costs more */
    struct sigaction python; /* Python's own handler */
} ticker;

/* Whether the watched thread sleeps in the system: the signal wakes it up, so afterwards nobody could tell. */
static int is_asleep(void) {
    char text[256];
    int file = open(ticker.status, O_RDONLY);
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = 0;
    char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' && (end[2] == 'S' || end[2] == 'D');
}

/* The mapped code around an address; empty where the system does not tell. */
static Code code_around(uintptr_t address) {
    Code code = {0, 0};
    char line[512], rights[8];
    unsigned long begin, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && begin <= address && address < end) code = (Code){begin, end};
    if (maps != NULL) fclose(maps);
    return code;
}

static uintptr_t interrupted_at(void *context) {
#if defined(__linux__) && defined(__x86_64__)
    return (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__) && defined(__aarch64__)
    return (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#else
    return 0;
#endif
}

static int holds(Code code, uintptr_t address) { return address >= code.begin && address < code.end; }

static void on_signal(int number, siginfo_t *info, void *context) {
    int error = errno;
    uintptr_t at = interrupted_at(context);
    int known = at != 0 && ticker.interpreter.end != 0;
    ticker.native = known ? !holds(ticker.interpreter, at) && !holds(ticker.hooks, at) && !holds(ticker.clock, at) : -1;
    ticker.delivered = now();
    if (!(ticker.python.sa_flags & SA_SIGINFO) && ticker.python.sa_handler != SIG_DFL && ticker.python.sa_handler != SIG_IGN)
        ticker.python.sa_handler(number);
    errno = error;
}

static void *ticking(void *unused) {
    struct timespec pause = {ticker.period / 1000000000, ticker.period % 1000000000};
    while (!ticker.stopped) {
        nanosleep(&pause, NULL);
        if (!ticker.running || ticker.asked) continue;
        ticker.asleep = is_asleep();
        ticker.when = now();
        ticker.asked = 1;
        pthread_kill(ticker.watched, ticker.number);
    }
    return NULL;
}

static PyObject *ticker_start(PyObject *module, PyObject *args) {
    long long period;
    int number;
    if (!PyArg_ParseTuple(args, "Li", &period, &number)) return NULL;
    snprintf(ticker.status, sizeof ticker.status, "/proc/self/task/%ld/stat", (long)PyThread_get_thread_native_id());
    ticker.watched = pthread_self(), ticker.period = period, ticker.number = number, ticker.running = ticker.stopped = ticker.asked = 0;
    ticker.native = -1, ticker.delivered = 0;
    ticker.interpreter = code_around((uintptr_t)&PyEval_EvalCode);
    ticker.hooks = code_around((uintptr_t)&on_signal);
#ifdef __linux__
    ticker.clock = code_around((uintptr_t)getauxval(AT_SYSINFO_EHDR));
#endif
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(number, &action, &ticker.python)) return PyErr_SetFromErrno(PyExc_OSError);
    if (pthread_create(&ticker.thread, NULL, ticking, NULL)) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *ticker_run(PyObject *module, PyObject *on) {
    ticker.running = PyObject_IsTrue(on);
    Py_RETURN_NONE;
}

static PyObject *ticker_when(PyObject *module, PyObject *unused) {
    PyObject *times = Py_BuildValue(
        "LLii", (long long)(ticker.asked ? ticker.when : 0), (long long)ticker.delivered, ticker.asleep, ticker.native);
    ticker.asked = 0;
    return times;
}

static PyObject *ticker_stop(PyObject *module, PyObject *unused) {
    ticker.running = 0, ticker.stopped = 1;
    Py_BEGIN_ALLOW_THREADS;
    pthread_join(ticker.thread, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}
