/* Stored rows to windows, and windows away. */
#include "loops.h"

/* A stored row, see state/keys.py. */
enum { STORED_BUCKET, STORED_SIDE, STORED_KEY, STORED_ROW, STORED_SIZE };

/* ---- Bytes to rows ------------------------------------------------------------------------- */

/* What one entry says; `key` is that of the entry before, or NULL, and is used again if it is the
 * same. NULL without an exception is a doubt. */
static PyObject *parse_entry(PyObject *entry, PyObject **key)
{
    const uint8_t *name, *value;
    Py_ssize_t size, value_size;
    if (!is_tuple(entry, 2) || !bytes_of(PyTuple_GET_ITEM(entry, 0), &name, &size)
        || !bytes_of(PyTuple_GET_ITEM(entry, 1), &value, &value_size) || value_size < VALUE_AT
        || size < KEY_AT + INTERVAL_BYTES || name[0] != ROW_MARKER || name[SIDE_AT] > 1)
        return NULL;
    uint64_t key_size = read_big(name + LENGTH_AT, 4);
    if (key_size > (uint64_t)(size - KEY_AT - INTERVAL_BYTES))
        return NULL;
    const uint8_t *interval = name + KEY_AT + key_size, *id = interval + INTERVAL_BYTES;
    if (*key == NULL || (uint64_t)PyBytes_GET_SIZE(*key) != key_size
        || memcmp(PyBytes_AS_STRING(*key), name + KEY_AT, key_size) != 0)
        Py_XSETREF(*key, PyBytes_FromStringAndSize((const char *)name + KEY_AT,
                                                   (Py_ssize_t)key_size));
    PyObject *parts[ROW_SIZE] = {
        [END] = PyLong_FromLongLong(read_time(interval)),
        [START] = PyLong_FromLongLong(read_time(interval + 8)),
        [ID] = PyUnicode_DecodeUTF8((const char *)id, name + size - id, NULL),
        [TS] = PyLong_FromLongLong(read_time(value + TS_AT)),
        [KIND] = PyLong_FromLong(value[FLAGS_AT]),
        [VALUE] = PyBytes_FromStringAndSize((const char *)value + VALUE_AT,
                                            value_size - VALUE_AT),
    };
    if (parts[ID] == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        PyErr_Clear();
    PyObject *row = tuple_of(parts, ROW_SIZE);
    PyObject *whole[STORED_SIZE] = {
        PyLong_FromLongLong(read_time(name + BUCKET_AT)),
        PyLong_FromLong(name[SIDE_AT]),
        Py_XNewRef(*key),
        row == NULL ? NULL : untracked(row),
    };
    return tuple_of(whole, STORED_SIZE);
}

/* parse(entries): what stored entries say; None is a doubt. See `parse_rows` in state/keys.py. */
PyObject *parse(PyObject *Py_UNUSED(module), PyObject *entries)
{
    if (!PyList_CheckExact(entries)) {
        PyErr_SetString(PyExc_TypeError, "parse(entries)");
        return NULL;
    }
    PyObject *rows = PyList_New(0), *key = NULL;
    for (Py_ssize_t at = 0; rows != NULL && at < PyList_GET_SIZE(entries); at++) {
        PyObject *row = parse_entry(PyList_GET_ITEM(entries, at), &key);
        if (row == NULL || append(rows, row) < 0)
            Py_CLEAR(rows);
    }
    Py_XDECREF(key);
    return rows == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : rows;
}

/* ---- Rows to windows ----------------------------------------------------------------------- */

static int add_to(PyObject *costs, PyObject *bucket, Py_ssize_t cost)
{
    PyObject *before = PyDict_GetItemWithError(costs, bucket);
    if (before == NULL && PyErr_Occurred())
        return -1;
    Py_ssize_t sum = cost + (before == NULL ? 0 : PyLong_AsSsize_t(before));
    PyObject *after = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(sum);
    int failed = after == NULL ? -1 : PyDict_SetItem(costs, bucket, after);
    Py_XDECREF(after);
    return failed;
}

static int place_row(PyObject *stored, PyObject *const *args, PyObject *costs, Slots *slots)
{
    PyObject *table = args[1], *row, *value;
    if (!is_tuple(stored, STORED_SIZE) || !PyLong_Check(PyTuple_GET_ITEM(stored, STORED_SIDE))
        || !is_tuple(row = PyTuple_GET_ITEM(stored, STORED_ROW), ROW_SIZE)
        || !PyBytes_CheckExact(value = PyTuple_GET_ITEM(row, VALUE))) {
        PyErr_SetString(PyExc_TypeError, "a stored row");
        return -1;
    }
    /* Python's version has them as members of an enumeration. */
    int side = PyObject_IsTrue(PyTuple_GET_ITEM(stored, STORED_SIDE));
    PyObject *key = PyTuple_GET_ITEM(stored, STORED_KEY);
    PyObject *window = Py_XNewRef(PyDict_GetItemWithError(table, key));
    if (window == NULL) {
        window = PyErr_Occurred() ? NULL : PyObject_CallNoArgs(args[3]);
        if (window == NULL || PyDict_SetItem(table, key, window) < 0) {
            Py_XDECREF(window);
            return -1;
        }
    }
    int done = is_tuple(window, 2) ? put_row(PyTuple_GET_ITEM(window, side), row, slots) : -1;
    if (done == 0) {
        PyObject *nothing = PyObject_CallFunctionObjArgs(
            args[4], PyTuple_GET_ITEM(window, side), row, NULL);
        done = nothing == NULL ? -1 : 1;
        Py_XDECREF(nothing);
    }
    Py_DECREF(window);
    Py_ssize_t cost = PyLong_AsSsize_t(args[2]) + PyBytes_GET_SIZE(value);
    return done < 0 ? -1 : add_to(costs, PyTuple_GET_ITEM(stored, STORED_BUCKET), cost);
}

/* place(rows, table, row_cost, make, doubtful): puts stored rows into their windows, which `make`
 * makes where there are none; what they cost, by bucket. See `place` in state/window.py. */
PyObject *place(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5 || !PyList_CheckExact(args[0]) || !PyDict_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "place(rows, table, row_cost, make, doubtful)");
        return NULL;
    }
    Slots slots;
    if (take_slots(&slots) < 0)
        return NULL;
    PyObject *costs = PyDict_New();
    int failed = costs == NULL;
    for (Py_ssize_t at = 0; !failed && at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *stored = Py_NewRef(PyList_GET_ITEM(args[0], at));
        failed = place_row(stored, args, costs, &slots) < 0;
        Py_DECREF(stored);
    }
    give_slots(&slots);
    if (failed) {
        Py_CLEAR(costs);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a window");
    }
    return costs;
}

