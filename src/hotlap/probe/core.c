/* The common path of the hottest hooks: a module's call, an environment's step, a function that is a stage as a whole.

   Between two operations of a training loop, Python code that runs once is out of the caches and costs ten times what it
   costs in a tight loop. These hooks do in C what nearly every call needs, and hand the rest to the Python hook that each of
   them stands for (`slow`), which is complete by itself: on a machine without a compiler it does everything. */
#define _GNU_SOURCE 1 /* the registers of a thread that a signal interrupts */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <time.h>
#ifdef __linux__
#include <sys/auxv.h>
#include <ucontext.h>
#endif
#include <unistd.h>

#if PY_VERSION_HEX < 0x030a0000 /* Python 3.9 */
static inline PyObject *Py_NewRef(PyObject *object) {
    Py_INCREF(object);
    return object;
}

static int PyModule_AddObjectRef(PyObject *module, const char *name, PyObject *value) {
    Py_INCREF(value);
    int failed = PyModule_AddObject(module, name, value);
    if (failed) Py_DECREF(value);
    return failed;
}
#endif

/* -- what hooks and events share -- */

typedef struct {
    PyObject_HEAD
    char active, inside, paused, updated, counting, types_wanted, touched, threaded, watching, watching_steps;
    unsigned long thread;
    long long due, late, env_steps, syncs;
    PyObject *region;
    int64_t *log;
    Py_ssize_t size, capacity; /* in numbers */
} State;

static PyTypeObject StateType, HookType;
static PyObject *empty, *step_path, *s_num_envs, *s_env, *s_shape, *s_call_impl, *s_compiled, *s_note_syncs;

static int64_t now(void) {
#ifdef __APPLE__
    return (int64_t)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
#endif
}

static int append(State *s, int64_t kind, int64_t begin, int64_t end, int64_t first, int64_t second) {
    if (s->size + 5 > s->capacity) {
        Py_ssize_t capacity = s->capacity ? 2 * s->capacity : 5 * 1024;
        int64_t *log = PyMem_Realloc(s->log, (size_t)capacity * sizeof(int64_t));
        if (log == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        s->log = log;
        s->capacity = capacity;
    }
    int64_t *to = s->log + s->size;
    to[0] = kind, to[1] = begin, to[2] = end, to[3] = first, to[4] = second;
    s->size += 5;
    return 0;
}

static void set_region(State *s, PyObject *path) {
    PyObject *old = s->region;
    s->region = Py_NewRef(path);
    Py_XDECREF(old);
}

static PyObject *State_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    State *s = (State *)type->tp_alloc(type, 0);
    if (s != NULL) s->region = Py_NewRef(empty);
    return (PyObject *)s;
}

static void State_dealloc(State *s) {
    PyMem_Free(s->log);
    Py_XDECREF(s->region);
    Py_TYPE(s)->tp_free((PyObject *)s);
}

static PyObject *State_emit(State *s, PyObject *const *args, Py_ssize_t count) {
    int64_t numbers[5] = {0};
    if (count < 3 || count > 5) {
        PyErr_SetString(PyExc_TypeError, "an event has three to five numbers");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) numbers[i] = PyLong_AsLongLong(args[i]);
    if (PyErr_Occurred() || append(s, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])) return NULL;
    Py_RETURN_NONE;
}

static PyObject *State_take(State *s, PyObject *unused) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)s->log, s->size * (Py_ssize_t)sizeof(int64_t));
    if (bytes != NULL) s->size = 0;
    return bytes;
}

static PyMethodDef State_methods[] = {
    {"emit", (PyCFunction)(void (*)(void))State_emit, METH_FASTCALL, "Append an event: its kind, begin, end, and up to two numbers."},
    {"take", (PyCFunction)State_take, METH_NOARGS, "The events since the last time, as bytes."},
    {NULL}};

static PyMemberDef State_members[] = {
    {"active", T_BOOL, offsetof(State, active)},
    {"inside", T_BOOL, offsetof(State, inside)},
    {"paused", T_BOOL, offsetof(State, paused)},
    {"updated", T_BOOL, offsetof(State, updated)},
    {"counting", T_BOOL, offsetof(State, counting)},
    {"types_wanted", T_BOOL, offsetof(State, types_wanted)},
    {"touched", T_BOOL, offsetof(State, touched)},
    {"threaded", T_BOOL, offsetof(State, threaded)},
    {"watching", T_BOOL, offsetof(State, watching)},
    {"watching_steps", T_BOOL, offsetof(State, watching_steps)},
    {"thread", T_ULONG, offsetof(State, thread)},
    {"due", T_LONGLONG, offsetof(State, due)},
    {"late", T_LONGLONG, offsetof(State, late)},
    {"env_steps", T_LONGLONG, offsetof(State, env_steps)},
    {"syncs", T_LONGLONG, offsetof(State, syncs)},
    {"region", T_OBJECT, offsetof(State, region)},
    {NULL}};

