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