/* ---- Keys to prefixes ---------------------------------------------------------------------- */

static PyObject *prefix_of(PyObject *key, int64_t bucket, int side)
{
    Py_ssize_t size = PyBytes_GET_SIZE(key);
    PyObject *prefix = PyBytes_FromStringAndSize(NULL, KEY_AT + size);
    if (prefix != NULL)
        put_prefix(PyBytes_AS_STRING(prefix), bucket, side, PyBytes_AS_STRING(key), size);
    return prefix;
}

/* Adds the prefixes of a key that this filter, all ones if it is None, may hold. */
static int look(PyObject *found, PyObject *key, PyObject *filter, const uint8_t *patterns[2],
                int mask)
{
    int64_t bucket;
    PyObject *cells = is_tuple(filter, 2) ? PyTuple_GET_ITEM(filter, 1) : NULL;
    Py_hash_t digest = PyObject_Hash(key);
    uint8_t cell = 255;
    if (cells == NULL || (digest == -1 && PyErr_Occurred())
        || !number_of(PyTuple_GET_ITEM(filter, 0), &bucket))
        return -1;
    if (cells != Py_None) {
        if (!PyByteArray_CheckExact(cells) || PyByteArray_GET_SIZE(cells) < 1)
            return -1;
        cell = (uint8_t)PyByteArray_AS_STRING(
            cells)[(size_t)digest & (size_t)(PyByteArray_GET_SIZE(cells) - 1)];
    }
    for (int side = 0; side < 2; side++) {
        uint8_t pattern = patterns[side][(uint64_t)digest >> 32 & (uint64_t)mask];
        if ((cell & pattern) == pattern && append(found, prefix_of(key, bucket, side)) < 0)
            return -1;
    }
    return 0;
}