static PyTypeObject StateType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hotlap_core.State",
    .tp_basicsize = sizeof(State),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = State_new,
    .tp_dealloc = (destructor)State_dealloc,
    .tp_methods = State_methods,
    .tp_members = State_members,
};

/* -- hooks -- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dict, *weakrefs;
    State *state;
    PyObject *original, *slow;
    PyObject *helper; /* FORWARD: torch.is_grad_enabled. STEP: what reads a result. REGION: the stage's path. */
    int64_t kind;     /* of the events; with gradients it is one more */
    int64_t number;   /* REGION: of the path. STEP: whether `num_envs` says how many steps one call makes. */
    int special;      /* FORWARD: whether the original is torch's own call. REGION: whether it is an evaluation. */
} Hook;

static int flush_syncs(State *s, PyObject *inside) {
    if (s->syncs == 0) return 0;
    PyObject *args[] = {(PyObject *)s, inside};
    PyObject *done = PyObject_VectorcallMethod(s_note_syncs, args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* After the original: report the event whatever happened. An error of the original's stays as it is; one of the report's is
   nobody's trouble, unless it is a Ctrl-C that came just then. */
#define AFTER(result, statement)                                                      \
    do {                                                                              \
        PyObject *type_, *value_, *trace_;                                            \
        PyErr_Fetch(&type_, &value_, &trace_);                                        \
        statement;                                                                    \
        if (PyErr_Occurred() && type_ == NULL && !PyErr_ExceptionMatches(PyExc_Exception)) { \
            Py_CLEAR(result);                                                         \
        } else {                                                                      \
            if (PyErr_Occurred()) PyErr_WriteUnraisable(NULL);                        \
            PyErr_Restore(type_, value_, trace_);                                     \
        }                                                                             \
    } while (0)

static int64_t rows_of(PyObject *const *args, Py_ssize_t count) {
    PyObject *first = count > 1 ? args[1] : NULL;
    int64_t rows = 0;
    if (first == NULL) return 0;
    if (PyDict_Check(first)) {
        Py_ssize_t position = 0;
        PyObject *key;
        if (!PyDict_Next(first, &position, &key, &first)) return 0;
    }
    PyObject *shape = PyObject_GetAttr(first, s_shape);
    if (shape != NULL && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape)) rows = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, 0));
    Py_XDECREF(shape);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        rows = 0;
    }
    return rows;
}

static PyObject *call_module(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (!h->special) return PyObject_Vectorcall(h->original, args, nargsf, kwnames);
    PyObject *compiled = PyObject_GetAttr(args[0], s_compiled);
    if (compiled == NULL) return NULL;
    PyObject *result;
    if (compiled == Py_None)
        result = PyObject_VectorcallMethod(s_call_impl, args, nargsf, kwnames);
    else
        result = PyObject_Vectorcall(compiled, args + 1, (size_t)(PyVectorcall_NARGS(nargsf) - 1), kwnames);
    Py_DECREF(compiled);
    return result;
}

static PyObject *forward(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (s->inside && count && !(s->threaded && s->thread != PyThread_get_thread_ident()))
        return call_module(h, args, nargsf, kwnames);
    if (!count || s->types_wanted || s->watching || kwnames || s->thread != PyThread_get_thread_ident())
        return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    if (flush_syncs(s, Py_False)) return NULL;
    s->inside = 1;
    int64_t begin = now();
    PyObject *result = call_module(h, args, nargsf, NULL);
    int64_t end = now();
    s->inside = 0;
    AFTER(result, {
        PyObject *gradients = PyObject_CallNoArgs(h->helper);
        append(s, h->kind + (gradients == Py_True), begin, end, rows_of(args, count), 0);
        Py_XDECREF(gradients);
        flush_syncs(s, Py_True);
    });
    return result;
}

