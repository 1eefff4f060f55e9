/* Pairs to matches. */
#include "loops.h"

/* What all matches of a turn have in common. */
typedef struct {
    PyObject *headers; /* Both inputs' headers, one after the other -> the match's header. */
    const uint8_t *marks[2];
    Py_ssize_t mark_sizes[2], header_size, room;
    uint8_t pair[2 * HEADER_MAX]; /* The headers that came last; none before the first. */
    PyObject *header;             /* And the match's. */
} Joined;

/* Finds the match's header, which is nearly always that of the match before; 0 is a doubt. */
static int find_header(Joined *joined, const uint8_t *left, const uint8_t *right)
{
    size_t size = (size_t)joined->header_size;
    if (joined->header != NULL && memcmp(joined->pair, left, size) == 0
        && memcmp(joined->pair + size, right, size) == 0)
        return 1;
    memcpy(joined->pair, left, size);
    memcpy(joined->pair + size, right, size);
    Py_CLEAR(joined->header);
    PyObject *pair = PyBytes_FromStringAndSize((char *)joined->pair, 2 * joined->header_size);
    PyObject *header = pair == NULL ? NULL : PyDict_GetItemWithError(joined->headers, pair);
    Py_XDECREF(pair);
    if (header != NULL && PyBytes_CheckExact(header))
        joined->header = Py_NewRef(header);
    return joined->header != NULL;
}

/* `L:<left id>|R:<right id>`; NULL without an exception is a doubt. See schemas/match_id.py. */
static PyObject *match_id(PyObject *left, PyObject *right)
{
    Text one, two;
    PyObject *name = NULL;
    if (!text_of(left, &one))
        return NULL;
    if (text_of(right, &two)) {
        if (memchr(one.bytes, '%', (size_t)one.size) == NULL
            && memchr(one.bytes, '|', (size_t)one.size) == NULL
            && memchr(two.bytes, '%', (size_t)two.size) == NULL
            && memchr(two.bytes, '|', (size_t)two.size) == NULL)
            name = PyBytes_FromStringAndSize(NULL, one.size + two.size + 5);
        if (name != NULL) {
            char *at = put_text(PyBytes_AS_STRING(name), "L:");
            at = put_text(put(at, one.bytes, one.size), "|R:");
            put(at, two.bytes, two.size);
        }
        Py_XDECREF(two.held);
    }
    Py_XDECREF(one.held);
    return name;
}

/* Header, times and both inputs' bodies; NULL without an exception is a doubt. */
static PyObject *match_value(Joined *joined, int64_t start, int64_t end, PyObject *left,
                             PyObject *right)
{
    const uint8_t *values[2];
    Py_ssize_t sizes[2], head = joined->header_size;
    char times[2 * LONG_BYTES_MAX], *at = put_long(put_long(times, start), end);
    Py_ssize_t times_size = at - times;
    if (!bytes_of(left, &values[0], &sizes[0]) || !bytes_of(right, &values[1], &sizes[1])
        || sizes[0] < head || sizes[1] < head || sizes[0] > PY_SSIZE_T_MAX / 4
        || sizes[1] > PY_SSIZE_T_MAX / 4 || !find_header(joined, values[0], values[1]))
        return NULL;
    Py_ssize_t header_size = PyBytes_GET_SIZE(joined->header);
    PyObject *value = PyBytes_FromStringAndSize(
        NULL, header_size + times_size + joined->mark_sizes[0] + sizes[0] - head
                  + joined->mark_sizes[1] + sizes[1] - head);
    if (value == NULL)
        return NULL;
    at = put(PyBytes_AS_STRING(value), PyBytes_AS_STRING(joined->header), header_size);
    at = put(at, times, times_size);
    for (int side = 0; side < 2; side++) {
        at = put(at, joined->marks[side], joined->mark_sizes[side]);
        at = put(at, values[side] + head, sizes[side] - head);
    }
    return value;
}