/* prefixes(keys, filters, left, right): what the names of rows begin with that may be stored, of
 * these keys, by (bucket, cells) filters; patterns by part of a hash. See `find` in
 * state/presence.py. */
PyObject *prefixes(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    const uint8_t *patterns[2];
    Py_ssize_t sizes[2];
    if (nargs != 4 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1])
        || !bytes_of(args[2], &patterns[0], &sizes[0])
        || !bytes_of(args[3], &patterns[1], &sizes[1]) || sizes[0] != sizes[1] || sizes[0] < 1
        || (sizes[0] & (sizes[0] - 1)) != 0) {
        PyErr_SetString(PyExc_TypeError, "prefixes(keys, filters, left, right)");
        return NULL;
    }
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *key = PyList_GET_ITEM(args[0], at);
        for (Py_ssize_t each = 0; found != NULL && each < PyList_GET_SIZE(args[1]); each++)
            if (!PyBytes_CheckExact(key)
                || look(found, key, PyList_GET_ITEM(args[1], each), patterns,
                        (int)sizes[0] - 1)
                    < 0)
                Py_CLEAR(found);
    }
    if (found == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "keys and filters");
    return found;
}

/* ---- Windows away -------------------------------------------------------------------------- */

typedef struct {
    PyObject *table, *costs, *used;
    int64_t span, row_cost, window_cost;
} Sweep;

/* What a side's rows cost, taken from the costs of their buckets; -1 with an exception. */
static int64_t take_off(const Sweep *sweep, PyObject *side)
{
    PyObject *row, *value;
    Py_ssize_t position = 0;
    int64_t end, sum = 0;
    while (PyDict_Check(side) && PyDict_Next(side, &position, NULL, &row)) {
        if (!is_tuple(row, ROW_SIZE) || !number_of(PyTuple_GET_ITEM(row, END), &end)
            || !PyBytes_CheckExact(value = PyTuple_GET_ITEM(row, VALUE))) {
            PyErr_SetString(PyExc_TypeError, "a row");
            return -1;
        }
        int64_t cost = sweep->row_cost + PyBytes_GET_SIZE(value);
        int64_t number = end / sweep->span - (end % sweep->span < 0);
        PyObject *bucket = PyLong_FromLongLong(number);
        int known = bucket == NULL ? -1 : PyDict_Contains(sweep->costs, bucket);
        if (known > 0)
            known = add_to(sweep->costs, bucket, (Py_ssize_t)-cost);
        Py_XDECREF(bucket);
        if (known < 0)
            return -1;
        sum += cost;
    }
    return sum;
}

/* What a window costs that is not in the table any more; -1 with an exception. */
static int64_t take_window(const Sweep *sweep, PyObject *window)
{
    if (!is_tuple(window, 2)) {
        PyErr_SetString(PyExc_TypeError, "a window");
        return -1;
    }
    int64_t of_left = take_off(sweep, PyTuple_GET_ITEM(window, 0));
    int64_t of_right = of_left < 0 ? -1 : take_off(sweep, PyTuple_GET_ITEM(window, 1));
    return of_right < 0 ? -1 : of_left + of_right + sweep->window_cost;
}