/* Whether this says plainly that no episode ended: False, or an array of bytes that are all zero. */
static int is_quiet(PyObject *done) {
    if (done == Py_False) return 1;
    if (done == Py_True || !PyObject_CheckBuffer(done)) return 0;
    Py_buffer view;
    if (PyObject_GetBuffer(done, &view, PyBUF_CONTIG_RO)) {
        PyErr_Clear();
        return 0;
    }
    int quiet = view.itemsize == 1;
    for (Py_ssize_t i = 0; quiet && i < view.len; i++) quiet = ((const char *)view.buf)[i] == 0;
    PyBuffer_Release(&view);
    return quiet;
}

/* How many environments there are in one, or in what it wraps. Wrappers are not asked to pass the attribute on: some print a
   warning then, and all of them take their time. */
static int64_t num_envs(PyObject *env) {
    int64_t steps = 1;
    Py_INCREF(env);
    for (int depth = 0; env != NULL && depth < 32; depth++) {
        PyObject *number = PyObject_GenericGetAttr(env, s_num_envs);
        if (number != NULL && number != Py_None) {
            steps = PyLong_AsLongLong(number);
            if (steps == -1 && PyErr_Occurred()) steps = 1;
            Py_DECREF(number);
            break;
        }
        Py_XDECREF(number);
        PyErr_Clear();
        PyObject *inner = PyObject_GenericGetAttr(env, s_env);
        Py_DECREF(env);
        env = inner;
    }
    Py_XDECREF(env);
    PyErr_Clear();
    return steps;
}

/* The numbers of the episodes that ended, or NULL, and how many steps that was. */
static PyObject *read_result(Hook *h, PyObject *const *args, Py_ssize_t count, PyObject *result, int64_t *steps) {
    Py_ssize_t size = PyTuple_CheckExact(result) ? PyTuple_GET_SIZE(result) : 0;
    if (h->number && (size == 4 || size == 5) && is_quiet(PyTuple_GET_ITEM(result, 2)) &&
        (size == 4 || is_quiet(PyTuple_GET_ITEM(result, 3)))) {
        *steps = num_envs(args[0]);
        return NULL;
    }
    long long syncs = h->state->syncs;
    PyObject *outcome = PyObject_CallFunctionObjArgs(h->helper, args[0], count > 1 ? args[1] : Py_None, result, NULL);
    h->state->syncs = syncs; /* reading the result is not the script's doing */
    if (outcome == NULL) return NULL;
    *steps = PyLong_AsLongLong(PyTuple_GET_ITEM(outcome, 0));
    PyObject *ended = PySequence_Fast(PyTuple_GET_ITEM(outcome, 1), "a sequence of numbers");
    Py_DECREF(outcome);
    return ended;
}

static void stepped(Hook *h, PyObject *const *args, Py_ssize_t count, PyObject *result, int64_t begin, int64_t end) {
    State *s = h->state;
    int64_t steps = 0, env = (int64_t)(intptr_t)args[0];
    PyObject *ended = result ? read_result(h, args, count, result, &steps) : NULL;
    if (s->counting) s->env_steps += steps;
    append(s, h->kind, begin, end, env, s->counting ? steps : 0);
    for (Py_ssize_t i = 0; ended && i < PySequence_Fast_GET_SIZE(ended); i++)
        append(s, h->kind + 4, end, end, env, PyLong_AsLongLong(PySequence_Fast_GET_ITEM(ended, i)));
    Py_XDECREF(ended);
}

static PyObject *step(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int only_counted = s->paused && PyUnicode_GET_LENGTH(s->region) == 0;
    if (s->thread != PyThread_get_thread_ident()) return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    if ((s->inside && !only_counted && !s->watching_steps) || !count) return PyObject_Vectorcall(h->original, args, nargsf, kwnames);
    int64_t begin = now();
    if (s->watching_steps || s->types_wanted || kwnames || (s->updated && begin >= s->due) || (!s->paused && begin >= s->late))
        return PyObject_Vectorcall(h->slow, args, nargsf, kwnames);
    s->updated = 0;
    if (!only_counted && flush_syncs(s, Py_False)) return NULL;
    s->inside = 1;
    set_region(s, step_path);
    PyObject *result = PyObject_Vectorcall(h->original, args, nargsf, NULL);
    int64_t end = now();
    set_region(s, empty);
    if (!only_counted) s->inside = 0;
    s->touched = 1;
    AFTER(result, {
        stepped(h, args, count, result, begin, end);
        if (!only_counted) flush_syncs(s, Py_True);
    });
    return result;
}

