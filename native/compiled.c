/* The inner loops of the hot path, compiled: values to rows, records to decisions, pairs to
 * matches, rows to bytes.
 *
 * Each function here is a second version of a Python one, which says what is right and is named at
 * it. Whatever is not quite ordinary is a *doubt*: it is handed to the Python version, by a
 * function that comes as an argument (`doubtful`), or by returning None. So nothing is rejected
 * here, nothing is decided, and no message for people is written.
 */
#include "loops.h"

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    FAST(decode), FAST(arrive), FAST(decide), FAST(matches), FAST(groups),
    {"pack", pack, METH_O, NULL},   {"parse", parse, METH_O, NULL},
    {"unpack", unpack, METH_O, NULL}, {"tally", tally, METH_O, NULL},
    FAST(mark), FAST(screen), FAST(place), FAST(prefixes), FAST(sweep), FAST(expire),
    FAST(remove_windows),
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "compiled",
    .m_doc = "The inner loops of the hot path, compiled.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_compiled(void)
{
    return PyModuleDef_Init(&definition);
}
