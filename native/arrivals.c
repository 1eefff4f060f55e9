/* Records to the inbox. */
#include "loops.h"

/* The rank that records have reached, as Python has it and as a number. */
typedef struct {
    PyObject *rank;
    int64_t number;
    int none; /* Before every time. */
} Top;

/* Takes over the reference. */
static int set_top(Top *top, PyObject *rank)
{
    int overflow;
    if (rank == NULL)
        return -1;
    Py_XSETREF(top->rank, rank);
    top->number = PyLong_AsLongLongAndOverflow(rank, &overflow);
    top->none = overflow < 0;
    if (overflow > 0)
        PyErr_SetString(PyExc_OverflowError, "a rank is a time");
    return overflow > 0 || PyErr_Occurred() ? -1 : 0;
}

/* What a valid INSERT, or one that is late, makes of the rank; 0 is a doubt. */
static int raise_top(Top *top, PyObject *key, PyObject *parts, const int64_t *limits)
{
    Times times;
    int64_t ts;
    if (!is_tuple(parts, ROW_SIZE) || !number_of(PyTuple_GET_ITEM(parts, TS), &ts))
        return 0;
    if (!top->none && ts <= top->number)
        return 1;
    if (key == Py_None || !is_insert(parts, limits, &times))
        return 0;
    top->number = ts;
    top->none = 0;
    Py_SETREF(top->rank, Py_NewRef(PyTuple_GET_ITEM(parts, TS)));
    return 1;
}

/* arrive(waiting, side, records, top, limits, doubtful): appends each of the records (offset, key,
 * parts, source) with its rank and side, and returns the rank of the last. `doubtful(top, *record)`
 * is the rank of a record. See Inbox.push in app/merge.py. */
PyObject *arrive(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int64_t limits[LIMITS];
    Top top = {NULL, 0, 0};
    PyObject *records = NULL, *record, *rank = NULL;
    if (nargs != 6 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "arrive(waiting, side, records, top, limits, doubtful)");
        return NULL;
    }
    if (!read_numbers(args[4], limits, LIMITS))
        return NULL;
    if (set_top(&top, Py_NewRef(args[3])) < 0 || (records = PyObject_GetIter(args[2])) == NULL)
        goto end;
    while ((record = PyIter_Next(records)) != NULL) {
        int failed = 0;
        if (!is_tuple(record, 4)) {
            PyErr_SetString(PyExc_TypeError, "a record is (offset, key, parts, source)");
            failed = -1;
        } else if (!raise_top(&top, PyTuple_GET_ITEM(record, 1), PyTuple_GET_ITEM(record, 2),
                              limits)) {
            PyObject *given[] = {top.rank, PyTuple_GET_ITEM(record, 0),
                                 PyTuple_GET_ITEM(record, 1), PyTuple_GET_ITEM(record, 2),
                                 PyTuple_GET_ITEM(record, 3)};
            failed = set_top(&top, PyObject_Vectorcall(args[5], given, 5, NULL));
        }
        if (!failed)
            failed = append(args[0], PyTuple_Pack(ARRIVAL_SIZE, top.rank, args[1],
                                                  PyTuple_GET_ITEM(record, 0),
                                                  PyTuple_GET_ITEM(record, 1),
                                                  PyTuple_GET_ITEM(record, 2),
                                                  PyTuple_GET_ITEM(record, 3)));
        Py_DECREF(record);
        if (failed)
            goto end;
    }
    if (!PyErr_Occurred())
        rank = Py_NewRef(top.rank);
end:
    Py_XDECREF(records);
    Py_XDECREF(top.rank);
    return rank;
}
