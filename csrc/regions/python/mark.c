/* The context manager under counteroof.region. Written against Python's own interface, because the two Python calls of
 * a `with` and the two calls through cffi took as long as a reading of the counters does. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

struct mark {
    PyObject_HEAD
    PyObject *name;
    int number; /* of the region; -1: to be asked for */
};

/* Of csrc/regions/regions.c, in a library that another module has loaded for itself. */
static int (*begin)(int), (*end)(int);
static PyObject *known; /* name -> mark */

static int ask(struct mark *mark)
{
    PyObject *number = PyObject_CallMethod((PyObject *)mark, "_open", NULL);
    if (!number) return -1;
    mark->number = (int)PyLong_AsLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *words[] = {"name", NULL};
    /* the usual way, quickly */
    PyObject *name = !keywords && PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
    if ((!name || !PyUnicode_Check(name)) && !PyArg_ParseTupleAndKeywords(args, keywords, "U", words, &name))
        return NULL;
    PyObject *found = PyDict_GetItemWithError(known, name);
    if (found || PyErr_Occurred()) {
        Py_XINCREF(found);
        return found;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct mark *mark = (struct mark *)allocate(type, 0);
    if (!mark) return NULL;
    Py_INCREF(name);
    mark->name = name;
    mark->number = -1;
    if (ask(mark) < 0 || PyDict_SetItem(known, name, (PyObject *)mark) < 0) {
        Py_DECREF(mark);
        return NULL;
    }
    return (PyObject *)mark;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct mark *mark = (struct mark *)self;
    if (mark->number < 0 && ask(mark) < 0) return NULL;
    begin(mark->number);
    Py_INCREF(self);
    return self;
}

/* Is given the exception, if any, and lets it pass. */
static PyObject *leave(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    (void)given, (void)count;
    end(((struct mark *)self)->number);
    Py_RETURN_NONE;
}

static void drop(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((struct mark *)self)->name);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, "Begin the region."},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, "End the region."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(struct mark, name), READONLY, "What the region is called."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "The one mark of a name; its method _open returns the number of the region."},
    {Py_tp_new, make},
    {Py_tp_dealloc, drop},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};
static PyType_Spec mark = {
    .name = "counteroof._mark.Mark",
    .basicsize = sizeof(struct mark),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

static PyObject *connect(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long first, last;
    if (!PyArg_ParseTuple(args, "KK", &first, &last)) return NULL;
    begin = (int (*)(int))(uintptr_t)first;
    end = (int (*)(int))(uintptr_t)last;
    Py_RETURN_NONE;
}

static PyObject *forget(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *name, *one;
    Py_ssize_t place = 0;
    while (PyDict_Next(known, &place, &name, &one)) ((struct mark *)one)->number = -1;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, "Take the addresses of regions_begin and regions_end."},
    {"forget", forget, METH_NOARGS, "Let every mark ask for its number again."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_mark", "The context manager under counteroof.region.", -1, functions,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__mark(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    known = PyDict_New();
    PyObject *type = PyType_FromSpec(&mark);
    if (!known || !type || PyModule_AddObjectRef(module, "Mark", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
