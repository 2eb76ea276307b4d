/* The common path of the hottest hooks: a module's call, an environment's step, a function that is a stage as a whole.

   Between two operations of a training loop, Python code that runs once is out of the caches and costs ten times what it
   costs in a tight loop. These hooks do in C what nearly every call needs, and hand the rest to the Python hook that each of
   them stands for (`slow`), which is complete by itself: on a machine without a compiler it does everything. */
#define _GNU_SOURCE 1 /* the registers of a thread that a signal interrupts */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
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
    char active, inside, paused, updated, learned, counting, types_wanted, touched, threaded, watching, watching_steps;
    unsigned long thread;
    long long due, late, env_steps, syncs;
    PyObject *region;
    int64_t *log;
    Py_ssize_t size, capacity; /* in numbers */
    int depth;                 /* of optimizers' steps that are open */
    int64_t steps[8];          /* when each began; 0 if it is part of something else */
} State;

static PyTypeObject StateType, HookType;
static PyObject *empty, *step_path, *s_num_envs, *s_env, *s_shape, *s_call_impl, *s_compiled, *s_note_syncs, *s_close_late;

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
    {"learned", T_BOOL, offsetof(State, learned)},
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
    PyObject *helper; /* FORWARD: torch.is_grad_enabled. STEP: what reads a result. REGION, OPTIMIZER: the stage's path. */
    int64_t kind;     /* of the events; with gradients it is one more */
    int64_t number;   /* REGION: of the path. STEP: whether `num_envs` says how many steps one call makes. UNLESS: what. */
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

/* How NumPy's arrays and their types begin, in every version since 1.0. Whoever asks an array for its buffer waits until NumPy
   has described it in text. */
typedef struct {
    PyObject_HEAD
    PyTypeObject *scalar;
    char kind, letter, order, flags;
    int number;
} ArrayType;

typedef struct {
    PyObject_HEAD
    char *data;
    int dimensions;
    Py_ssize_t *shape, *strides;
    PyObject *base;
    ArrayType *type;
    int flags; /* the first: rows lie one after another */
} Array;

/* The booleans of an array that has nothing else, without gaps; NULL if this is something else. */
static const char *booleans(PyObject *object, Py_ssize_t *count) {
    static PyTypeObject *arrays;
    if (Py_TYPE(object) != arrays) {
        if (arrays != NULL || Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE || strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray"))
            return NULL;
        arrays = Py_TYPE(object);
    }
    Array *array = (Array *)object;
    if (array->type->number != 0 || array->type->letter != '?' || !(array->flags & 1)) return NULL;
    *count = 1;
    for (int i = 0; i < array->dimensions; i++) *count *= array->shape[i];
    return array->data;
}

static int is_zero(const char *bytes, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (bytes[i]) return 0;
    return 1;
}

/* Whether this says plainly that no episode ended: False, or an array of bytes that are all zero. */
static int is_quiet(PyObject *done) {
    Py_ssize_t count;
    if (done == Py_False) return 1;
    if (done == Py_True) return 0;
    const char *bytes = booleans(done, &count);
    if (bytes != NULL) return is_zero(bytes, count);
    if (!PyObject_CheckBuffer(done)) return 0;
    Py_buffer view;
    if (PyObject_GetBuffer(done, &view, PyBUF_CONTIG_RO)) {
        PyErr_Clear();
        return 0;
    }
    int quiet = view.itemsize == 1 && is_zero(view.buf, view.len);
    PyBuffer_Release(&view);
    return quiet;
}

/* An attribute of the object itself, or NULL. Wrappers are not asked to pass it on: some print a warning then, and all of them
   take their time. So does an exception that nobody wants to see, which is why Python's own function is asked. */
static PyObject *attribute(PyObject *object, PyObject *name) {
#if PY_VERSION_HEX < 0x030d0000
    PyObject *value = _PyObject_GenericGetAttrWithDict(object, name, NULL, 1);
#else
    PyObject *value = PyObject_GenericGetAttr(object, name);
#endif
    if (value == NULL) PyErr_Clear();
    return value;
}

/* How many environments there are in one, or in what it wraps. */
static int64_t num_envs(PyObject *env) {
    int64_t steps = 1;
    Py_INCREF(env);
    for (int depth = 0; env != NULL && depth < 32; depth++) {
        PyObject *number = attribute(env, s_num_envs);
        if (number != NULL && number != Py_None) {
            steps = PyLong_AsLongLong(number);
            if (steps == -1 && PyErr_Occurred()) steps = 1;
            Py_DECREF(number);
            break;
        }
        Py_XDECREF(number);
        PyObject *inner = attribute(env, s_env);
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

/* Functions whose hook has something to do only unless ... */
enum { INSIDE, INSIDE_ALONE, NOT_UPDATED };

static PyObject *unless(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    int passes = h->number == NOT_UPDATED ? !s->updated : s->inside && !(h->number == INSIDE_ALONE && s->threaded);
    return PyObject_Vectorcall(passes ? h->original : h->slow, args, nargsf, kwnames);
}

/* Before and after an optimizer's step, told by torch. On another thread than the measured one `original` is called. */
static PyObject *optimizer_begins(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    if (s->thread != PyThread_get_thread_ident()) {
        PyObject *is_measured = PyObject_Vectorcall(h->original, args, nargsf, kwnames);
        if (is_measured != Py_True) return is_measured;
        Py_DECREF(is_measured);
    }
    if (s->depth && PyUnicode_Compare(s->region, h->helper) == 0) { /* the last step raised an error */
        s->depth = 0;
        s->inside = 0;
        set_region(s, empty);
    }
    int64_t begin = 0;
    if (!s->inside) {
        if (flush_syncs(s, Py_False)) return NULL;
        s->inside = 1;
        set_region(s, h->helper);
        begin = now();
    }
    if (s->depth < 8) s->steps[s->depth++] = begin;
    Py_RETURN_NONE;
}

static PyObject *optimizer_ends(Hook *h, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    State *s = h->state;
    if (s->thread != PyThread_get_thread_ident()) return PyObject_Vectorcall(h->original, args, nargsf, kwnames);
    int64_t begin = s->depth ? s->steps[--s->depth] : 0, optimizer = PyVectorcall_NARGS(nargsf) ? (int64_t)(intptr_t)args[0] : 0;
    if (begin) {
        int64_t end = now();
        s->inside = 0;
        set_region(s, empty);
        if (append(s, h->kind, begin, end, optimizer, 0) || flush_syncs(s, Py_True)) return NULL;
        s->updated = s->learned = 1;
        if (!s->touched && end >= s->late) return PyObject_CallMethodObjArgs((PyObject *)s, s_close_late, NULL);
    } else if (s->paused && PyUnicode_GET_LENGTH(s->region) == 0) {
        if (append(s, h->kind, 0, 0, optimizer, 0)) return NULL;
        s->updated = 1;
    }
    Py_RETURN_NONE;
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
static PyObject *make_unless(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)unless); }
static PyObject *make_begins(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)optimizer_begins); }
static PyObject *make_ends(PyObject *m, PyObject *args) { return make(args, (vectorcallfunc)optimizer_ends); }

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

