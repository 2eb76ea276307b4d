/* -- which of many objects are of some classes: there are hundreds of thousands, and the script waits -- */

typedef struct {
    Py_ssize_t count;
    uintptr_t *sorted;
    unsigned char maybe[4096]; /* by some bits of the address: nearly all objects end here */
} Classes;

static int by_address(const void *a, const void *b) {
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static int classes_of(PyObject *types, Classes *classes) {
    memset(classes->maybe, 0, sizeof classes->maybe);
    classes->count = PyTuple_GET_SIZE(types);
    classes->sorted = PyMem_Malloc(((size_t)classes->count + 1) * sizeof *classes->sorted);
    if (classes->sorted == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < classes->count; i++) {
        classes->sorted[i] = (uintptr_t)PyTuple_GET_ITEM(types, i);
        classes->maybe[classes->sorted[i] >> 4 & 4095] = 1;
    }
    qsort(classes->sorted, (size_t)classes->count, sizeof *classes->sorted, by_address);
    return 0;
}

static int is_one_of(PyObject *object, const Classes *classes) {
    uintptr_t type = (uintptr_t)Py_TYPE(object);
    return classes->maybe[type >> 4 & 4095] &&
           bsearch(&type, classes->sorted, (size_t)classes->count, sizeof *classes->sorted, by_address) != NULL;
}

static PyObject *instances(PyObject *module, PyObject *args) {
    PyObject *objects, *types;
    Classes classes;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &objects, &PyTuple_Type, &types) || classes_of(types, &classes)) return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(objects); i++)
        if (is_one_of(PyList_GET_ITEM(objects, i), &classes) && PyList_Append(found, PyList_GET_ITEM(objects, i))) Py_CLEAR(found);
    PyMem_Free(classes.sorted);
    return found;
}

/* -- what a script can reach from its variables: some thousands of objects, where the garbage collector knows of all that
   its libraries made -- */

typedef struct {
    PyObject **reached; /* in the order in which they were found; borrowed, because no Python runs meanwhile */
    size_t count, most, mask;
    uintptr_t *seen; /* their addresses, and those of what is left out */
} Search;

/* Whether an address is new. There is room: the table is twice as large as what it may hold. */
static int is_new(Search *search, void *object) {
    uintptr_t address = (uintptr_t)object;
    size_t at = (address >> 4) * (size_t)0x9E3779B97F4A7C15u >> 7 & search->mask;
    while (search->seen[at] != 0 && search->seen[at] != address) at = (at + 1) & search->mask;
    if (search->seen[at] == address) return 0;
    search->seen[at] = address;
    return 1;
}

/* Classes and modules are left out: everything that a library made hangs on them. What the collector does not track refers to
   nothing that it does. */
static int reach(PyObject *object, void *given) {
    Search *search = given;
    if (!PyObject_IS_GC(object) || PyType_Check(object) || PyModule_Check(object) || !PyObject_GC_IsTracked(object)) return 0;
    if (!is_new(search, object)) return 0;
    if (search->count == search->most) return 1;
    search->reached[search->count++] = object;
    return 0;
}

static PyObject *reachable(PyObject *module, PyObject *args) {
    PyObject *roots, *without, *types, *known, *found = NULL;
    Py_ssize_t most;
    Classes classes;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n", &PyList_Type, &roots, &PyList_Type, &without, &PyTuple_Type, &types, &PyTuple_Type, &known, &most))
        return NULL;
    size_t room = 1024;
    while (room < 2 * (size_t)(most + PyList_GET_SIZE(without) + PyTuple_GET_SIZE(known) + 1)) room *= 2;
    if (classes_of(types, &classes)) return NULL;
    Search search = {PyMem_Malloc(((size_t)most + 1) * sizeof *search.reached), 0, (size_t)most, room - 1, PyMem_Calloc(room, sizeof *search.seen)};
    if (search.reached == NULL || search.seen == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(without); i++) is_new(&search, PyList_GET_ITEM(without, i));
    int is_too_much = 0;
    for (Py_ssize_t i = 0; !is_too_much && i < PyList_GET_SIZE(roots); i++) is_too_much = reach(PyList_GET_ITEM(roots, i), &search);
    for (size_t i = 0; !is_too_much && i < search.count; i++)
        is_too_much = Py_TYPE(search.reached[i])->tp_traverse(search.reached[i], reach, &search);
    int is_complete = !is_too_much;
    for (Py_ssize_t i = 0; is_complete && i < PyTuple_GET_SIZE(known); i++) {
        void *address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(known, i));
        if (address == NULL && PyErr_Occurred()) goto end;
        is_complete = !is_new(&search, address);
    }
    found = is_complete ? PyList_New(0) : Py_NewRef(Py_None);
    for (size_t i = 0; is_complete && found && i < search.count; i++)
        if (is_one_of(search.reached[i], &classes) && PyList_Append(found, search.reached[i])) Py_CLEAR(found);
end:
    PyMem_Free(search.reached);
    PyMem_Free(search.seen);
    PyMem_Free(classes.sorted);
    return found;
}

/* -- what the variables of a running function hold. Asked for `f_locals`, Python 3.11 and 3.12 would keep it all alive -- */

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030d0000 && __has_include("internal/pycore_frame.h")
#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE

static PyObject *variables(PyObject *module, PyObject *given) {
    if (!PyFrame_Check(given)) return PyErr_Format(PyExc_TypeError, "no frame");
    _PyInterpreterFrame *frame = ((PyFrameObject *)given)->f_frame;
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < frame->f_code->co_nlocalsplus; i++)
        if (frame->localsplus[i] != NULL && PyList_Append(found, frame->localsplus[i])) Py_CLEAR(found);
    return found;
}
#elif PY_VERSION_HEX < 0x030b0000
static int append_to(PyObject *object, void *list) { return PyList_Append(list, object); }

static PyObject *variables(PyObject *module, PyObject *given) {
    if (!PyFrame_Check(given)) return PyErr_Format(PyExc_TypeError, "no frame");
    PyObject *found = PyList_New(0);
    if (found && Py_TYPE(given)->tp_traverse(given, append_to, found)) Py_CLEAR(found);
    return found;
}
#elif PY_VERSION_HEX >= 0x030d0000
static PyObject *variables(PyObject *module, PyObject *given) {
    if (!PyFrame_Check(given)) return PyErr_Format(PyExc_TypeError, "no frame");
    PyObject *locals = PyFrame_GetLocals((PyFrameObject *)given);
    PyObject *found = locals == NULL ? NULL : PyMapping_Values(locals);
    Py_XDECREF(locals);
    return found;
}
#else
static PyObject *variables(PyObject *module, PyObject *given) { return PyErr_Format(PyExc_NotImplementedError, "no headers"); }
#endif
