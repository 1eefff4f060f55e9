/* Expired rows out of windows. */
#include "loops.h"

typedef struct {
    PyObject *table, *bound_object, *doubtful;
    int64_t bound, row_cost, window_cost;
} Expiry;

/* Of a side of few rows, those that end before the bound, whose names are held then, and what they
 * cost; -1 for a doubt. */
static int expired(const Expiry *expiry, PyObject *side, PyObject **names, int64_t *cost)
{
    PyObject *name, *row;
    Py_ssize_t position = 0;
    int64_t end;
    int count = 0;
    if (PyDict_GET_SIZE(side) > FEW)
        return -1;
    *cost = 0;
    while (count < FEW && PyDict_Next(side, &position, &name, &row)) {
        int plain = is_tuple(row, ROW_SIZE) && number_of(PyTuple_GET_ITEM(row, END), &end)
            && PyBytes_CheckExact(PyTuple_GET_ITEM(row, VALUE));
        if (plain && end >= expiry->bound)
            break;
        if (!plain) {
            while (count > 0)
                Py_DECREF(names[--count]);
            return -1;
        }
        *cost += expiry->row_cost + PyBytes_GET_SIZE(PyTuple_GET_ITEM(row, VALUE));
        names[count++] = Py_NewRef(name);
    }
    return count;
}

/* Drops the expired rows of a side; the bytes freed, -1 with an exception. */
static int64_t trim_side(const Expiry *expiry, PyObject *side)
{
    PyObject *names[FEW];
    int64_t freed;
    int failed = 0, count = expired(expiry, side, names, &freed);
    if (count < 0) {
        PyObject *given[] = {side, expiry->bound_object};
        PyObject *answer = PyObject_Vectorcall(expiry->doubtful, given, 2, NULL);
        freed = answer == NULL ? -1 : PyLong_AsLongLong(answer);
        Py_XDECREF(answer);
        return PyErr_Occurred() ? -1 : freed;
    }
    for (int at = 0; at < count; at++) {
        failed |= !failed && PyDict_DelItem(side, names[at]) < 0;
        Py_DECREF(names[at]);
    }
    return failed ? -1 : freed;
}

/* Drops the expired rows of a key, and its window if none are left; the bytes freed, -1 with an
 * exception. `rows` is how many. */
static int64_t trim_window(const Expiry *expiry, PyObject *key, PyObject *window, Py_ssize_t *rows)
{
    PyObject *sides[2];
    for (int side = 0; side < 2; side++)
        if (!is_tuple(window, 2) || !PyDict_Check(sides[side] = PyTuple_GET_ITEM(window, side))) {
            PyErr_SetString(PyExc_TypeError, "a window");
            return -1;
        }
    *rows = PyDict_GET_SIZE(sides[0]) + PyDict_GET_SIZE(sides[1]);
    int64_t left = trim_side(expiry, sides[0]);
    int64_t right = left < 0 ? -1 : trim_side(expiry, sides[1]);
    if (right < 0)
        return -1;
    Py_ssize_t rest = PyDict_GET_SIZE(sides[0]) + PyDict_GET_SIZE(sides[1]);
    *rows -= rest;
    if (rest > 0)
        return left + right;
    return PyDict_DelItem(expiry->table, key) < 0 ? -1 : left + right + expiry->window_cost;
}

/* Takes the last key off the list; a new reference, or NULL with an exception. */
static PyObject *take_last(PyObject *keys)
{
    Py_ssize_t last = PyList_GET_SIZE(keys) - 1;
    PyObject *key = Py_NewRef(PyList_GET_ITEM(keys, last));
    if (PyList_SetSlice(keys, last, last + 1, NULL) < 0)
        Py_CLEAR(key);
    return key;
}

/* expire(table, keys, bound, budget, costs, doubtful): drops the rows of these keys that end before
 * the bound, and returns the bytes freed. `doubtful(side, bound)` does it for one side of a window.
 * See `expire` in state/window.py. */
PyObject *expire(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int64_t freed = 0, budget, costs[2];
    int failed = 0;
    Expiry expiry;
    if (nargs != 6 || !PyDict_CheckExact(args[0]) || !PyList_CheckExact(args[1])
        || !number_of(args[2], &expiry.bound) || !number_of(args[3], &budget)) {
        PyErr_SetString(PyExc_TypeError, "expire(table, keys, bound, budget, costs, doubtful)");
        return NULL;
    }
    if (!read_numbers(args[4], costs, 2))
        return NULL;
    expiry.table = args[0], expiry.bound_object = args[2], expiry.doubtful = args[5];
    expiry.row_cost = costs[0], expiry.window_cost = costs[1];
    while (!failed && budget > 0 && PyList_GET_SIZE(args[1]) > 0) {
        PyObject *key = take_last(args[1]);
        PyObject *window =
            key == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(expiry.table, key));
        int64_t more = 0;
        Py_ssize_t rows = 0;
        if (window != NULL)
            more = trim_window(&expiry, key, window, &rows);
        failed = more < 0 || PyErr_Occurred() != NULL;
        freed += more;
        budget -= 1 + rows;
        Py_XDECREF(window);
        Py_XDECREF(key);
    }
    return failed ? NULL : PyLong_FromLongLong(freed);
}