/* (match id, value or None, ts) of a pair; NULL without an exception is a doubt. */
static PyObject *match_of(Joined *joined, PyObject *pair)
{
    PyObject *rows[2];
    int64_t ts[2], start[2], end[2];
    if (!is_tuple(pair, 3))
        return NULL;
    for (int side = 0; side < 2; side++) {
        PyObject *row = rows[side] = PyTuple_GET_ITEM(pair, side);
        if (!is_tuple(row, ROW_SIZE) || !number_of(PyTuple_GET_ITEM(row, TS), &ts[side])
            || !number_of(PyTuple_GET_ITEM(row, START), &start[side])
            || !number_of(PyTuple_GET_ITEM(row, END), &end[side]))
            return NULL;
    }
    PyObject *name = match_id(PyTuple_GET_ITEM(rows[0], ID), PyTuple_GET_ITEM(rows[1], ID));
    if (name == NULL)
        return NULL;
    int retracted = PyTuple_GET_ITEM(pair, 2) == Py_None;
    PyObject *value = retracted
        ? Py_NewRef(Py_None)
        : match_value(joined, start[0] > start[1] ? start[0] : start[1],
                      end[0] < end[1] ? end[0] : end[1], PyTuple_GET_ITEM(rows[0], VALUE),
                      PyTuple_GET_ITEM(rows[1], VALUE));
    if (value == NULL
        || PyBytes_GET_SIZE(name) + (retracted ? 0 : PyBytes_GET_SIZE(value)) > joined->room) {
        Py_DECREF(name);
        Py_XDECREF(value);
        return NULL;
    }
    PyObject *later = PyTuple_GET_ITEM(rows[ts[0] > ts[1] ? 0 : 1], TS);
    PyObject *items[] = {name, value, Py_NewRef(later)};
    PyObject *match = tuple_of(items, 3);
    return match == NULL ? NULL : untracked(match);
}

/* (headers, header size, left mark, right mark); raises TypeError. */
static int read_pieces(PyObject *pieces, Joined *joined)
{
    int64_t size;
    if (!PyTuple_Check(pieces) || PyTuple_GET_SIZE(pieces) != 4
        || !PyDict_CheckExact(joined->headers = PyTuple_GET_ITEM(pieces, 0))
        || !number_of(PyTuple_GET_ITEM(pieces, 1), &size) || size < 0 || size > HEADER_MAX
        || !bytes_of(PyTuple_GET_ITEM(pieces, 2), &joined->marks[0], &joined->mark_sizes[0])
        || !bytes_of(PyTuple_GET_ITEM(pieces, 3), &joined->marks[1], &joined->mark_sizes[1])) {
        PyErr_SetString(PyExc_TypeError, "no pieces of matches");
        return 0;
    }
    joined->header_size = (Py_ssize_t)size;
    return 1;
}

/* matches(pairs, pieces, room, doubtful): the match of each pair, or what `doubtful(pair)` says,
 * unless that is None. See `emitted` in app/effects.py. */
PyObject *matches(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Joined joined = {.header = NULL};
    int64_t room;
    if (nargs != 4 || !PyList_CheckExact(args[0]) || !number_of(args[2], &room)) {
        PyErr_SetString(PyExc_TypeError, "matches(pairs, pieces, room, doubtful)");
        return NULL;
    }
    if (!read_pieces(args[1], &joined))
        return NULL;
    joined.room = room > PY_SSIZE_T_MAX ? PY_SSIZE_T_MAX : (Py_ssize_t)room;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *pair = Py_NewRef(PyList_GET_ITEM(args[0], at));
        PyObject *match = match_of(&joined, pair);
        if (match == NULL && !PyErr_Occurred())
            match = PyObject_CallOneArg(args[3], pair);
        Py_DECREF(pair);
        if (match == Py_None)
            Py_DECREF(match);
        else if (append(found, match) < 0)
            Py_CLEAR(found);
    }
    Py_XDECREF(joined.header);
    return found;
}