#include "ticker.h"
#include "objects.h"
#include "audit.h"

static PyMethodDef methods[] = {
    {"audit", audit, METH_VARARGS, "(names of events as bytes, function or None): it is called with each of these audit events"},
    {"instances", instances, METH_VARARGS, "(list, tuple of classes): the objects of exactly these classes"},
    {"reachable", reachable, METH_VARARGS,
     "(list, list, tuple of classes, tuple of ids, number): the objects of exactly these classes that can be reached from the first "
     "list without those in the second; None if not all of these ids can be, or more than that number of objects"},
    {"variables", variables, METH_O, "(frame): what its variables hold"},
    {"ticker_start", ticker_start, METH_VARARGS, "(nanoseconds, number of a signal): its handler is called on the main thread"},
    {"ticker_run", ticker_run, METH_O, "(whether to ask for stack samples)"},
    {"ticker_when", ticker_when, METH_NOARGS, 
     "When a stack sample was asked for (0 if none was) and when the signal came, by the clock of perf_counter_ns; whether the thread "
     "slept; whether native code ran (1), the interpreter (0), or nobody knows (-1)."},
    {"ticker_stop", ticker_stop, METH_NOARGS, "No stack samples any more."},
    {"forward", make_forward, METH_VARARGS, "(state, original, slow, is_grad_enabled, kind, 0, is torch's own call)"},
    {"step", make_step, METH_VARARGS, "(state, original, slow, read, kind, num_envs counts, False)"},
    {"region", make_region, METH_VARARGS, "(state, original, slow, path, kind, number of the path, is an evaluation)"},
    {"unless", make_unless, METH_VARARGS, "(state, original, slow, None, 0, when the original alone is called, False)"},
    {"optimizer_begins", make_begins, METH_VARARGS, "(state, on another thread: whether it is measured now, None, path, kind, 0, False)"},
    {"optimizer_ends", make_ends, METH_VARARGS, "(state, on another thread, None, path, kind, 0, False)"},
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
    s_close_late = PyUnicode_InternFromString("close_late");
    if (PyType_Ready(&StateType) || PyType_Ready(&HookType)) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddObjectRef(module, "State", (PyObject *)&StateType) || PyModule_AddObjectRef(module, "Hook", (PyObject *)&HookType)))
        Py_CLEAR(module);
    return module;
}