static PyObject *region(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    if (s->inside) {
        int outermost = h->special && s->paused && PyUnicode_GET_LENGTH(s->region) == 0;
        return PyObject_Vectorcall(outermost ? h->slow : h->original, args, nargsf, kwnames);
    }
    if (s->thread != PyThread_get_thread_ident()) return PyObject_Vectorcall(h->original, args, nargsf, kwnames);
    if (flush_syncs(s, Py_False)) return NULL;
    s->inside = 1;
    set_region(s, h->helper);
    int64_t begin = now();
    PyObject *result = PyObject_Vectorcall(h->original, args, nargsf, kwnames);
    int64_t end = now();
    s->inside = 0;
    set_region(s, empty);
    AFTER(result, {
        append(s, h->kind, begin, end, h->number, 0);
        flush_syncs(s, Py_True);
    });
    return result;
}

static PyObject *make(PyObject *args, vectorcallfunc call) {
    Hook *h = PyObject_GC_New(Hook, &HookType);
    if (h == NULL) return NULL;
    memset((char *)h + sizeof(PyObject), 0, sizeof(Hook) - sizeof(PyObject));
    long long kind, number;
    if (!PyArg_ParseTuple(args, "O!OOOLLp", &StateType, &h->state, &h->original, &h->slow, &h->helper, &kind, &number, &h->special)) {
        h->state = NULL, h->original = h->slow = h->helper = NULL;
        Py_DECREF(h);
        return NULL;
    }
    h->kind = kind, h->number = number;
    Py_INCREF(h->state), Py_INCREF(h->original), Py_INCREF(h->slow), Py_INCREF(h->helper);
    h->vectorcall = call;
    PyObject_GC_Track(h);
    return (PyObject *)h;
}

static PyObject *make_forward(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)forward); }
static PyObject *make_step(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)step); }
static PyObject *make_region(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)region); }

static int Hook_traverse(Hook *h, visitproc visit, void *arg) {
    Py_VISIT(h->dict);
    Py_VISIT(h->state);
    Py_VISIT(h->original);
    Py_VISIT(h->slow);
    Py_VISIT(h->helper);
    return 0;
}

static int Hook_clear(Hook *h) {
    Py_CLEAR(h->dict);
    Py_CLEAR(h->state);
    Py_CLEAR(h->original);
    Py_CLEAR(h->slow);
    Py_CLEAR(h->helper);
    return 0;
}

static void Hook_dealloc(Hook *h) {
    PyObject_GC_UnTrack(h);
    if (h->weakrefs) PyObject_ClearWeakRefs((PyObject *)h);
    Hook_clear(h);
    PyObject_GC_Del(h);
}

static PyObject *Hook_bind(PyObject *h, PyObject *instance, PyObject *type) {
    return instance == NULL || instance == Py_None ? Py_NewRef(h) : PyMethod_New(h, instance);
}

/* A hook has the attributes of the function it stands for. */
static PyObject *Hook_getattr(PyObject *h, PyObject *name) {
    PyObject *value = PyObject_GenericGetAttr(h, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError) && ((Hook *)h)->original) {
        PyErr_Clear();
        value = PyObject_GetAttr(((Hook *)h)->original, name);
    }
    return value;
}

static PyObject *Hook_class(PyObject *h, void *unused) { return PyObject_GetAttrString(((Hook *)h)->original, "__class__"); }

static PyObject *Hook_reduce(PyObject *h, PyObject *unused) { return PyObject_GetAttrString(h, "__qualname__"); }

static PyMethodDef Hook_methods[] = {
    {"__reduce__", Hook_reduce, METH_NOARGS, "Functions are pickled by name."},
    {NULL}};

static PyGetSetDef Hook_getset[] = {
    {"__class__", Hook_class, NULL, "That of the function it stands for."},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {NULL}};

static PyTypeObject HookType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hotlap_core.Hook",
    .tp_basicsize = sizeof(Hook),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Hook, vectorcall),
    .tp_dictoffset = offsetof(Hook, dict),
    .tp_weaklistoffset = offsetof(Hook, weakrefs),
    .tp_traverse = (traverseproc)Hook_traverse,
    .tp_clear = (inquiry)Hook_clear,
    .tp_dealloc = (destructor)Hook_dealloc,
    .tp_descr_get = Hook_bind,
    .tp_getattro = Hook_getattr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_methods = Hook_methods,
    .tp_getset = Hook_getset,
};

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