/* Whether a side was used, which it was not from now on; -1 with an exception. */
static int was_used(const Sweep *sweep, PyObject *side)
{
    PyObject *used = PyObject_GetAttr(side, sweep->used);
    int was = used == NULL ? -1 : used == Py_True;
    Py_XDECREF(used);
    return was > 0 && PyObject_SetAttr(side, sweep->used, Py_False) < 0 ? -1 : was;
}

/* Gives a window its second chance, at the end of the table, or takes it away; the bytes freed. */
static int64_t visit(const Sweep *sweep, PyObject *key)
{
    PyObject *window = Py_XNewRef(PyDict_GetItemWithError(sweep->table, key));
    int64_t freed = -1;
    if (window != NULL && is_tuple(window, 2)) {
        PyObject *left = PyTuple_GET_ITEM(window, 0), *right = PyTuple_GET_ITEM(window, 1);
        int used = was_used(sweep, left), other = was_used(sweep, right);
        if (used < 0 || other < 0 || PyDict_DelItem(sweep->table, key) < 0)
            ;
        else if (used || other)
            freed = PyDict_SetItem(sweep->table, key, window) < 0 ? -1 : 0;
        else
            freed = take_window(sweep, window);
    }
    Py_XDECREF(window);
    if (freed < 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a window");
    return freed;
}

/* Reads what `take_off` goes by from (..., table, costs, span, row_cost, window_cost). */
static int read_sweep(PyObject *const *args, Sweep *sweep)
{
    sweep->table = args[0];
    sweep->costs = args[1];
    sweep->used = NULL;
    return PyDict_CheckExact(args[0]) && PyDict_CheckExact(args[1])
        && number_of(args[2], &sweep->span) && sweep->span > 0
        && number_of(args[3], &sweep->row_cost) && number_of(args[4], &sweep->window_cost);
}

/* remove(keys, table, costs, span, row_cost, window_cost): takes away the windows of these keys; the
 * bytes freed. See `remove` in state/window.py. */
PyObject *remove_windows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int64_t freed = 0;
    Sweep sweep;
    if (nargs != 6 || !PyList_CheckExact(args[0]) || !read_sweep(args + 1, &sweep)) {
        PyErr_SetString(PyExc_TypeError,
                        "remove(keys, table, costs, span, row_cost, window_cost)");
        return NULL;
    }
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *key = Py_NewRef(PyList_GET_ITEM(args[0], at));
        PyObject *window = Py_XNewRef(PyDict_GetItemWithError(sweep.table, key));
        int64_t more = 0;
        if (window != NULL)
            more = PyDict_DelItem(sweep.table, key) < 0 ? -1 : take_window(&sweep, window);
        Py_XDECREF(window);
        Py_DECREF(key);
        if (more < 0 || PyErr_Occurred())
            return NULL;
        freed += more;
    }
    return PyLong_FromLongLong(freed);
}

/* sweep(bytes_to_free, table, costs, span, row_cost, window_cost): takes away windows, those not
 * used for longest first; the bytes freed. See `Windows.evict` in state/window.py. */
PyObject *sweep(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    int64_t wanted, freed = 0;
    Sweep sweep;
    if (nargs != 6 || !number_of(args[0], &wanted) || !read_sweep(args + 1, &sweep)) {
        PyErr_SetString(PyExc_TypeError,
                        "sweep(bytes_to_free, table, costs, span, row_cost, window_cost)");
        return NULL;
    }
    sweep.used = PyUnicode_InternFromString("used");
    int failed = sweep.used == NULL;
    for (int pass = 0; pass < 2 && !failed && freed < wanted; pass++) {
        PyObject *keys = PyDict_Keys(sweep.table);
        failed = keys == NULL;
        for (Py_ssize_t at = 0; !failed && freed < wanted && at < PyList_GET_SIZE(keys); at++) {
            int64_t more = visit(&sweep, PyList_GET_ITEM(keys, at));
            failed = more < 0;
            freed += failed ? 0 : more;
        }
        Py_XDECREF(keys);
    }
    Py_XDECREF(sweep.used);
    return failed ? NULL : PyLong_FromLongLong(freed);
}