/* -- which of many objects are of some classes: there are hundreds of thousands, and the script waits -- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static PyObject *instances(PyObject *module, PyObject *args) {
    PyObject *objects, *types;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &objects, &PyTuple_Type, &types)) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(types);
    uintptr_t *wanted = PyMem_Malloc(((size_t)count + 1) * sizeof *wanted);
    PyObject *found = wanted == NULL ? PyErr_NoMemory() : PyList_New(0);
    unsigned char maybe[4096] = {0}; /* by some bits of the address: nearly all objects end here */
    for (Py_ssize_t i = 0; found && i < count; i++) {
        wanted[i] = (uintptr_t)PyTuple_GET_ITEM(types, i);
        maybe[wanted[i] >> 4 & 4095] = 1;
    }
    if (found) qsort(wanted, (size_t)count, sizeof *wanted, by_address);
    for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(objects); i++) {
        uintptr_t type = (uintptr_t)Py_TYPE(PyList_GET_ITEM(objects, i));
        if (maybe[type >> 4 & 4095] && bsearch(&type, wanted, (size_t)count, sizeof *wanted, by_address) &&
            PyList_Append(found, PyList_GET_ITEM(objects, i)))
            Py_CLEAR(found);
    }
    PyMem_Free(wanted);
    return found;
}

/* -- audit events: the interpreter has thousands a second, id() among them, and a few of them matter -- */

static PyObject *watched_events, *on_event;

static int audited(const char *event, PyObject *arguments, void *unused) {
    if (on_event == NULL || (*event != 'o' && *event != 's' && *event != 'p') || !Py_IsInitialized()) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(watched_events); i++)
        if (!strcmp(event, PyBytes_AS_STRING(PyTuple_GET_ITEM(watched_events, i)))) {
            PyObject *result = PyObject_CallFunction(on_event, "sO", event, arguments);
            Py_XDECREF(result);
            return result == NULL ? -1 : 0;
        }
    return 0;
}

static PyObject *audit(PyObject *module, PyObject *args) {
    static int is_installed;
    PyObject *events, *function;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &events, &function)) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(events); i++)
        if (!PyBytes_Check(PyTuple_GET_ITEM(events, i))) return PyErr_Format(PyExc_TypeError, "names of events must be bytes");
    Py_XINCREF(events);
    Py_XSETREF(watched_events, events);
    Py_XINCREF(function == Py_None ? NULL : function);
    Py_XSETREF(on_event, function == Py_None ? NULL : function);
    if (!is_installed && PySys_AddAuditHook(audited, NULL)) return NULL;
    is_installed = 1;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"audit", audit, METH_VARARGS, "(names of events as bytes, function or None): it is called with each of these audit events"},
    {"instances", instances, METH_VARARGS, "(list, tuple of classes): the objects of exactly these classes"},
    {"ticker_start", ticker_start, METH_VARARGS, "(nanoseconds, number of a signal): its handler is called on the main thread"},
    {"ticker_run", ticker_run, METH_O, "(whether to ask for stack samples)"},
    {"ticker_when", ticker_when, METH_NOARGS, 
     "When a stack sample was asked for (0 if none was) and when the signal came, by the clock of perf_counter_ns; whether the thread "
     "slept; whether native code ran (1), the interpreter (0), or nobody knows (-1)."},
    {"ticker_stop", ticker_stop, METH_NOARGS, "No stack samples any more."},
    {"forward", make_forward, METH_VARARGS, "(state, original, slow, is_grad_enabled, kind, 0, is torch's own call)"},
    {"step", make_step, METH_VARARGS, "(state, original, slow, read, kind, num_envs counts, False)"},
    {"region", make_region, METH_VARARGS, "(state, original, slow, path, kind, number of the path, is an evaluation)"},
    {NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "hotlap_core", NULL, -1, methods};

PyMODINIT_FUNC PyInit_hotlap_core(void) {
    empty = PyUnicode_InternFromString("");
    step_path = PyUnicode_InternFromString("collect/env_step");
    s_num_envs = PyUnicode_InternFromString("num_envs");
    s_env = PyUnicode_InternFromString("env");
    s_shape = PyUnicode_InternFromString("shape");
    s_call_impl = PyUnicode_InternFromString("_call_impl");
    s_compiled = PyUnicode_InternFromString("_compiled_call_impl");
    s_note_syncs = PyUnicode_InternFromString("note_syncs");
    if (PyType_Ready(&StateType) || PyType_Ready(&HookType)) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddObjectRef(module, "State", (PyObject *)&StateType) || PyModule_AddObjectRef(module, "Hook", (PyObject *)&HookType)))
        Py_CLEAR(module);
    return module;
}
